import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from adapters.http import HEADERS, application
from bot.cards.card import Card
from bot.model.request import Manner
from bot.wiring.surfaces import command_hints
from tests.cases import in_one_run
from tests.e2e.console_server import surface

EVIL = "https://evil.example"


async def test_another_sites_post_is_refused(open_console):
    _, client = await open_console()
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": EVIL},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "null"},
    ):
        said = await client.post(
            "/ask", data={"line": "ack a1"}, headers={**headers, "X-Trnbot": "console"}
        )
        assert said.status == 403, headers


@pytest.mark.parametrize("path", ["/ask", "/form"])
async def test_a_post_needs_the_header_or_the_token(open_console, path):
    _, client = await open_console()
    own = {"Sec-Fetch-Site": "same-origin"}
    assert (await client.post(path, data={"line": "ack a1"}, headers=own)).status == 403
    assert (
        await client.post(path, data={"line": "ack a1", "token": "wrongé"}, headers=own)
    ).status == 403
    assert (
        await client.post(path, data={"line": "why a1"}, headers=own | {"X-Trnbot": "console"})
    ).status == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8080", 200),
        ("127.0.0.1", 200),
        ("[::1]:99", 200),
        ("LOCALHOST", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example:80", 421),
        ("[bad", 421),
    ],
)
async def test_loopback_answers_to_loopback_names_alone(open_console, host, status):
    _, client = await open_console()
    assert (await client.get("/healthz", headers={"Host": host})).status == status


async def test_a_proxys_name_can_be_allowed(open_console):
    _, client = await open_console(public_url="http://Trn.corp.example")
    assert (await client.get("/", headers={"Host": "trn.corp.example"})).status == 200


async def test_every_page_forbids_what_is_not_its_own(open_console):
    _, client = await open_console()
    for path in ("/", "/cost", "/ask", "/healthz", "/static/console.js"):
        said = await client.get(path)
        policy = said.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy


async def test_pages_load_nothing_from_elsewhere_and_hold_no_inline_script(open_console):
    _console, client = await open_console()
    page = await (await client.get("/cost")).text()
    assert "style=" not in page
    assert "<script>" not in page
    assert not [part for part in page.split('src="')[1:] if not part.startswith("/static/")]


NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
OWN, ADDRESS, LINK = (
    {"Sec-Fetch-Site": site} | NAVIGATION for site in ("same-origin", "none", "cross-site")
)


@pytest.mark.parametrize(
    ("line", "headers", "runs"),
    [
        ("snooze a1", LINK, False),
        ("snooze a1", ADDRESS, False),
        ("snooze a1", {}, False),
        ("snooze a1", OWN, False),
        ("share cost", ADDRESS, False),
        ("share cost", OWN, False),
        ("backtest 7d", OWN, False),
        ('"backtest" 7d', ADDRESS, False),
        ("ack a1", LINK, False),
        ("cost 7d by team", LINK, False),
        ("cost 7d by team", LINK | {"Sec-Fetch-Site": "same-site"}, False),
        ("cost 7d by team", OWN, True),
        ("cost 7d by team", ADDRESS, True),
        ("why a1", {}, True),
        ("why a1", {"Referer": f"{EVIL}/", "Accept": "text/html,*/*"}, False),
    ],
)
async def test_an_address_runs_what_only_reads_and_a_link_from_elsewhere_nothing(
    open_console, line, headers, runs
):
    requests = []

    async def answer(request):
        requests.append(request)
        return Card("x")

    _, client = await open_console(answer=answer)
    response = await client.get("/ask", params={"line": line}, headers=headers)
    assert response.status == 200
    assert [(one.line, one.manner) for one in requests] == ([(line, Manner.VIEWED)] if runs else [])
    assert runs or "It runs when you press" in await response.text()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ack a1", "which prepares or makes a change, or notifies other people"),
        ("backtest 7d", "which changes nothing but may take a while"),
        ("share cost", "which answers for everyone who reads this console"),
        ("cost", "which reads and changes nothing"),
    ],
)
async def test_a_line_that_waits_says_how_far_it_reaches(open_console, line, words):
    _, client = await open_console()
    assert words in await (await client.get("/ask", params={"line": line}, headers=LINK)).text()


