"""The application behind a real socket: in a thread of the tests, or as the program."""

import os
import re
import subprocess
import sys
import threading
from contextlib import contextmanager

import httpx
import uvicorn

from cuspfa.app.security import Credentials
from cuspfa.app.server import listen, make_app


class Served:
    """A server with its addresses, and a browser that follows redirects."""

    def __init__(self, app, credentials):
        self.app, self.credentials = app, credentials
        self.own = {"origin": f"http://{credentials.host}"}
        self.client = httpx.Client(
            base_url=f"http://{credentials.host}", follow_redirects=True, timeout=60
        )

    @property
    def sessions(self):
        return self.app.app.state.sessions

    def enter(self):
        """Exchange the key; the address of a page, which ends with a slash."""
        answer = self.client.get(self.credentials.printed_address)
        assert answer.status_code == 200
        return str(answer.url)


@contextmanager
def served(limits, command):
    own = listen(0)
    credentials = Credentials(own.getsockname()[1])
    app = make_app(credentials, limits, command)
    server = uvicorn.Server(
        uvicorn.Config(app, lifespan="on", ws="none", log_config=None, timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [own]}, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
    found = Served(app, credentials)
    try:
        yield found
    finally:
        found.client.close()
        server.should_exit = True
        thread.join(20)
        own.close()


class Program:
    """`cuspfa app` with a browser."""

    def __init__(self, folder, *options):
        self.folder = folder
        words = [sys.executable, "-m", "cuspfa", "app", "--no-browser", *options]
        variables = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "TMPDIR": str(folder),
            "TEMP": str(folder),
            "PYTHONUNBUFFERED": "1",
        }
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=variables, text=True
        )
        self.said: list[str] = []
        while not self.said or "Ctrl-C" not in self.said[-1]:
            line = self.process.stdout.readline()
            assert line, self.said
            self.said.append(line)
        self.address = next(one.strip() for one in self.said if one.startswith("http://"))
        self.client = httpx.Client(follow_redirects=True, timeout=120)

    def enter(self):
        return str(self.client.get(self.address).url)

    @property
    def own(self):
        return {"origin": re.match("http://[^/]+", self.address)[0]}

    def folders(self):
        return [one for one in self.folder.iterdir() if one.name.startswith("cuspfa-app-")]

    def close(self):
        self.client.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
