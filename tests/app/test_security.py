"""Every check of a request, and what one person can see of another."""

import asyncio
import os
import socket
import stat
import sys
import time

import httpx
import pytest

from app_server import served
from cuspfa.app import security, sessions
from cuspfa.app.security import Credentials
from cuspfa.app.server import listen
from cuspfa.app.sessions import PageLimits, Session
from cuspfa.errors import InputError

IDLE_WORKER = (sys.executable, "-c", "import sys; [0 for line in sys.stdin]")
"""A process that does nothing until its input ends."""


@pytest.fixture(scope="module")
def server():
    with served(PageLimits(pages=2, upload=1000), IDLE_WORKER) as found:
        yield found


@pytest.fixture
def credentials(server):
    return server.credentials


@pytest.fixture
def own(server):
    """The header of a request that the page itself makes."""
    return {"origin": f"http://{server.credentials.host}"}


@pytest.fixture
def client(server):
    """One that has not exchanged the key."""
    server.client.cookies.clear()
    return server.client


@pytest.fixture(scope="module")
def page(server):
    """The address of a page; it ends with a slash."""
    return server.enter()


@pytest.fixture
def inside(server, page):
    """A client that has exchanged the key."""
    server.client.get(server.credentials.printed_address, follow_redirects=False)
    return server.client


@pytest.fixture
def fresh():
    """A server of its own."""
    with served(PageLimits(pages=2, upload=1000), IDLE_WORKER) as found:
        yield found


def test_the_key_becomes_a_cookie_and_leaves_the_address(client, page, credentials):
    answer = client.get(credentials.printed_address, follow_redirects=False)
    assert answer.status_code == 303
    key = credentials.printed_address.rpartition("=")[2]
    assert answer.headers["location"] == f"{credentials.place}/"
    cookie = answer.headers["set-cookie"]
    assert key not in cookie
    words = [word.strip() for word in cookie.split(";")[1:]]
    assert words == [f"Path={credentials.place}", "HttpOnly", "SameSite=Strict"]
    assert key not in page


def test_the_key_of_the_browser_is_good_once_and_that_of_the_terminal_again(fresh):
    client, credentials = fresh.client, fresh.credentials
    opened, printed = credentials.opened_address, credentials.printed_address
    assert client.get(opened, follow_redirects=False).status_code == 303
    client.cookies.clear()
    assert client.get(opened, follow_redirects=False).status_code == 403
    for _ in range(2):
        assert client.get(printed, follow_redirects=False).status_code == 303


@pytest.mark.parametrize("key", ["", "wrong", "é"])
def test_another_key_is_refused(client, credentials, key):
    answer = client.get(f"{credentials.place}/enter", params={"key": key})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_keys_and_cookies_differ_between_servers(credentials):
    other = Credentials(1)
    assert credentials.place != other.place
    addresses = [
        address
        for one in (credentials, other, Credentials(1))
        for address in (one.printed_address, one._address(one._cookie))
    ]
    addresses += [other.opened_address, Credentials(1).opened_address]
    secrets = {one.rpartition("=")[2] for one in addresses}
    assert len(secrets) == len(addresses)
    assert min(map(len, secrets)) >= 43  # 32 random bytes
    assert not other.has_cookie(credentials.cookie.partition(";")[0])
    assert credentials.has_cookie(credentials.cookie.partition(";")[0])


@pytest.mark.parametrize("cookie", [None, "cuspfa=", "cuspfa=wrong", "other=1", "cuspfa=\x7f;;="])
def test_nobody_without_the_cookie_sees_anything(client, credentials, own, cookie):
    with_cookie = {} if cookie is None else {"cookie": cookie}
    for path in ("/", "/static/app.js", "/page/x/", "/page/x/events", "/page/x/get/fit"):
        assert client.get(f"{credentials.place}{path}", headers=with_cookie).status_code == 403
    put = client.put(f"{credentials.place}/page/x/file", content=b"a", headers=own | with_cookie)
    assert put.status_code == 403
    posted = client.post(
        f"{credentials.place}/page/x/ask", json={"do": "stop"}, headers=own | with_cookie
    )
    assert posted.status_code == 403


