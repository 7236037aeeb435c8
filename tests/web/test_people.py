"""People and programs are known by name, and each door does for them what SECURITY.md's table says."""

import asyncio
import base64
import ipaddress
import json
import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import ClientSession, CookieJar
from aiohttp.test_utils import TestClient, TestServer

from adapters.http import application
from adapters.web.api import Api
from adapters.web.people import (
    SCOPES,
    TOKENS,
    Known,
    OidcConfig,
    OidcProvider,
    ProgramToken,
    Proxy,
    Roles,
    make_token,
)
from bot.errors import NotAllowed, Unavailable, WrongInput
from bot.model.request import LOCAL, Request, Role, User
from bot.settings.keys import console_roles
from bot.wiring.programs import ToolCalls, tool_ports
from tests.e2e.console_server import MemoryShelf, surface
from tests.guarded import guarded, later

SECRET = "correct horse battery staple"
OWN = {"Sec-Fetch-Site": "same-origin", "X-Trnbot": "console"}
FROM_PROVIDER = {
    "Sec-Fetch-Site": "cross-site",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
    "Accept": "text/html",
}
ROLES = Roles(console_roles("rita@x.org = reader; mel@x.org = member; group:ops = admin"))
PROXY = Proxy((ipaddress.ip_network("127.0.0.1"),), "X-Forwarded-User", "X-Forwarded-Groups")
PEOPLE = {"reader": "rita@x.org", "member": "Mel@x.org", "admin": "ada@x.org"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
MCP = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


class Console:
    """Serve a bot behind a console that knows people."""

    def __init__(self, known, secret=SECRET):
        self.shelf, self.asked, self._known, self._secret = MemoryShelf(), [], known, secret

    async def __aenter__(self):
        from adapters.mcp.server import ToolListener

        self.bot = await guarded("chat:U1")

        async def answer(request):
            self.asked.append(request)
            return await self.bot.bot.answer(replace(request, at=later()))

        async def opened(_):
            return self.bot.bot, later()

        self.page = surface(secret=self._secret, answer=answer, known=self._known, shelf=self.shelf)
        ports = tool_ports(ToolCalls(opened, User("web:local", "a program"), "web"))
        api = Api(ports.call.read, ports.tools, ports.version, self.page.admitting)
        self.tools = ToolListener(ports, self.page.admitting, "")
        self.client = TestClient(
            TestServer(application([self.page, api, self.tools])), cookie_jar=CookieJar(unsafe=True)
        )
        await self.tools.start()
        await self.client.start_server()
        return self

    async def __aexit__(self, *_):
        await self.page.stop()
        await self.tools.stop()
        await self.client.close()

    def token(self, scope, lines=60, ends=timedelta(days=1), name=""):
        now = datetime.now(UTC)
        made = ProgramToken("", scope, now + ends, lines, now, "terminal:root")
        return {"Authorization": f"Bearer {make_token(self.shelf, name or scope, made)}"}

    async def asks(self, line):
        channel = "web:alerts"
        request = Request(line, User("chat:U1"), later(), "web", LOCAL, channel)
        return await self.bot.bot.answer(request)

    async def types(self, line, headers):
        return await self.client.post("/ask", data={"line": line}, headers=OWN | headers)


@pytest.fixture(scope="module")
def provider():
    """Yield the address of a provider of another hand that knows three people, and one unverified."""
    from oidc_provider_mock import User as Account
    from oidc_provider_mock import run_server_in_thread

    accounts = [
        Account(sub=name, claims={"email": name, "email_verified": True, "name": name[:3]})
        for name in PEOPLE.values()
    ]
    accounts[2].claims["groups"] = ["ops"]
    accounts.append(Account(sub="eve", claims={"email": "ada@x.org", "email_verified": False}))
    accounts.append(Account(sub="sam@x.org", claims={"email": "sam@x.org", "email_verified": True}))
    with run_server_in_thread(user_claims=accounts) as server:
        yield f"http://localhost:{server.server_port}"


def known_by(provider, claim="email"):
    config = OidcConfig(provider, "trnbot", "s3cret", claim)
    return Known(ROLES, PROXY, OidcProvider(config), b"s3cret")


async def signed_in(console, sub, change=lambda address: address):
    """Sign in as a browser does, and return the console's last answer and the cookie it gave."""
    begun = await console.client.get("/login/provider?to=/cost", allow_redirects=False)
    async with ClientSession() as browser:
        there = begun.headers["Location"]
        decided = await browser.post(there, data={"sub": sub}, allow_redirects=False)
    back = change(decided.headers["Location"])
    path = back[back.index("/login/back") :]
    return await console.client.get(path, headers=FROM_PROVIDER, allow_redirects=False)


def doors():
    """Return the table of SECURITY.md: for each door, who may, by column."""
    text = Path("SECURITY.md").read_text().partition("## What opens to whom on the console")[2]
    rows = [
        [cell.strip() for cell in line.strip("| ").split("|")]
        for line in text.partition("\n## ")[0].splitlines()
        if line.startswith("|")
    ]
    return {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[2:]}


async def opens(console, door, headers):
    """Return whether a door does what it is for."""
    kind, what = door.partition("`")[2].partition("`")[0].split(" ", 1) if "/" in door else ("", "")
    if what == "/mcp":
        said = await console.client.post(what, json=LIST, headers=MCP | headers)
        return said.status == 200 and "tools" in (await said.json())["result"]
    if kind == "GET":
        said = await console.client.get(what, headers=headers, allow_redirects=False)
        return said.status == 200
    line = door.partition("`")[2].partition("`")[0]
    line += f" {console.bot.alert}" if line == "useful" else ""
    if line == "subscribe":  # what the one before subscribed would be refused
        await console.asks("unsubscribe")
    said = await console.types(line, headers)
    return said.status in (200, 204) and said.headers["X-Trnbot-Tone"] != "error"


async def test_each_cell_of_the_table_of_doors_holds_by_every_way(provider):
    async with Console(known_by(provider)) as console:
        ways = {"nobody": [{}], "token: metrics": [console.token("metrics")]}
        ways["the shared token"] = [{"Authorization": f"Bearer {SECRET}"}]
        for role, name in PEOPLE.items():
            groups = {"X-Forwarded-Groups": "dev, ops"} if role == "admin" else {}
            await signed_in(console, name)
            (cookie,) = (x for x in console.client.session.cookie_jar if "console" in x.key)
            console.client.session.cookie_jar.clear()
            session = {"Cookie": f"{cookie.key}={cookie.value}"}
            ways[role] = [session, {"X-Forwarded-User": name} | groups, console.token(role)]

        wrong, tried = [], 0
        for door, columns in doors().items():
            assert columns.keys() == ways.keys()
            for who, may in columns.items():
                for number, headers in enumerate(ways[who]):
                    tried += 1
                    if await opens(console, door, headers) != {"yes": True, "no": False}[may]:
                        wrong.append((door, who, number))
    assert (wrong, tried) == ([], 8 * (3 + 3 * 3))


async def test_decisions_and_shares_bear_the_name_of_who_signed_in(provider):
    async with Console(known_by(provider)) as console:
        await signed_in(console, PEOPLE["member"])
        await console.types(f"ack {console.bot.alert}", {})
        token = console.token("member", lines=2, name="grafana")
        statuses = [
            (await console.client.get("/api/v1/alerts", headers=token)).status for _ in range(3)
        ]
        await console.types("alerts", token)
        (decision,) = console.bot.store.decisions(console.bot.alert)
    assert (decision.by, decision.by_name) == ("web:mel@x.org", "Mel")
    assert console.asked[-1].user.id == "web:token-grafana"
    assert statuses[0] == 200


@pytest.mark.parametrize(
    ("sub", "change", "sentence"),
    [
        ("eve", lambda x: x, "does not say that your address is verified"),
        ("sam@x.org", lambda x: x, "has no role here"),
        ("ada@x.org", lambda x: x.replace("state=", "state=x"), "did not start signing in here"),
        ("ada@x.org", lambda x: x.replace("code=", "code=x"), "does not prove who you are"),
        ("ada@x.org", lambda x: x.replace("code=", "error="), "signed nobody in"),
    ],
)
async def test_who_is_not_known_is_not_signed_in(provider, sub, change, sentence):
    async with Console(known_by(provider)) as console:
        answer = await signed_in(console, sub, change)
        page = unescape(await answer.text())
        assert (answer.status, sentence in page) == (403, True), page
        assert (await console.client.get("/metrics")).status == 401


async def test_a_claim_that_the_provider_does_not_make_is_named(provider):
    async with Console(known_by(provider, "nickname")) as console:
        answer = await signed_in(console, "ada@x.org")
        assert "says no 'nickname' of you; TRNBOT_OIDC_CLAIM" in unescape(await answer.text())
        assert answer.status == 403


async def test_a_provider_that_is_away_is_said_to_be():
    async with Console(known_by("http://127.0.0.1:1")) as console:
        answer = await console.client.get("/login/provider", headers=OWN, allow_redirects=False)
        assert "http://127.0.0.1:1 does not answer" in unescape(await answer.text())
        assert answer.status == 503


async def test_a_session_ends_with_the_rule_that_gave_its_role(provider):
    known = known_by(provider)
    async with Console(known) as console:
        await signed_in(console, PEOPLE["member"])
        assert (await console.client.get("/metrics")).status == 200
        console.page._auth.known = replace(known, roles=Roles(console_roles("rita@x.org = reader")))
        assert (await console.client.get("/metrics")).status == 401


def test_without_rules_everybody_reads_and_an_address_that_is_none_is_no_proxy():
    assert Roles(()).of("eve@x.org", ()) is Role.ANYONE
    assert ROLES.of("eve@x.org", ()) is None
    assert not PROXY.trusts("unix:")


def forged(token, **changed):
    """Return an id token with other claims, and one that says it needs no signature."""
    head, body, sign = token.split(".")
    pad = "=" * (-len(body) % 4)
    claims = json.loads(base64.urlsafe_b64decode(body + pad)) | changed
    text = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    return f"{head}.{text}.{sign}", f"{none}.{text}."


async def test_a_token_counts_only_if_the_provider_signed_it_for_this_sign_in(provider):
    """Each change is played at the provider's own answer, as somebody between the two could."""
    known = OidcProvider(OidcConfig(provider, "trnbot", "s3cret"))
    back = "http://localhost:1/login/back"

    def signed(alter=lambda answer: answer, **changed):
        there, begun = known.begin(back, "/")
        import requests

        decided = requests.post(there, data={"sub": "ada@x.org"}, allow_redirects=False)
        code = decided.headers["Location"].partition("code=")[2].partition("&")[0]
        session = known._session
        known._session = lambda to: Altered(session(to), alter)
        try:
            return known.finish(back, code, replace(begun, **changed))
        finally:
            known._session = session

    assert (await asyncio.to_thread(signed))[0] == "ada@x.org"
    wrong = [{"alter": lambda x: x | {"id_token": forged(x["id_token"], email="e@x.org")[0]}}]
    wrong += [{"alter": lambda x: x | {"id_token": forged(x["id_token"])[1]}}]
    wrong += [{"alter": lambda x: {k: v for k, v in x.items() if k != "id_token"}}]
    wrong += [{"nonce": "another"}]
    for change in wrong:
        with pytest.raises(NotAllowed, match="does not prove who you are"):
            await asyncio.to_thread(signed, **change)


class Altered:
    """Pass everything on but the answer of the token endpoint."""

    def __init__(self, session, alter):
        self._session, self._alter = session, alter

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._session.close()

    def __getattr__(self, name):
        return getattr(self._session, name)

    def fetch_token(self, *args, **kwargs):
        return self._alter(dict(self._session.fetch_token(*args, **kwargs)))


async def test_a_proxys_header_counts_once_and_from_its_own_address():
    elsewhere = replace(PROXY, networks=(ipaddress.ip_network("10.0.0.0/8"),))
    named = {"X-Forwarded-User": "ada@x.org", "X-Forwarded-Groups": "ops"}
    twice = [("X-Forwarded-User", "mel@x.org"), ("X-Forwarded-User", "ada@x.org")]
    for proxy, headers, status in (
        (PROXY, named, 200),
        (elsewhere, named, 401),
        (PROXY, twice, 401),
        (PROXY, {"X-Forwarded-User": "local"}, 403),
        (PROXY, {"X-Forwarded-User": "nobody@x.org"}, 403),
        (PROXY, {}, 401),
    ):
        async with Console(Known(ROLES, proxy), secret="") as console:
            assert (await console.client.get("/metrics", headers=headers)).status == status


async def test_a_session_cannot_be_written_by_who_knows_the_shared_token(provider):
    """Also where no provider is: what a session says of a person is believed of a provider alone."""
    from aiohttp import web

    from adapters.web.auth import ConsoleAuth
    from adapters.web.people import packed

    shared = ConsoleAuth(SECRET, MemoryShelf(), secure=False)
    answer = web.Response()
    shared.begin(answer, packed(("ada@x.org", "Ada", ("ops",))))
    cookie = {"Cookie": f"trnbot_console={answer.cookies['trnbot_console'].value}"}
    for known in (known_by(provider), Known(ROLES, PROXY), Known()):
        async with Console(known) as console:
            assert (await console.client.get("/metrics", headers=cookie)).status == 401


async def test_a_session_ends_with_the_shared_token_that_began_it(provider):
    """Where people sign in by a provider too, whose secret signs the cookies of both."""
    from aiohttp import web

    from adapters.web.auth import ConsoleAuth

    known = known_by(provider)
    for token, status in (("leaked", 401), (SECRET, 200)):
        answer = web.Response()
        ConsoleAuth(token, MemoryShelf(), secure=False, known=known).begin(answer)
        cookie = {"Cookie": f"trnbot_console={answer.cookies['trnbot_console'].value}"}
        async with Console(known) as console:
            assert (await console.client.get("/metrics", headers=cookie)).status == status
        async with Console(known, secret="") as console:
            assert (await console.client.get("/metrics", headers=cookie)).status == 401


async def test_a_token_ends_by_time_and_by_being_revoked_and_guessing_it_is_bounded():
    async with Console(Known()) as console:
        headers = console.token("reader", name="one")
        over = console.token("reader", ends=timedelta(seconds=-1), name="two")
        statuses = [(await console.client.get("/", headers=x)).status for x in (headers, over)]
        assert statuses == [200, 401]
        console.shelf.drop("web.tokens", "one")
        guesses = [(await console.client.get("/", headers=headers)).status for _ in range(11)]
    assert guesses == [401] * 9 + [429] * 2
    assert "secret" not in str(console.shelf.rows)


async def test_a_token_that_is_made_anew_ends_the_old_one_with_the_next_request():
    async with Console(Known()) as console:
        old = console.token("member", name="ci")
        before = TOKENS.get(console.shelf, "ci")
        fresh = make_token(console.shelf, "ci", replace(before, by="b"), replaces=True)
        new = {"Authorization": f"Bearer {fresh}"}
        statuses = [(await console.client.get("/", headers=x)).status for x in (old, new)]
    assert statuses == [401, 200]
    assert TOKENS.get(console.shelf, "ci").scope == before.scope == "member"


def test_a_token_has_a_known_scope_and_a_name_of_its_own():
    shelf, now = MemoryShelf(), datetime.now(UTC)
    token = ProgramToken("", "reader", now, 60, now, "")
    make_token(shelf, "a", token)
    for name, scope in (("a", "reader"), ("A b", "reader"), ("b", "root")):
        with pytest.raises(WrongInput):
            make_token(shelf, name, replace(token, scope=scope))
    assert set(SCOPES) == {"metrics", "reader", "member", "admin"}


async def test_a_proxy_that_is_not_listed_and_a_person_without_a_role_are_told_and_audited(caplog):
    caplog.set_level(logging.INFO, "trnbot.audit")

    def audited():
        return [record.record for record in caplog.records if record.name == "trnbot.audit"]

    elsewhere = replace(PROXY, networks=(ipaddress.ip_network("10.0.3.7"),))
    page = {"Accept": "text/html", "X-Forwarded-User": "eve@x.org"}
    async with Console(Known(ROLES, proxy=elsewhere), secret="") as console:
        shown = await (await console.client.get("/", headers=page)).text()
        program = await console.client.get("/api/v1/alerts", headers={"X-Forwarded-User": "e"})
        assert (program.status, "TRNBOT_WEB_TOKEN" in await program.text()) == (401, False)
    assert "came from 127.0.0.1, which is none of TRNBOT_WEB_PROXIES" in shown
    assert [record["result"] for record in audited()] == ["refused"] * 2

    caplog.clear()
    async with Console(Known(ROLES, proxy=PROXY), secret="") as console:
        assert (await console.client.get("/", headers=page)).status == 403
    (record,) = audited()
    assert (record["what"], record["by"]) == ("sign in", "proxy")
    assert "eve@x.org is known, and has no role here" in record["because"]


async def test_whoever_signs_out_behind_a_proxy_reads_that_the_proxy_keeps_them_in():
    headers = {"X-Forwarded-User": "rita@x.org"}
    async with Console(Known(ROLES, proxy=PROXY), secret="") as console:
        left = await console.client.post("/logout", headers=headers | OWN)
        assert (left.status, left.url.path) == (200, "/logout")
        assert "The proxy keeps you signed in; sign out there." in await left.text()


async def test_the_provider_is_asked_for_proof_that_only_this_browser_can_give(provider):
    """PKCE, a state and a nonce are of each signing in anew, and the browser's cookie keeps them."""
    async with Console(known_by(provider)) as console:
        asked = []
        for _ in range(2):
            begun = await console.client.get("/login/provider?to=/cost", allow_redirects=False)
            asked.append(parse_qs(urlsplit(begun.headers["Location"]).query))
    fresh = ("state", "nonce", "code_challenge")
    assert all(asked[0][name] != asked[1][name] for name in fresh)
    fixed = {name: value for name, (value,) in asked[0].items() if name not in fresh}
    assert fixed.pop("redirect_uri").endswith("/login/back")
    assert fixed == {
        "response_type": "code",
        "client_id": "trnbot",
        "scope": "openid email profile",
        "code_challenge_method": "S256",
    }


class Discovery:
    """A provider that says what it is."""

    def __init__(self, issuer):
        self.issuer, self.asked = issuer, 0

    def get(self, address, **_):
        self.asked += 1
        assert address == "https://id.example/.well-known/openid-configuration"
        return self

    def raise_for_status(self):
        """It answers."""

    def json(self):
        return {"issuer": self.issuer, "jwks_uri": "https://id.example/keys"}


def test_what_a_provider_says_of_itself_is_believed_for_an_hour_and_of_itself_alone():
    now = [0.0]
    provider = OidcProvider(OidcConfig("https://id.example/", "trnbot", "s"), lambda: now[0])
    itself = Discovery("https://id.example")
    for seconds, asked in ((0.0, 1), (3_599.0, 1), (3_600.0, 2)):
        now[0] = seconds
        assert provider._about(itself)["jwks_uri"].endswith("/keys")
        assert itself.asked == asked
    now[0] = 9_999.0
    assert provider._about(Discovery("https://id.example/"))
    now[0] += 9_999.0
    with pytest.raises(Unavailable, match=r"calls itself 'https://evil\.example'"):
        provider._about(Discovery("https://evil.example"))