PAGES = (
    "/",
    "/alerts",
    "/cost",
    "/alert/a1",
    "/ask?line=cost",
    "/ask",
    "/now",
    "/events",
    "/metrics",
    "/healthz",
)
PAGES = (*PAGES, "/static/console.js", "/login")
PARTS = {
    "an image": {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    "a script": {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
    "a call": {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
    "a frame": {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    "an object": {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "object"},
    "a prefetch": {
        "Sec-Fetch-Mode": "no-cors",
        "Sec-Fetch-Dest": "empty",
        "Sec-Purpose": "prefetch",
    },
    "a part that says nothing more": {},
}


@in_one_run
@pytest.mark.parametrize("site", ["cross-site", "same-site", "a word of tomorrow"])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("path", PAGES)
async def test_no_page_is_a_part_of_another_site(open_console, path, part, site):
    _, client = await open_console()
    response = await client.get(path, headers={"Sec-Fetch-Site": site} | PARTS[part])
    assert response.status == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": EVIL},
        {"Origin": "null"},
        {"Referer": f"{EVIL}/x", "Accept": "image/*"},
        {"Referer": "http://[", "Accept": "*/*"},
    ],
)
async def test_browsers_without_fetch_metadata_are_judged_by_origin_and_referer(
    open_console, headers
):
    _, client = await open_console()
    for path in PAGES:
        assert (await client.get(path, headers=headers)).status == 403, path


@pytest.mark.parametrize(
    "path", [path for path in PAGES if path not in ("/events", "/ask?line=cost")]
)
async def test_a_link_from_elsewhere_opens_every_page(open_console, path):
    _, client = await open_console()
    assert (await client.get(path, headers=LINK)).status == 200


async def test_a_program_reads_and_presses_nothing(open_console):
    lines = []

    async def answer(request):
        lines.append(request.line)
        return Card("x")

    _, client = await open_console(answer=answer)
    assert (await client.get("/ask", params={"line": "why a1"})).status == 200
    for headers in ({"X-Trnbot": "console"}, {"X-Trnbot": "console", **ADDRESS}):
        assert (await client.post("/ask", data={"line": "ack a1"}, headers=headers)).status == 403
    assert lines == ["why a1"]


POLICY_LINES = ('config "undo"', 'config "apply" p1', 'silences "drop" m0', 'checklist "done" 1')
HOTLINKS = {
    "by Fetch Metadata": {
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "no-cors",
        "Sec-Fetch-Dest": "image",
    },
    "by its referrer": {"Referer": f"{EVIL}/", "Accept": "image/avif,image/webp,*/*"},
    "by nothing": {},
}


@pytest.mark.parametrize("line", POLICY_LINES)
@pytest.mark.parametrize("told", HOTLINKS)
async def test_an_img_src_of_another_site_changes_nothing_however_its_line_is_quoted(
    open_console, told, line
):
    asked = []

    async def answer(request):
        asked.append(request.line)
        return Card("x")

    _, client = await open_console(answer=answer, hints=command_hints())
    response = await client.get("/ask", params={"line": line}, headers=HOTLINKS[told])
    assert (response.status, asked) == (403 if HOTLINKS[told] else 200, [])


ERRORS = [
    ("GET", "/nothing", 404),
    ("DELETE", "/", 405),
    ("GET", "/broken", 500),
    ("POST", "/ask", 403),
    ("GET", "/x%00", 404),
]


class Broken:
    """A listener whose one page fails."""

    def routes(self):
        async def page(_):
            raise ValueError("a fault of ours")

        return (web.get("/broken", page), web.post("/long", self.read))

    async def read(self, request):
        await request.read()


@pytest.mark.parametrize(("method", "path", "status"), ERRORS)
async def test_404s_and_every_other_error_carry_the_security_headers_and_name_no_server(
    method, path, status
):
    async with TestClient(TestServer(application([surface(), Broken()]))) as client:
        response = await client.request(method, path)
        assert response.status == status
        assert {name: response.headers.get(name) for name in HEADERS} == HEADERS
        assert "Server" not in response.headers


async def test_a_form_longer_than_any_line_is_refused_with_the_same_headers(open_console):
    _, client = await open_console()
    own = {"Sec-Fetch-Site": "same-origin"}
    for path in ("/ask", "/form", "/login", "/logout"):
        response = await client.post(path, data={"line": "x" * 70_000}, headers=own)
        assert response.status == 413
        assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"--x\r\nabcde",
        b'--x\r\nContent-Disposition: form-data; name="line"\r\n\r\nack a1\r\n--x--\r\n',
    ],
)
async def test_a_form_is_sent_in_one_way_and_another_is_refused_unread(open_console, sent):
    _, client = await open_console()
    headers = {
        "Sec-Fetch-Site": "same-origin",
        "X-Trnbot": "console",
        "Content-Type": "multipart/form-data; boundary=x",
    }
    assert (await client.post("/ask", data=sent, headers=headers)).status == 415


@pytest.mark.parametrize(
    "sent",
    [
        b"G@T / HTTP/9\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
        b"GET /" + b"x" * 9_000 + b" HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_told_no_version(open_console, sent):
    _, client = await open_console()
    reader, writer = await asyncio.open_connection(client.host, client.port)
    writer.write(sent)
    answer = await reader.read(4_000)
    writer.close()
    assert b" 400 " in answer
    assert b"aiohttp" not in answer
    assert b"Python" not in answer
