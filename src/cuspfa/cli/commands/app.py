"""The command `cuspfa app`."""

from __future__ import annotations

import webbrowser
from contextlib import suppress
from typing import TYPE_CHECKING

from cuspfa._utils.arguments import positive, whole
from cuspfa._utils.optional import needed
from cuspfa.cli.console import Terminal
from cuspfa.errors import InputError

if TYPE_CHECKING:
    from cuspfa.app.security import Credentials

PAGE_PACKAGES = {"starlette": "app", "uvicorn": "app", "jinja2": "cli", "matplotlib": "cli"}


def run_page(*, port: int, browser: bool, max_upload: int, max_time: float) -> None:
    """Serve the page until Ctrl-C."""
    for package, extra in PAGE_PACKAGES.items():
        needed(package, "The page", extra)
    from cuspfa.app.server import serve
    from cuspfa.app.sessions import PageLimits

    whole("--port", port, 0)
    limits = PageLimits(
        upload=whole("--max-upload", max_upload, 1) * 2**20,
        seconds=positive("--max-time", max_time),
    )

    def on_ready(credentials: Credentials) -> None:
        console = Terminal()
        console.print(
            "Open this address in a browser. It works only on this machine, and has your key:",
            soft_wrap=True,
        )
        console.print(credentials.printed_address, soft_wrap=True, markup=False)
        console.print("Ctrl-C ends it and removes the data.", soft_wrap=True)
        if browser:
            webbrowser.open(credentials.opened_address)

    if port > 65535:
        raise InputError(f"--port must be a number up to 65535, or 0 for any. Got {port} instead.")
    with suppress(KeyboardInterrupt):
        serve(port=port, limits=limits, on_ready=on_ready)
