"""Where others can reach the console, it shows nothing to who does not know its token."""

import asyncio
from urllib.parse import quote

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from adapters.web.auth import ConsoleAuth
from bot.cards.card import Card
from tests.e2e.console_server import MemoryShelf

SECRET = "correct horse battery staple"
PAGE = {"Sec-Fetch-Site": "same-origin"}
LINK = {
    "Sec-Fetch-Site": "cross-site",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
    "Accept": "text/html",
}
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


async def sign_in(client, secret=SECRET, **headers):
    form = (
        (await (await client.get("/login")).text()).split('name="token" value="')[1].split('"')[0]
    )
    return await client.post(
        "/login",
        data={"secret": secret, "token": form},
        headers=PAGE | headers,
        allow_redirects=False,
    )


def cookie_of(answer):
    return {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}


@pytest.mark.parametrize(
    ("to", "there"),
    [("/ask?line=cost%207d", "/ask?line=cost%207d"), ("//evil.example", "/"), ("", "/")],
)
async def test_who_signs_in_comes_to_the_page_that_a_link_named_and_to_no_other_site(
    locked, to, there
):
    page = await (await locked.get("/login", params={"to": to})).text()
    assert f'name="to" value="{there}"' in page
    form = page.split('name="token" value="')[1].split('"')[0]
    data = {"secret": SECRET, "token": form, "to": to}
    entered = await locked.post("/login", data=data, headers=PAGE, allow_redirects=False)
    assert (entered.status, entered.headers["Location"]) == (303, there)


@pytest.mark.parametrize("path", PAGES)
async def test_every_page_asks_a_person_to_sign_in_and_tells_a_program(locked, path):
    person = await locked.get(path, headers={"Accept": "text/html"}, allow_redirects=False)
    program = await locked.get(path)
    wanted = "/login" if path == "/" else f"/login?to={quote(path, safe='')}"
    assert (person.status, person.headers["Location"], program.status) == (303, wanted, 401)
    assert "trnbot_ticks" not in await program.text()
    assert locked.lines == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {SECRET}"},
        {"Cookie": "trnbot_console=s1.99999999999.00"},
        {"Cookie": "trnbot_console=x"},
        {"Cookie": f"trnbot_console={SECRET}"},
        {"Cookie": "trnbot_console="},
    ],
)
async def test_what_is_not_the_token_opens_nothing(locked, headers):
    for path in ("/", "/metrics"):
        assert (await locked.get(path, headers=headers, allow_redirects=False)).status == 401
    own = headers | PAGE | {"X-Trnbot": "console"}
    assert (await locked.post("/ask", data={"line": "ack a1"}, headers=own)).status == 401
    assert locked.lines == []


async def test_signing_in_gives_a_cookie_that_no_script_reads_and_no_other_site_sends(locked):
    answer = await sign_in(locked)
    cookie = answer.headers["Set-Cookie"]
    assert answer.status == 303
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert SECRET not in cookie
    page = await locked.get("/cost")
    assert (page.status, locked.lines) == (200, ["cost 7d by team"])


async def test_a_cookie_ends_and_its_end_cannot_be_moved(locked):
    await sign_in(locked)
    (cookie,) = [one.value for one in locked.session.cookie_jar if one.key == "trnbot_console"]
    session, until, sign = cookie.split(".")
    locked.session.cookie_jar.clear()
    for moved in (
        f"{session}.{int(until) + 1}.{sign}",
        f"s1.{until}.{sign}",
        f"{session}{until}..{sign}",
        f"{session}.{until}",
    ):
        assert (
            await locked.get("/metrics", headers={"Cookie": f"trnbot_console={moved}"})
        ).status == 401
    assert (
        await locked.get("/metrics", headers={"Cookie": f"trnbot_console={cookie}"})
    ).status == 200


