"""The server of the page: addresses, uploads, downloads and events."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any
from urllib.parse import quote

import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route

from cuspfa._utils.arguments import must_be
from cuspfa.app.file_names import shown_name
from cuspfa.app.security import Credentials, Guard, TooLarge
from cuspfa.app.sessions import WORKER, NotWritten, PageLimits, Session, Sessions
from cuspfa.errors import InputError

LOOPBACK = "127.0.0.1"
STATIC_FILES = {
    "app.css": ("cuspfa.app", "static/app.css", "text/css"),
    "app.js": ("cuspfa.app", "static/app.js", "text/javascript"),
    "report.css": ("cuspfa.reporting.html", "style.css", "text/css"),
    "report.js": ("cuspfa.reporting.html", "script.js", "text/javascript"),
}
"""Files of the package that are served: by name, none by its path."""
JOBS = ("example", "fit", "stop")
"""What a page may ask for by a message; files come by uploads."""
OUTPUT_TYPES = {"report": "text/html", "scores": "text/csv"}
LONGEST_WORDS = 1000
"""Letters of the name of a file, and of codes for missing values."""
TO_CLOSE = 2
"""Seconds that open connections have at the end."""
ALL_OPEN = (
    "<!DOCTYPE html><html lang='en'><meta charset='utf-8'><title>cuspfa</title>"
    "<h1>The largest number of pages is open</h1>"
    "<p>Close one of the other pages. This page opens then."
)
SECONDS_TO_RELOAD = "2"
"""Seconds after which a browser asks again for a page that had no place."""


def make_app(
    credentials: Credentials, limits: PageLimits, command: Sequence[str] = WORKER
) -> Guard:
    """The application, behind its guard.

    Parameters
    ----------
    credentials : Credentials
        Addresses, keys and cookie.
    limits : PageLimits
        What a person may use.
    command : list of str
        The program of a page's process.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.sessions = Sessions(limits, command)
        tending = asyncio.create_task(app.state.sessions.tend())
        try:
            yield
        finally:
            tending.cancel()
            await app.state.sessions.close()

    page = [
        Route("/", _page),
        Route("/events", _events),
        Route("/file", _upload, methods=["PUT"]),
        Route("/ask", _ask, methods=["POST"]),
        Route("/get/{what}", _download),
    ]
    inside = [
        Route("/", _new_page),
        Route("/static/{name}", _static),
        Mount("/page/{id}", routes=page),
    ]
    app = Starlette(
        routes=[Mount(credentials.place, routes=inside)],
        lifespan=lifespan,
        exception_handlers={TooLarge: _too_large, TimeoutError: _too_slow},
    )
    return Guard(app, credentials, limits.upload)


# --- answers ---


async def _too_large(request: Request, error: Exception) -> Response:
    return PlainTextResponse("The request is too large.", 413)


async def _too_slow(request: Request, error: Exception) -> Response:
    return PlainTextResponse("The request took too long.", 408)


async def _new_page(request: Request) -> Response:
    session = await request.app.state.sessions.create()
    if session is None:
        # A browser closes a page only after it has the next one: a place may be free very soon.
        return HTMLResponse(ALL_OPEN, 503, {"refresh": SECONDS_TO_RELOAD})
    return RedirectResponse(f"{request.url.path}page/{session.id}/", 303)


async def _page(request: Request) -> Response:
    if _session(request) is None:
        return RedirectResponse("../../", 303)
    return Response(_text("cuspfa.app", "static/page.html"), media_type="text/html")


async def _static(request: Request) -> Response:
    found = STATIC_FILES.get(request.path_params["name"])
    if found is None:
        return PlainTextResponse("Not found.", 404)
    package, name, kind = found
    return Response(_text(package, name), media_type=kind)


async def _events(request: Request) -> Response:
    session = _session(request)
    if session is None or session.is_full:
        return _gone()
    return StreamingResponse(session.events(), media_type="text/event-stream")


