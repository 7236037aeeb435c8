"""Where others can reach the console, it shows nothing to who does not know its token."""

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from adapters.web.auth import COOKIE, ConsoleAuth
from bot.cards.card import Card

SECRET = "correct horse battery staple"
PAGES = ("/", "/alerts", "/cost", "/fleet", "/ask?line=cost", "/alert/a1", "/events", "/metrics")


@pytest.fixture
async def locked(open_console):
    lines = []

    async def answer(request):
        lines.append(request.line)
        return Card("Cost of 7 days")

    _, client = await open_console(secret=SECRET, answer=answer)
    client.lines = lines
    return client


async def signed_in(client):
    form = (await (await client.get("/login")).text()).split('name="token" value="')[1].split('"')[0]
    return await client.post("/login", data={"secret": SECRET, "token": form}, allow_redirects=False)


@pytest.mark.parametrize("path", PAGES)
async def test_every_page_asks_a_person_to_sign_in_and_tells_a_program(locked, path):
    person = await locked.get(path, headers={"Accept": "text/html"}, allow_redirects=False)
    program = await locked.get(path)
    assert (person.status, person.headers["Location"], program.status) == (303, "/login", 401)
    assert "trnbot_ticks" not in await program.text()
    assert locked.lines == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {SECRET}"},
        {"Cookie": "trnbot_console=99999999999.00"},
        {"Cookie": "trnbot_console=x"},
        {"Cookie": f"trnbot_console={SECRET}"},
        {"Cookie": "trnbot_console="},
    ],
)
async def test_what_is_not_the_token_opens_nothing(locked, headers):
    for path in ("/", "/metrics"):
        assert (await locked.get(path, headers=headers, allow_redirects=False)).status == 401
    own = headers | {"X-Trnbot": "console"}
    assert (await locked.post("/ask", data={"line": "ack a1"}, headers=own)).status == 401
    assert locked.lines == []


async def test_signing_in_gives_a_cookie_that_no_script_reads_and_no_other_site_sends(locked):
    answer = await signed_in(locked)
    cookie = answer.headers["Set-Cookie"]
    assert answer.status == 303
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert SECRET not in cookie
    page = await locked.get("/cost")
    assert (page.status, locked.lines) == (200, ["cost 7d by team"])


async def test_a_cookie_ends_and_its_end_cannot_be_moved(locked):
    await signed_in(locked)
    (cookie,) = [one.value for one in locked.session.cookie_jar if one.key == "trnbot_console"]
    until, _, sign = cookie.partition(".")
    locked.session.cookie_jar.clear()
    moved = {"Cookie": f"trnbot_console={int(until) + 1}.{sign}"}
    assert (await locked.get("/metrics", headers=moved)).status == 401
    assert (await locked.get("/metrics", headers={"Cookie": f"trnbot_console={cookie}"})).status == 200


def test_a_cookie_lasts_a_week_and_no_second_longer():
    now = [1_000.0]
    auth, answer = ConsoleAuth(SECRET, secure=True, seconds=lambda: now[0]), web.Response()
    auth.enter(answer)
    shown = make_mocked_request("GET", "/", headers={"Cookie": f"{COOKIE}={answer.cookies[COOKIE].value}"})
    admitted = []
    for passed in (0, 7 * 86_400, 7 * 86_400 + 1):
        now[0] = 1_000.0 + passed
        admitted.append(auth.admits(shown))
    assert admitted == [True, True, False]


async def test_a_program_shows_the_token_in_a_header(locked):
    bearer = {"Authorization": f"Bearer {SECRET}"}
    assert "trnbot_ticks_total" in await (await locked.get("/metrics", headers=bearer)).text()
    assert set(await (await locked.get("/healthz")).json()) == {"ok"}
    assert "usd_per_hour" in await (await locked.get("/healthz", headers=bearer)).json()


@pytest.mark.parametrize(
    ("data", "headers"),
    [({"secret": SECRET}, {}), ({"secret": SECRET, "token": "x"}, {}), ({"secret": SECRET}, {"Origin": "https://evil.example"})],
)
async def test_another_site_cannot_sign_somebody_in(locked, data, headers):
    answer = await locked.post("/login", data=data, headers=headers, allow_redirects=False)
    assert (answer.status, "Set-Cookie" in answer.headers) == (403, False)


async def test_two_processes_with_one_token_take_each_others_pages(open_console):
    _, one = await open_console(secret=SECRET)
    _, other = await open_console(secret=SECRET)
    form = (await (await one.get("/login")).text()).split('name="token" value="')[1].split('"')[0]
    answer = await other.post("/login", data={"secret": SECRET, "token": form}, allow_redirects=False)
    assert answer.status == 303
    passed = {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}
    assert (await one.get("/metrics", headers=passed)).status == 200


async def test_behind_https_the_cookie_travels_by_https_alone_and_the_proxys_name_is_known(open_console):
    _, client = await open_console(secret=SECRET, public_url="https://trn.corp.example")
    answer = await client.get("/login", headers={"Host": "trn.corp.example"})
    form = (await answer.text()).split('name="token" value="')[1].split('"')[0]
    entered = await client.post("/login", data={"secret": SECRET, "token": form}, allow_redirects=False)
    assert (answer.status, "Secure" in entered.headers["Set-Cookie"]) == (200, True)