async def test_a_cookie_lasts_a_week_and_no_second_longer():
    now = [1_000.0]
    auth, answer = (
        ConsoleAuth(SECRET, MemoryShelf(), secure=True, seconds=lambda: now[0]),
        web.Response(),
    )
    auth.begin(answer)
    ((name, cookie),) = answer.cookies.items()
    shown = make_mocked_request("GET", "/", headers={"Cookie": f"{name}={cookie.value}"})
    admitted = []
    for passed in (0, 7 * 86_400, 7 * 86_400 + 1):
        now[0] = 1_000.0 + passed
        admitted.append(await auth.admits(shown))
    assert admitted == [True, True, False]


async def test_a_program_shows_the_token_in_a_header(locked):
    bearer = {"Authorization": f"Bearer {SECRET}"}
    assert "trnbot_ticks_total" in await (await locked.get("/metrics", headers=bearer)).text()
    assert set(await (await locked.get("/healthz")).json()) == {"ok"}
    assert "usd_per_hour" in await (await locked.get("/healthz", headers=bearer)).json()


@pytest.mark.parametrize(
    ("data", "headers"),
    [
        ({"secret": SECRET}, {}),
        ({"secret": SECRET, "token": "x"}, {}),
        ({"secret": SECRET}, {"Origin": "https://evil.example"}),
        ({"secret": SECRET}, PAGE),
    ],
)
async def test_another_site_cannot_sign_somebody_in(locked, data, headers):
    answer = await locked.post("/login", data=data, headers=headers, allow_redirects=False)
    assert (answer.status, "Set-Cookie" in answer.headers) == (403, False)


async def test_two_processes_with_one_token_take_each_others_pages(open_console):
    _, one = await open_console(secret=SECRET)
    _, other = await open_console(secret=SECRET)
    form = (await (await one.get("/login")).text()).split('name="token" value="')[1].split('"')[0]
    answer = await other.post(
        "/login", data={"secret": SECRET, "token": form}, headers=PAGE, allow_redirects=False
    )
    assert answer.status == 303
    assert (await one.get("/metrics", headers=cookie_of(answer))).status == 200


async def test_behind_https_the_cookie_travels_by_https_alone_and_the_proxys_name_is_known(
    open_console,
):
    _, client = await open_console(secret=SECRET, public_url="https://trn.corp.example")
    answer = await client.get("/login", headers={"Host": "trn.corp.example"})
    form = (await answer.text()).split('name="token" value="')[1].split('"')[0]
    entered = await client.post(
        "/login", data={"secret": SECRET, "token": form}, headers=PAGE, allow_redirects=False
    )
    cookie = entered.headers["Set-Cookie"]
    assert (answer.status, "Secure" in cookie, "Path=/" in cookie, "Domain" in cookie) == (
        200,
        True,
        True,
        False,
    )
    assert cookie.startswith("__Host-trnbot_console=")


async def leave(client, cookie):
    page = await (await client.get("/", headers=cookie)).text()
    assert "Sign out" in page
    form = page.split('action="/logout"')[1].split('name="token" value="')[1].split('"')[0]
    return await client.post(
        "/logout", data={"token": form}, headers=PAGE | cookie, allow_redirects=False
    )


async def test_there_is_a_logout_and_it_ends_a_cookie_that_was_stolen_before(open_console):
    shelf = MemoryShelf()
    (_, one), (_, other) = [await open_console(secret=SECRET, shelf=shelf) for _ in range(2)]
    mine, elsewhere = [cookie_of(await sign_in(one)) for _ in range(2)]
    for client in (one, other):
        client.session.cookie_jar.clear()
    left = await leave(one, mine)
    assert (
        left.status,
        left.headers["Location"],
        'trnbot_console=""' in left.headers["Set-Cookie"],
    ) == (303, "/login", True)
    for client in (one, other):  # another process of the same database, too
        assert (await client.get("/metrics", headers=mine)).status == 401
        assert (await client.get("/metrics", headers=elsewhere)).status == 200