async def _upload(request: Request) -> Response:
    """The bytes of a file, written to the private folder; its name is for messages alone."""
    session = _session(request)
    if session is None:
        return _gone()
    name = shown_name(request.query_params.get("name", "")[:LONGEST_WORDS])
    missing = request.query_params.get("missing", "")[:LONGEST_WORDS]
    place = session.place_for(name)
    part = place.with_name(f"{place.name}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            async for chunk in request.stream():
                file.write(chunk)
        part.replace(place)
    except (TooLarge, ClientDisconnect, TimeoutError, OSError) as error:
        part.unlink(missing_ok=True)
        if isinstance(error, TooLarge):
            most = session.limits.upload // 2**20
            return PlainTextResponse(
                f"{name} has more than {most} MB. Fit it in the shell: cuspfa fit {name}", 413
            )
        if isinstance(error, (ClientDisconnect, TimeoutError)):
            raise
        return PlainTextResponse(f"{name} cannot be stored: {error.strerror}.", 507)
    session.ask({"do": "open", "path": place.name, "name": name, "missing": missing})
    return JSONResponse({})


async def _ask(request: Request) -> Response:
    session = _session(request)
    if session is None:
        return _gone()
    try:
        asked: Any = json.loads(await request.body())
    except (ValueError, RecursionError):
        return PlainTextResponse("The message is not JSON.", 400)
    if not isinstance(asked, dict) or asked.get("do") not in JOBS:
        return PlainTextResponse("Unknown job.", 400)
    job = {"do": asked["do"]}
    if job["do"] == "fit":
        job["settings"] = asked.get("settings")
    session.ask(job)
    return JSONResponse({})


async def _download(request: Request) -> Response:
    session = _session(request)
    if session is None:
        return _gone()
    asked = {name: value[:LONGEST_WORDS] for name, value in request.query_params.items()}
    what = request.path_params["what"]
    try:
        path, name = await session.write(what, asked)
    except NotWritten as error:
        return PlainTextResponse(str(error), 409)
    return FileResponse(
        path,
        media_type=OUTPUT_TYPES.get(what, "application/octet-stream"),
        headers={"content-disposition": f"attachment; filename*=UTF-8''{quote(name)}"},
        background=BackgroundTask(path.unlink, missing_ok=True),
    )


def _session(request: Request) -> Session | None:
    found: Session | None = request.app.state.sessions.find(request.path_params["id"])
    return found


def _gone() -> Response:
    return PlainTextResponse("This page has been closed. Load it again.", 404)


def _text(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")


# --- the server ---


def listen(port: int) -> socket.socket:
    """A socket on this machine alone; 0 takes any port that is free."""
    own = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name == "posix":
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        own.bind((LOOPBACK, port))
    except (OSError, OverflowError) as error:
        own.close()
        said = error.strerror if isinstance(error, OSError) else "it is no port"
        raise InputError(f"port {port} cannot be used: {said}. Choose another, or none.") from None
    return own


def serve(
    *,
    port: int = 0,
    limits: PageLimits | None = None,
    on_ready: Callable[[Credentials], None] = lambda credentials: None,
) -> None:
    """Serve the page until the process is interrupted.

    Parameters
    ----------
    port : int, default=0
        The port; 0 for any that is free.
    limits : PageLimits or None
        What a person may use; None for the default.
    on_ready : callable
        Called with the addresses once the server listens.
    """
    if not 0 <= port <= 65535:
        raise must_be("port", "a whole number from 0 to 65535", port)
    own = listen(port)
    credentials = Credentials(own.getsockname()[1])

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            on_ready(credentials)

    config = uvicorn.Config(
        make_app(credentials, limits or PageLimits()),
        lifespan="on",
        ws="none",
        log_config=None,  # addresses have the key
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=200,
        timeout_graceful_shutdown=TO_CLOSE,
    )
    with own:
        asyncio.run(Server(config).serve(sockets=[own]))
