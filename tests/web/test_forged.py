"""Two hundred posts that no page of the console sent, and two hundred readers without its token: nothing is done for any."""

import hmac
import time

import pytest

from bot.wiring.surfaces import command_hints
from tests.guarded import guarded, later

SECRET = "correct horse battery staple"
OWN = {"X-Trnbot": "console", "Sec-Fetch-Site": "same-origin"}
PAGE = {"Sec-Fetch-Site": "same-origin"}
EVIL = "https://evil.example"


@pytest.fixture
async def behind():
    return await guarded("web:local")


@pytest.fixture
async def door(open_console, behind):
    """Yield a client of an unlocked console on loopback."""
    return (
        await open_console(
            answer=behind.answer, clock=later, shelf=behind.door, hints=command_hints()
        )
    )[1]


@pytest.fixture
async def locked(open_console, behind):
    """Yield a client of a console that asks for its token."""
    return (
        await open_console(answer=behind.answer, clock=later, shelf=behind.door, secret=SECRET)
    )[1]


FORGERIES = {
    "without a proof": ({}, PAGE),
    "with a guessed token": ({"token": "x" * 32}, PAGE),
    "with an empty token": ({"token": ""}, PAGE),
    "from another site": ({}, OWN | {"Sec-Fetch-Site": "cross-site"}),
    "from a sister site": ({}, OWN | {"Sec-Fetch-Site": "same-site"}),
    "from an address bar": ({}, OWN | {"Sec-Fetch-Site": "none"}),
    "from another origin": ({}, OWN | {"Origin": EVIL}),
    "from a file": ({}, OWN | {"Origin": "null"}),
    "from another port": ({}, OWN | {"Origin": "http://127.0.0.1:1"}),
    "to a name that was bound anew": ({}, OWN | {"Host": "evil.example"}),
    "with the proof in a cookie": ({}, PAGE | {"Cookie": "token=x"}),
    "with the proof in a query": ({}, PAGE),
    "with a token of no letters": ({"token": "\x00é\u202e"}, PAGE),
    "with the header misspelt": ({}, PAGE | {"X-Trn": "console"}),
    "as text": ({"token": "1"}, PAGE | {"Content-Type": "text/plain"}),
    "from no page": ({}, {"X-Trnbot": "console"}),
}


@pytest.mark.parametrize("name", FORGERIES)
async def test_nothing_is_done_for_a_post_of_another_page(door, behind, name):
    fields, headers = FORGERIES[name]
    before, query = behind.state(), {"token": "x", "X-Trnbot": "console"} if "query" in name else {}
    for line in behind.lines():
        for path in ("/ask", "/form"):
            answer = await door.post(
                path, data={"line": line} | fields, headers=headers, params=query
            )
            assert answer.status in (
                {421} if "anew" in name else {415} if "text" in name else {403}
            ), await answer.text()
    assert (behind.asked, behind.state()) == ([], before)


def quoted(line):
    return " ".join(f'"{word}"' for word in line.split())


async def test_a_link_from_anywhere_changes_nothing(door, behind):
    before = behind.state()
    page = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    for site in (
        {},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "none"},
        {"Referer": EVIL},
    ):
        for line in (
            *behind.lines(),
            *(f"share {line}" for line in behind.lines()),
            *map(quoted, behind.lines()),
        ):
            assert (
                await door.get("/ask", params={"line": line}, headers=page | site)
            ).status == 200
    assert (behind.asked, behind.state()) == ([], before)


def cookie(secret, until):
    return f"trnbot_console=s1.{until}.{hmac.digest(secret.encode(), f'session s1 {until}'.encode(), 'sha256').hex()}"


STRANGERS = {
    "nobody": {},
    "who shows nothing": {"Authorization": "Bearer "},
    "who guesses": {"Authorization": "Bearer correct horse battery"},
    "who adds a letter": {"Authorization": f"Bearer {SECRET}s"},
    "who writes another case": {"Authorization": f"Bearer {SECRET.upper()}"},
    "who calls it a password": {"Authorization": f"Basic {SECRET}"},
    "with the token as a cookie": {"Cookie": f"trnbot_console={SECRET}"},
    "with a pass of another token": {"Cookie": cookie("another", int(time.time()) + 900)},
    "with a pass that ended": {"Cookie": cookie(SECRET, int(time.time()) - 1)},
    "with a pass without end": {"Cookie": f"trnbot_console=s1.{2**63}.{'0' * 64}"},
    "with half a pass": {"Cookie": cookie(SECRET, int(time.time()) + 900)[:-1]},
    "with letters for a time": {"Cookie": cookie("another", "never")},
}


@pytest.mark.parametrize("name", STRANGERS)
async def test_who_does_not_show_the_token_reads_and_changes_nothing(locked, behind, name, caplog):
    caplog.set_level("DEBUG")
    before = behind.state()
    for line in behind.lines():
        said = [
            await locked.post(path, data={"line": line}, headers=STRANGERS[name] | OWN)
            for path in ("/ask", "/form")
        ]
        said.append(await locked.get("/ask", params={"line": line}, headers=STRANGERS[name]))
        assert {answer.status for answer in said} <= {401, 429}  # 429: guessed too often
    assert (behind.asked, behind.state()) == ([], before)
    assert SECRET not in caplog.text


async def test_who_guesses_at_the_sign_in_gets_no_pass(locked, behind):
    before, page = behind.state(), await (await locked.get("/login")).text()
    form = page.split('name="token" value="')[1].split('"')[0]
    for i in range(200):
        wrong = (
            {"secret": SECRET, "token": f"{form[:-1]}{i}"}
            if i
            else {"secret": f"{SECRET}.", "token": form}
        )
        answer = await locked.post("/login", data=wrong, headers=PAGE, allow_redirects=False)
        assert (answer.status, "Set-Cookie" in answer.headers) == (403, False)
    assert (behind.asked, behind.state()) == ([], before)
