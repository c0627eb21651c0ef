"""Who may ask for what: the checks that every request passes before anything looks at it.

The server listens on 127.0.0.1. Everybody on the machine, and every page in the browser, can
connect to it. So each request needs a cookie that only the person has who started the program:

- The address that is opened has a key. It is exchanged at once for the cookie, by a redirect, so
  that it stays neither in the address bar nor in a referrer. Processes of other people may see the
  key in the arguments of the browser: it is good for one exchange. The key of the address that the
  terminal prints is good for more.
- The cookie is HttpOnly and SameSite=Strict, and its path begins with random letters: a browser
  sends cookies of a host to all ports, but not to other paths.
- The Host must be that of the server, so that no other name leads to it (DNS rebinding). An Origin
  must be the server's own, and every request that changes something must have one (CSRF).
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "cuspfa"
SAFE_METHODS = ("GET", "HEAD")
OWN_SITES = ("same-origin", "none")
"""Values of Sec-Fetch-Site of a request by the page itself, or by the person."""
LARGEST_MESSAGE = 1 << 22
"""Bytes of a request that is no upload."""
SLOWEST_PART = 60.0
"""Seconds until the next part of a request must have come."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Nothing but the page's own script and style, and nothing from elsewhere."""
ANSWER_HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
NO_ENTRY = (
    "<!DOCTYPE html><html lang='en'><meta charset='utf-8'><title>cuspfa</title>"
    "<h1>This page is not open to you</h1><p>Open the address that the terminal shows where "
    "<code>cuspfa app</code> was started. If you have just done so, <a href='{home}'>continue</a>."
)


class Credentials:
    """The random parts of the addresses, the keys, and the cookie that every request needs."""

    def __init__(self, port: int) -> None:
        self.host = f"127.0.0.1:{port}"
        self.place = f"/{secrets.token_urlsafe(16)}"
        """The path that all addresses begin with."""
        self._cookie = secrets.token_urlsafe(32)
        self._printed, self._opened = secrets.token_urlsafe(32), [secrets.token_urlsafe(32)]

    @property
    def printed_address(self) -> str:
        """For the terminal, which nobody else sees."""
        return self._address(self._printed)

    @property
    def opened_address(self) -> str:
        """For the browser; it can be used once."""
        return self._address(self._opened[0])

    def _address(self, key: str) -> str:
        return f"http://{self.host}{self.place}/enter?key={key}"

    def accepts_key(self, key: str) -> bool:
        """Is it one of the keys? That of the browser is used up."""
        if self._opened and _same(key, self._opened[0]):
            self._opened.clear()
            return True
        return _same(key, self._printed)

    def has_cookie(self, cookies: str) -> bool:
        """Is the cookie among these?"""
        pairs = (one.strip().partition("=") for one in cookies.split(";"))
        return any(name == COOKIE and _same(value, self._cookie) for name, _, value in pairs)

    @property
    def cookie(self) -> str:
        """The header that sets the cookie."""
        return f"{COOKIE}={self._cookie}; Path={self.place}; HttpOnly; SameSite=Strict"


def _same(first: str, second: str) -> bool:
    return hmac.compare_digest(first.encode(), second.encode())


class TooLarge(Exception):
    """A request has more bytes than it may."""


class Guard:
    """Refuses requests that may not come in, and gives every answer the headers of security."""

    def __init__(self, app: ASGIApp, credentials: Credentials, largest_upload: int) -> None:
        self.app, self.credentials, self.largest_upload = app, credentials, largest_upload

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # a WebSocket is not accepted

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(ANSWER_HEADERS)
            await send(message)

        answer = self._refusal(scope)
        if answer is not None:
            await answer(scope, receive, send_guarded)
            return
        largest = self.largest_upload if scope["method"] == "PUT" else LARGEST_MESSAGE
        await self.app(scope, _limited(receive, largest), send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """The refusal, or the exchange of a key; None to go on."""
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        own = f"http://{self.credentials.host}"
        if headers.getlist("host") != [self.credentials.host]:
            return PlainTextResponse("Unknown host.", 421)
        if not path.startswith(f"{self.credentials.place}/"):
            return PlainTextResponse("Not found.", 404)
        if any(one != own for one in headers.getlist("origin")):
            return PlainTextResponse("Another origin.", 403)
        if method not in SAFE_METHODS and not headers.getlist("origin"):
            return PlainTextResponse("No origin.", 403)
        home = f"{self.credentials.place}/"
        if path == f"{home}enter" and method == "GET":
            keys = parse_qs(scope["query_string"].decode("latin-1")).get("key", [""])
            if self.credentials.accepts_key(keys[0]):
                return RedirectResponse(home, 303, {"set-cookie": self.credentials.cookie})
            return HTMLResponse(NO_ENTRY.format(home=home), 403)
        if headers.get("sec-fetch-site", "none") not in OWN_SITES:
            return HTMLResponse(NO_ENTRY.format(home=home), 403)
        if not self.credentials.has_cookie(headers.get("cookie", "")):
            return HTMLResponse(NO_ENTRY.format(home=home), 403)
        return None


def _limited(receive: Receive, largest: int) -> Receive:
    """The messages of a request, as long as they are not too many and not too slow."""
    taken, complete = 0, False

    async def limited() -> Message:
        nonlocal taken, complete
        if complete:  # what comes next says that the other side has gone
            return await receive()
        message = await asyncio.wait_for(receive(), SLOWEST_PART)
        taken += len(message.get("body", b""))
        complete = not message.get("more_body", False)
        if taken > largest:
            raise TooLarge
        return message

    return limited