@pytest.mark.parametrize("host", ["localhost:{}", "127.0.0.1", "evil.example:{}", "127.0.0.1:1"])
def test_another_host_is_refused(inside, page, host):
    port = httpx.URL(page).port
    assert inside.get(page).status_code == 200
    assert inside.get(page, headers={"host": host.format(port)}).status_code == 421


def test_two_hosts_are_refused(server, credentials):
    scope = {
        "type": "http",
        "method": "GET",
        "path": f"{credentials.place}/",
        "query_string": b"",
        "headers": [(b"host", credentials.host.encode()), (b"host", b"evil.example")],
    }
    assert status_of(server.app, scope) == 421


def status_of(app, scope, messages=()):
    """The status of an answer without a server."""
    found, waiting = [], list(messages)

    async def receive():
        if waiting:
            return waiting.pop(0)
        await asyncio.sleep(10)

    async def send(message):
        found.append(message)

    asyncio.run(app(scope, receive, send))
    return found[0]["status"]


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://localhost"]
)
def test_another_origin_is_refused(inside, page, own, origin):
    ask = {"do": "stop"}
    assert inside.post(f"{page}ask", json=ask, headers=own).status_code == 200
    assert inside.post(f"{page}ask", json=ask, headers={"origin": origin}).status_code == 403
    assert inside.get(page, headers={"origin": origin}).status_code == 403


def test_a_change_without_an_origin_is_refused(inside, page):
    assert inside.post(f"{page}ask", json={"do": "stop"}).status_code == 403
    assert inside.put(f"{page}file?name=a.csv", content=b"a").status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_request_that_another_page_makes_is_refused(inside, page, site):
    assert inside.get(page, headers={"sec-fetch-site": "same-origin"}).status_code == 200
    assert inside.get(page, headers={"sec-fetch-site": "none"}).status_code == 200
    assert inside.get(page, headers={"sec-fetch-site": site}).status_code == 403


def test_other_methods_and_web_sockets_are_refused(inside, server, page, own):
    assert inside.request("DELETE", page).status_code == 403
    assert inside.request("DELETE", page, headers=own).status_code == 405
    assert inside.request("TRACE", page, headers=own).status_code == 405
    sent: list[object] = []
    scope = {"type": "websocket", "path": httpx.URL(page).path, "headers": []}
    asyncio.run(server.app(scope, None, sent.append))
    assert sent == []


def test_addresses_without_the_random_letters_are_not_known(inside):
    for path in ("/", "/static/app.js", "/enter", "/page/x/"):
        assert inside.get(path).status_code == 404


def test_every_answer_has_the_headers_of_security(inside, page, credentials, own):
    client = inside
    home = f"{credentials.place}/"
    answers = [
        client.get(page),
        client.get(f"{home}static/app.js"),
        client.get(f"{home}static/none"),
        client.get(f"{home}enter?key=wrong"),
        client.get("/"),
        client.get(home, headers={"host": "evil.example"}),
        client.post(f"{home}page/x/ask", json={}, headers=own),
    ]
    assert [one.status_code for one in answers] == [200, 200, 404, 403, 404, 421, 404]
    for one in answers:
        policy = dict(
            part.split(" ", 1) for part in one.headers["content-security-policy"].split("; ")
        )
        assert policy == {
            "default-src": "'none'",
            "script-src": "'self'",
            "style-src": "'self'",
            "img-src": "'self' data:",
            "connect-src": "'self'",
            "base-uri": "'none'",
            "form-action": "'none'",
            "frame-ancestors": "'none'",
        }
        assert one.headers["referrer-policy"] == "no-referrer"
        assert one.headers["x-content-type-options"] == "nosniff"
        assert one.headers["x-frame-options"] == "DENY"
        assert one.headers["cross-origin-opener-policy"] == "same-origin"
        assert one.headers["cross-origin-resource-policy"] == "same-origin"
        assert one.headers["cache-control"] == "no-store"