async def test_logging_out_ends_the_stream_of_events_that_a_thief_listens_to(open_console):
    _, client = await open_console(secret=SECRET)
    mine = cookie_of(await sign_in(client))
    client.session.cookie_jar.clear()
    async with client.get("/events", headers=mine) as stream:
        await stream.content.readuntil(b"event: status")
        await leave(client, mine)
        async with asyncio.timeout(20):
            await stream.content.read()


async def test_another_site_cannot_sign_somebody_out(locked):
    mine = cookie_of(await sign_in(locked))
    assert (
        await locked.post("/logout", headers=mine | {"Origin": "https://evil.example"})
    ).status == 403
    assert (await locked.post("/logout", headers=mine | PAGE)).status == 403
    assert (await locked.get("/logout", headers=mine)).status == 405
    assert (await locked.get("/metrics", headers=mine)).status == 200


async def test_sessions_that_ended_are_kept_until_their_cookies_end():
    shelf, now = MemoryShelf(), [1_000.0]
    auth = ConsoleAuth(SECRET, shelf, secure=False, seconds=lambda: now[0])
    for count in (1, 2, 2):
        answer = web.Response()
        auth.begin(answer)
        ((name, cookie),) = answer.cookies.items()
        request = make_mocked_request(
            "POST", "/logout", headers={"Cookie": f"{name}={cookie.value}"}
        )
        await auth.end(request, web.Response())
        assert (len(shelf.rows), await auth.admits(request)) == (count, False)
        now[0] += 6 * 86_400


async def test_a_console_without_a_token_shows_no_way_out(open_console):
    _, client = await open_console()
    assert "Sign out" not in await (await client.get("/")).text()


async def test_guessing_at_once_is_bounded_for_each_address(locked):
    answers = await asyncio.gather(*(sign_in(locked, f"guess {i} of many") for i in range(60)))
    assert [sorted(answer.status for answer in answers).count(status) for status in (403, 429)] == [
        10,
        50,
    ]
    late = await sign_in(locked)
    assert (late.status, "Set-Cookie" in late.headers, "wait a minute" in await late.text()) == (
        429,
        False,
        True,
    )
    bearer = await locked.get("/metrics", headers={"Authorization": f"Bearer {SECRET}"})
    assert (bearer.status, bearer.headers["Retry-After"]) == (429, "60")


async def test_programs_cannot_guess_faster_than_people(locked):
    wrong = {"Authorization": "Bearer guess"}
    statuses = [(await locked.get("/metrics", headers=wrong)).status for _ in range(12)]
    assert statuses == [401] * 10 + [429] * 2


async def test_after_a_minute_an_address_may_try_again_and_another_need_not_wait():
    now = [1_000.0]
    auth = ConsoleAuth(SECRET, MemoryShelf(), secure=False, seconds=lambda: now[0])
    for i in range(10):
        assert not auth.opens("wrong", f"2001:db8::{i:x}")
    with pytest.raises(web.HTTPTooManyRequests):
        auth.opens(SECRET, "2001:db8::ffff")
    assert auth.opens(SECRET, "2001:db8:0:1::1")
    assert auth.opens(SECRET, "192.0.2.1")
    now[0] += 61
    assert auth.opens(SECRET, "2001:db8::ffff")


async def test_a_link_to_an_alert_opens_it_for_who_is_signed_in_already(locked):
    """A browser keeps the cookie back from a link of another site; the page then loads itself once more."""
    locked.session.cookie_jar.clear()
    answer = await locked.get("/alert/a1", headers=LINK, allow_redirects=False)
    assert (answer.status, 'http-equiv="refresh"' in await answer.text()) == (200, True)
    again = await locked.get("/alert/a1", headers=LINK | PAGE, allow_redirects=False)
    assert (again.status, again.headers["Location"]) == (303, "/login?to=%2Falert%2Fa1")
    assert locked.lines == []
