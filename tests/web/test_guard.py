import pytest

from bot.cards.card import Card

EVIL = "https://evil.example"


async def test_another_sites_post_is_refused(open_console):
    _, client = await open_console()
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": EVIL}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "null"}):
        said = await client.post("/ask", data={"line": "ack a1"}, headers={**headers, "X-Trnbot": "console"})
        assert said.status == 403, headers


@pytest.mark.parametrize("path", ["/ask", "/form"])
async def test_a_post_needs_the_header_or_the_token(open_console, path):
    _, client = await open_console()
    assert (await client.post(path, data={"line": "ack a1"})).status == 403
    assert (await client.post(path, data={"line": "ack a1", "token": "wrongé"})).status == 403
    assert (await client.post(path, data={"line": "why a1"}, headers={"X-Trnbot": "console"})).status == 200


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
    _, client = await open_console(hosts=("Trn.corp.example",))
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


@pytest.mark.parametrize(
    ("line", "site", "runs"),
    [
        ("snooze a1", "cross-site", False),
        ("snooze a1", "none", False),
        ("snooze a1", None, False),
        ("share cost", "none", False),
        ("ack a1", "cross-site", False),
        ("snooze a1", "same-origin", True),
        ("cost 7d by team", "cross-site", True),
        ("why a1", None, True),
    ],
)
async def test_a_link_from_elsewhere_runs_only_what_reads(open_console, line, site, runs):
    lines = []

    async def answer(request):
        lines.append(request.line)
        return Card("x")

    _, client = await open_console(answer=answer)
    page = await (await client.get("/ask", params={"line": line}, headers={"Sec-Fetch-Site": site} if site else {})).text()
    assert lines == ([line] if runs else [])
    assert runs or "It runs when you press" in page