def test_cookies_of_other_programs_do_not_matter(inside, page, credentials):
    own = credentials.cookie.partition(";")[0]
    others = ["a,b=1", "cuspfa=wrong", "=", 'x="; y', "\x7f"]
    inside.cookies.clear()
    assert (
        inside.get(page, headers={"cookie": "; ".join([*others, own, *others])}).status_code == 200
    )
    assert inside.get(page, headers={"cookie": "; ".join(others)}).status_code == 403


def test_the_server_listens_on_this_machine_alone(server):
    with listen(0) as found:
        found.listen()
        assert found.getsockname()[0] == "127.0.0.1"
        with pytest.raises(InputError, match="cannot be used"):
            listen(found.getsockname()[1])
    port = httpx.URL(server.credentials.printed_address).port
    with socket.create_connection(("127.0.0.1", port), 5):
        pass
    # All of 127/8 are this machine; a server on every interface would answer here too.
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", port), 5)


def test_only_the_named_files_of_the_package_are_served(inside, credentials):
    for name in ("app.js", "app.css", "report.js", "report.css"):
        assert inside.get(f"{credentials.place}/static/{name}").status_code == 200
    for name in ("server.py", "..%2Fserver.py", "page.html", "%2Fetc%2Fpasswd", "../server.py"):
        assert inside.get(f"{credentials.place}/static/{name}").status_code == 404


@pytest.mark.parametrize(
    "name",
    [
        "../../evil.csv",
        "/etc/evil.csv",
        "..\\evil.csv",
        "a\0b.csv",
        ".csv",
        "",
        "x" * 5000 + ".csv",
        "a.sh",
    ],
)
def test_an_upload_is_stored_where_its_name_has_no_say(server, inside, page, own, name):
    root = server.sessions.folder
    for old in root.rglob("upload*"):
        old.unlink()
    answer = inside.put(f"{page}file", params={"name": name}, content=b"a,b\n", headers=own)
    assert answer.status_code == 200
    files = [one for one in root.rglob("*") if one.is_file()]
    assert len(files) == 1
    assert files[0].parent.parent == root
    assert files[0].name in ("upload", "upload.csv")
    assert files[0].read_bytes() == b"a,b\n"


@pytest.mark.skipif(os.name != "posix", reason="Windows has no modes of files")
def test_nobody_else_can_read_the_files(fresh):
    page, own = fresh.enter(), fresh.own
    before = os.umask(0)  # as permissive as it can be
    try:
        fresh.client.put(f"{page}file", params={"name": "a.csv"}, content=b"a,b\n", headers=own)
    finally:
        os.umask(before)
    root = fresh.sessions.folder
    places = [root, *root.rglob("*")]
    assert sum(one.is_file() for one in places) == 1
    for one in places:
        assert stat.S_IMODE(one.stat().st_mode) == (0o600 if one.is_file() else 0o700)


def test_an_upload_that_is_too_large_is_refused_and_removed(fresh):
    page, own, inside = fresh.enter(), fresh.own, fresh.client
    most = {"params": {"name": "a.csv"}, "headers": own}
    assert inside.put(f"{page}file", content=b"x" * 1000, **most).status_code == 200
    answer = inside.put(f"{page}file", content=b"x" * 1001, **most)
    assert answer.status_code == 413
    assert "a.csv" in answer.text
    kept = [one.stat().st_size for one in fresh.sessions.folder.rglob("*") if one.is_file()]
    assert kept == [1000]  # the one before


def test_a_message_that_is_too_large_is_refused(inside, page, own, monkeypatch):
    monkeypatch.setattr(security, "LARGEST_MESSAGE", 100)
    asked = {"do": "stop", "more": "x" * 100}
    assert inside.post(f"{page}ask", json=asked, headers=own).status_code == 413
    assert inside.post(f"{page}ask", json={"do": "stop"}, headers=own).status_code == 200


def test_a_request_that_does_not_go_on_ends(server, page, own, monkeypatch):
    monkeypatch.setattr(security, "SLOWEST_PART", 0.1)
    cookie = "; ".join(f"{name}={value}" for name, value in server.client.cookies.items())
    with socket.create_connection(("127.0.0.1", httpx.URL(page).port), 10) as connection:
        lines = [
            f"POST {httpx.URL(page).path}ask HTTP/1.1",
            f"Host: {server.credentials.host}",
            f"Origin: {own['origin']}",
            f"Cookie: {cookie}",
            "Content-Length: 15",
        ]
        connection.sendall("\r\n".join([*lines, "", '{"do":']).encode())
        assert b" 408 " in connection.recv(4096).split(b"\r\n")[0]
    answer = server.client.post(f"{page}ask", json={"do": "stop"}, headers=own)
    assert answer.status_code == 200


def test_messages_that_are_no_jobs_are_refused(inside, page, own):
    for content in (
        b"",
        b"{",
        b"[" * 100_000,
        b"[]",
        b'{"do": "open", "path": "/etc/passwd"}',
        b'{"do": []}',
    ):
        answer = inside.post(f"{page}ask", content=content, headers=own)
        assert answer.status_code == 400
    assert inside.post(f"{page}ask", json={"do": "write", "id": 1}, headers=own).status_code == 400


def test_nothing_but_what_a_job_needs_is_passed_on(server, inside, page, own, monkeypatch):
    told: list[object] = []
    monkeypatch.setattr(Session, "_tell", lambda self, job: told.append(job))
    for do in ("example", "stop", "fit"):
        asked = {"do": do, "path": "/etc/passwd", "name": "x", "settings": {"n_factors": 1}}
        assert inside.post(f"{page}ask", json=asked, headers=own).status_code == 200
    settings = {"n_factors": 1}
    assert told == [{"do": "example"}, {"do": "stop"}, {"do": "fit", "settings": settings}]


def test_a_page_has_as_many_listeners_as_may_be(fresh):
    page = fresh.enter()
    session = fresh.sessions.find(page.split("/")[-2])
    session._listeners |= {asyncio.Queue() for _ in range(sessions.MOST_LISTENERS - 1)}
    with fresh.client.stream("GET", f"{page}events") as last:
        assert last.status_code == 200
        lines = last.iter_lines()
        next(lines)
        with fresh.client.stream("GET", f"{page}events") as another:
            assert another.status_code == 404


def test_there_are_as_many_pages_as_may_be(fresh):
    fresh.enter()
    for expected in (200, 503):  # one is open already
        answer = fresh.client.get(f"{fresh.credentials.place}/")
        assert answer.status_code == expected
    # It is asked for again, because a page before it may just be about to close.
    assert 1 <= int(answer.headers["refresh"]) <= 5


def test_a_new_page_takes_the_place_of_the_one_that_was_closed_first(fresh, monkeypatch):
    pages = [fresh.sessions.find(fresh.enter().split("/")[-2]) for _ in range(2)]
    for session, ago in zip(pages, (5.0, 10.0), strict=True):
        monkeypatch.setattr(session, "_left", time.monotonic() - ago)
    pages[0]._listeners.add(asyncio.Queue())
    third = fresh.sessions.find(fresh.enter().split("/")[-2])
    assert fresh.sessions.find(pages[1].id) is None
    assert not pages[1].folder.exists()
    assert pages[1].process.returncode is not None
    assert fresh.sessions.find(pages[0].id) is pages[0]
    third._listeners.add(asyncio.Queue())  # now all are listened to
    assert fresh.client.get(f"{fresh.credentials.place}/").status_code == 503


def test_a_page_that_was_never_listened_to_gives_its_place_too(fresh, monkeypatch):
    first = fresh.sessions.find(fresh.enter().split("/")[-2])
    fresh.enter()
    assert fresh.client.get(f"{fresh.credentials.place}/").status_code == 503
    waited = sessions.BEFORE_OPENING - sessions.AFTER_CLOSING
    monkeypatch.setattr(first, "_left", first._left - waited)
    fresh.enter()
    assert fresh.sessions.find(first.id) is None


def test_pages_are_tended_also_if_one_gives_its_place_meanwhile(fresh, monkeypatch):
    pages = [fresh.sessions.find(fresh.enter().split("/")[-2]) for _ in range(2)]

    async def close_with_the_other():
        fresh.sessions._open.pop(pages[1].id, None)

    monkeypatch.setattr(pages[0], "close", close_with_the_other)
    for one in pages:
        monkeypatch.setattr(one, "_left", time.monotonic() - 2 * sessions.AFTER_CLOSING)
    until = time.monotonic() + 20
    while fresh.sessions._open and time.monotonic() < until:
        time.sleep(0.05)
    monkeypatch.undo()
    third = fresh.sessions.find(fresh.enter().split("/")[-2])
    third._left = time.monotonic() - 2 * sessions.AFTER_CLOSING
    while fresh.sessions._open and time.monotonic() < until:
        time.sleep(0.05)
    assert not fresh.sessions._open


def test_a_browser_can_ask_for_something_with_all_pages_open():
    connections_to_a_host = 6  # of HTTP/1.1, in Chromium and Firefox
    assert PageLimits().pages <= connections_to_a_host - 2


def test_a_page_that_is_not_there_leads_to_a_new_one(inside, credentials):
    answer = inside.get(f"{credentials.place}/page/none/", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "../../")
    assert inside.get(f"{credentials.place}/page/none/events").status_code == 404


def test_a_closed_page_gives_its_process_and_its_files_back(fresh, monkeypatch):
    server, page = fresh, fresh.enter()
    session = server.sessions.find(page.split("/")[-2])
    assert session.process.returncode is None
    monkeypatch.setattr(sessions, "AFTER_CLOSING", -1e6)
    until = time.monotonic() + 20
    while server.sessions.find(session.id) is not None and time.monotonic() < until:
        time.sleep(0.05)
    while session.folder.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert server.sessions.find(session.id) is None
    assert not session.folder.exists()
    assert session.process.returncode is not None


def test_a_page_that_is_listened_to_is_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(sessions, "AFTER_CLOSING", 0.0)

    async def listened():
        session = Session(tmp_path, PageLimits(), IDLE_WORKER)
        events = session.events()
        await anext(events)
        kept = session.is_left
        await events.aclose()
        await asyncio.sleep(0.01)
        return kept, session.is_left

    assert asyncio.run(listened()) == (False, True)


def test_the_files_are_removed_when_the_server_ends():
    with served(PageLimits(), IDLE_WORKER) as server:
        page = server.enter()
        put = {"params": {"name": "a.csv"}, "headers": server.own}
        server.client.put(f"{page}file", content=b"a\n", **put)
        folder, session = server.sessions.folder, server.sessions.find(page.split("/")[-2])
        assert list(folder.rglob("upload.csv"))
    assert not folder.exists()
    assert session.process.returncode is not None


def test_the_server_looks_for_jobs_that_take_too_long(monkeypatch):
    monkeypatch.setattr(sessions, "TO_END", 0.0)
    with served(PageLimits(seconds=0.01), IDLE_WORKER) as server:
        page = server.enter()
        session = server.sessions.find(page.split("/")[-2])
        asked = {"do": "fit", "settings": {}}
        assert server.client.post(f"{page}ask", json=asked, headers=server.own).status_code == 200
        until = time.monotonic() + 60
        while "trouble" not in session._latest and time.monotonic() < until:
            time.sleep(0.05)
        assert "Fit again" in session._latest["trouble"]


def test_a_job_that_takes_too_long_is_stopped_and_then_killed(monkeypatch, tmp_path):
    folder = tmp_path / "page"
    folder.mkdir()
    monkeypatch.setattr(sessions, "TO_END", 0.2)

    async def overdue():
        session = Session(folder, PageLimits(seconds=0.05), IDLE_WORKER)
        await session.start()
        first = session.process
        told: list[object] = []
        monkeypatch.setattr(session, "_tell", told.append)
        session.ask({"do": "fit"})
        session.check_time()
        early = list(told)
        await asyncio.sleep(0.1)
        session.check_time()
        session.check_time()
        late = list(told)
        await asyncio.sleep(0.3)
        session.check_time()
        await first.wait()
        while session.process is first:
            await asyncio.sleep(0.01)
        said = session._latest["trouble"]
        await session.close()
        return early, late, said

    early, late, said = asyncio.run(overdue())
    assert early == [{"do": "fit"}]
    assert late == [{"do": "fit"}, {"do": "stop"}]
    assert "It took too long" in said
