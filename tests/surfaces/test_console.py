"""Every route of the console and of its programs, for each kind of reader: what answers, as it was last read.

A bot whose alert fires stands behind a proxy that names people. `make goldens` writes the golden anew.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from html import unescape
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import quote

from aiohttp import DummyCookieJar
from aiohttp.test_utils import TestClient, TestServer

from adapters.http import application
from adapters.store.memory import MemoryStore
from adapters.web.links import HOME, PAGES
from adapters.web.people import Known, ProgramToken, Proxy, Roles, make_token
from adapters.web.surface import WebConfig, WebSurface
from adapters.web.views import Console
from bot.answers.about.document import csv_text
from bot.app import App
from bot.grammar.access import Access
from bot.grammar.line import effect_of, window_of
from bot.knowledge import load_knowledge
from bot.model.request import Role, RoleRule
from bot.wiring.programs import program_listeners
from bot.wiring.surfaces import command_hints
from tests.builders import NOON, anomaly, ports_over, with_parts
from tests.cards.test_goldens import compare
from tests.house.fakes import Fleet, Script
from tests.surfaces.outline import cut

GOLDENS = Path(__file__).with_name("goldens")
TOKEN, HOST = "the-token-that-all-share", {"Host": "trnbot.example"}
PAGE = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
OWN, LINK, OTHER = (
    {"Sec-Fetch-Site": site} for site in ("same-origin", "cross-site", "cross-site")
)
SCRIPT = OWN | {"X-Trnbot": "console"}
READERS: Mapping[str, Mapping[str, str]] = {
    "a program": {},
    "a browser": PAGE,
    "a link": PAGE | LINK | {"X-User": "dana"},
    "another site": OTHER | {"X-User": "dana"},
    "another name": {"Host": "evil.example", "X-User": "dana"},
    "no role": {"X-User": "nora"},
    "metrics": {"Authorization": "METRICS"},
    "reader": SCRIPT | {"X-User": "rita"},
    "member": SCRIPT | {"X-User": "dana"},
    "admin": SCRIPT | {"X-User": "ada"},
    "token": SCRIPT | {"Authorization": f"Bearer {TOKEN}"},
}
HEADERS = (
    "Location",
    "Retry-After",
    "WWW-Authenticate",
    "Content-Disposition",
    "Set-Cookie",
    "Cache-Control",
)
OF_SCRIPT = ("Tone", "Form", "Changed", "Field", "Asks", "Posted", "Address")


class Trail(logging.Handler):
    """Keep what the audit log says."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        facts = vars(record)["record"]
        self.records.append(" ".join(f"{name}={value}" for name, value in facts.items() if value))


@contextmanager
def audited() -> Iterator[list[str]]:
    """Yield the records that the audit log is given meanwhile."""
    log, trail = logging.getLogger("trnbot.audit"), Trail()
    log.addHandler(trail)
    log.setLevel(logging.INFO)
    try:
        yield trail.records
    finally:
        log.removeHandler(trail)


class Served:
    """Hold a console that is served, its bot and its alert."""

    def __init__(
        self, client: TestClient[Any, Any], web: WebSurface, alert: str, metrics: str
    ) -> None:
        self.client, self.web, self.alert, self.metrics = client, web, alert, metrics

    async def ask(
        self, method: str, path: str, headers: Mapping[str, str], data: Any = None, most: int = 400
    ) -> str:
        """Return in words what answers a request."""
        sent = HOST | dict(headers)
        if sent.get("Authorization") == "METRICS":
            sent["Authorization"] = f"Bearer {self.metrics}"
        path = path.replace("ALERT", self.alert)
        if isinstance(data, dict):
            data = {name: value.replace("ALERT", self.alert) for name, value in data.items()}
        async with self.client.request(
            method, path, headers=sent, data=data, allow_redirects=False
        ) as response:
            kind = response.content_type
            streams = kind == "text/event-stream"
            body = await (response.content.readany() if streams else response.read())
            facts = [str(response.status), *headers_of(response.headers)]
            words = body.decode(errors="replace")
        shown = page_of(words) if kind == "text/html" else words
        kinds = {"text/html": "", "text/plain": "", "application/octet-stream": ""}
        facts += [kinds.get(kind, kind), cut(shown, most if kind == "text/html" else 200)]
        words = " ".join(filter(None, facts)).replace(self.alert, "ALERT")
        return re.sub(r'"version": "\w+-', '"version": "START-', words)


def headers_of(headers: Mapping[str, str]) -> Iterator[str]:
    for name in HEADERS:
        if name in headers and headers[name] != "no-store":
            value = headers[name]
            yield f"{name}: {re.sub('=[^;]{20,}?;', '=…;', value) if name == 'Set-Cookie' else value}"
    told = [
        f"{name} {headers[key]}" for name in OF_SCRIPT if headers.get(key := f"X-Trnbot-{name}")
    ]
    if told:
        yield f"<{', '.join(told)}>"


def page_of(html: str) -> str:
    """Return the words of a page: its title, then its main part."""
    title = re.search(r"<title>(.*?)</title>", html, re.S)
    main = re.search(r"<main.*?</main>", html, re.S)
    body = re.sub(
        r"<(script|template|style|svg)\b.*?</\1>", " ", main[0] if main else html, flags=re.S
    )
    words = re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", body))).strip()
    return f"“{unescape(title[1]).strip()}” {words}" if title else words


@asynccontextmanager
async def served(*, known: bool = True) -> AsyncIterator[Served]:
    """Serve a console whose people a proxy names, or one that asks nobody."""
    store, surfaces = MemoryStore(), dict[str, Any]()
    ports = ports_over(Fleet(), store, detect=Script(anomaly()), surfaces=surfaces)
    bot = App(
        with_parts(ports, knowledge=load_knowledge()),
        ("web:alerts",),
        Access(("web:ada",)),
        stopwatch=lambda: 0.0,
    )
    rules = (("rita", Role.READER), ("dana", Role.ANYONE), ("ada", Role.ADMIN))
    roles = Roles(tuple(RoleRule(*rule) for rule in rules))
    proxy = Proxy((ip_network("127.0.0.0/8"),), "X-User", "X-Groups")
    config = WebConfig(
        secret=TOKEN if known else "",
        public_url="http://trnbot.example",
        known=Known(roles, proxy) if known else Known(),
    )
    console = Console(
        bot.answer,
        lambda: NOON,
        lambda: {"ok": True, "now": NOON, "live": True, "up_seconds": 1.0},
        lambda: "trnbot_ok 1\n",
        effect_of,
        window_of,
        csv_text,
        command_hints(),
    )
    surfaces["web"] = web = WebSurface(config, console, store)
    until = NOON + timedelta(days=3650)
    token = ProgramToken("", "metrics", until, 60, NOON, "a test")
    metrics = make_token(store, "graphs", token)

    async def now() -> Any:
        return NOON

    programs = program_listeners(bot, now, web.admitting, "", mcp=False)
    client = TestClient(TestServer(application([web, *programs])), cookie_jar=DummyCookieJar())
    await client.start_server()
    result = await bot.tick(NOON)
    assert result
    try:
        yield Served(client, web, result.outcome.alerts[0].id, metrics)
    finally:
        await web.stop()
        await client.close()


FILLS = {
    "{id}": "ALERT",
    "{version}": "old",
    "{name}": "console.css",
    "{page:.*}": "nowhere",
    "{line:.+}": "alerts",
}
FORMS: Mapping[str, Mapping[str, str]] = {
    "/ask": {"line": "why ALERT"},
    "/form": {"line": "snooze ALERT", "f.length": "1h"},
    "/login": {"secret": TOKEN, "to": "/cost"},
}


async def test_each_route_answers_each_reader_as_it_was_last_read() -> None:
    lines = []
    async with served() as console:
        routes = {
            (route.method, route.resource.canonical)
            for route in console.client.server.app.router.routes()  # type: ignore[union-attr]
            if route.method != "HEAD" and route.resource
        }
        for method, pattern in sorted(routes):
            path = pattern
            for name, value in FILLS.items():
                path = path.replace(name, value).replace(name.partition(":")[0] + "}", value)
            answers: dict[str, list[str]] = {}
            for reader, headers in READERS.items():
                data = FORMS.get(path, {}) if method == "POST" else None
                answer = await console.ask(method, path, headers, data)
                answers.setdefault(answer, []).append(reader)
            lines += [f"## {method} {path}"]
            lines += [f"{', '.join(readers)}: {answer}" for answer, readers in answers.items()]
    compare("\n".join(lines) + "\n", GOLDENS / "routes.txt")


ME = SCRIPT | {"X-User": "dana"}
BROWSER = PAGE | OWN | {"X-User": "dana"}
PLAIN = {"X-User": "dana"}
LONG = "x" * 4_001
REQUESTS: tuple[tuple[str, str, Mapping[str, str], Any], ...] = (
    # Pages.
    ("GET", "/cost?line=cost%2030d", ME, None),
    ("GET", "/cost?line=fleet", ME, None),
    ("GET", "/cost?line=cost%207d&first=2026-11-01&last=2026-11-02", ME, None),
    ("GET", "/ask?line=alerts&first=2026-11-01&last=2026-11-02", ME, None),
    ("GET", "/ask?line=ack%20ALERT", BROWSER, None),
    ("GET", "/ask?line=backtest%207d", BROWSER, None),
    ("GET", "/ask?line=share%20alerts", BROWSER, None),
    ("GET", "/ask?line=alerts", PAGE | LINK | PLAIN, None),
    ("GET", "/ask?draft=why", BROWSER, None),
    ("GET", "/ask?line=cots", BROWSER, None),
    ("GET", f"/ask?line={LONG}", BROWSER, None),
    ("GET", "/alert/nobody", BROWSER, None),
    ("GET", "/?until=nothing", BROWSER, None),
    ("GET", "/nowhere", BROWSER, None),
    ("GET", "/static/nothing.css", BROWSER, None),
    ("GET", "/download?line=alerts", BROWSER, None),
    ("GET", "/download?line=ack%20ALERT", BROWSER, None),
    ("GET", "/download?line=alerts", PAGE | LINK | PLAIN, None),
    ("GET", "/download?line=cots", BROWSER, None),
    ("GET", "/download?line=why%20ALERT", BROWSER, None),
    ("GET", "/login?to=//evil.example", PAGE, None),
    ("GET", "/login?to=/cost", PAGE | OWN | PLAIN, None),
    ("GET", "/login/back?state=x&code=y", PAGE, None),
    # Programs.
    ("GET", "/api/v1/alerts?format=csv", ME, None),
    ("GET", "/api/v1/alerts?format=json", PLAIN | {"Accept": "text/csv"}, None),
    ("GET", "/api/v1/alerts", PLAIN | {"Accept": "text/csv"}, None),
    ("GET", "/api/v1/alerts?format=xml", ME, None),
    ("GET", "/api/v1/alerts?cluster=llama&cluster=vision", ME, None),
    ("GET", "/api/v1/ack%20ALERT", ME, None),
    ("GET", "/api/v1/cost%207d", ME, None),
    # What is typed and pressed.
    ("POST", "/ask", ME, {"line": "alerts"}),
    ("POST", "/ask", ME, {"line": "  "}),
    ("POST", "/ask", ME, {"line": LONG}),
    ("POST", "/ask", ME, {"line": "alerts soon=1"}),
    ("POST", "/ask", ME, {"line": "config set idle.below 15%"}),
    ("POST", "/ask", ME, {"line": "share alerts"}),
    ("POST", "/ask", ME, {"line": "ack", "where": "nowhere"}),
    ("POST", "/ask", SCRIPT | {"X-User": "rita"}, {"line": "ack ALERT"}),
    ("POST", "/ask", SCRIPT | {"X-User": "rita"}, {"line": "share alerts"}),
    ("POST", "/ask", OWN | PLAIN, {"line": "alerts"}),
    ("POST", "/ask", OWN | PLAIN, {"line": "alerts", "token": "wrong"}),
    ("POST", "/ask", OWN | PLAIN, {"line": "alerts", "token": "FORM"}),
    ("POST", "/ask", OWN | PLAIN, {"line": "share alerts", "token": "FORM"}),
    ("POST", "/ask", PLAIN, {"line": "alerts", "token": "FORM"}),
    ("POST", "/ask", PLAIN | {"Origin": "http://evil.example"}, {"line": "alerts", "token": "FORM"}),
    ("POST", "/ask", PLAIN | {"Origin": "http://trnbot.example"}, {"line": "alerts", "token": "FORM"}),
    ("POST", "/ask", ME | {"Content-Type": "text/plain"}, "line=alerts"),
    ("POST", "/ask", ME, {"line": "ack ALERT"}),
    ("POST", "/form", ME, {"line": "snooze ALERT", "f.length": "1h", "f.reason": "known"}),
    ("POST", "/form", ME, {"line": "snooze ALERT", "f.ceiling": "lots"}),
    ("POST", "/demo", ME, {}),
    ("POST", "/login", OWN | {"X-Trnbot": "console"}, {"secret": TOKEN, "to": "//evil.example"}),
    # Who asks.
    ("GET", "/now", {"X-User": "local"}, None),
    ("GET", "/now", {"Authorization": "Bearer wrong"}, None),
    ("GET", "/now", {"Authorization": f"Bearer trnbot_graphs_{'0' * 64}"}, None),
    ("GET", "/metrics", {"Authorization": "METRICS"}, None),
)  # fmt: skip


async def test_what_is_asked_amiss_is_answered_as_it_was_last_read() -> None:
    lines = []
    async with served() as console:
        form = (await (await console.client.get("/", headers=HOST | BROWSER)).text()).partition('name="token" value="')[2]  # fmt: skip
        for method, path, headers, data in REQUESTS:
            sent = {k: form.partition('"')[0] if v == "FORM" else v for k, v in data.items()} if isinstance(data, dict) else data  # fmt: skip
            answer = await console.ask(method, path, headers, sent)
            kinds = {"dana": "member", "rita": "reader"}
            who = kinds.get(headers.get("X-User", ""), headers.get("X-User", ""))
            how = [f"{k} {v}" for k, v in headers.items() if k in ("Sec-Fetch-Site", "Accept", "Origin", "X-Trnbot")]  # fmt: skip
            lines += [f"## {method} {cut(path, 80)} {cut(str(data or ''), 80)}", f"by {who} {', '.join(how)}", answer]  # fmt: skip
    compare("\n".join(lines) + "\n", GOLDENS / "requests.txt")


async def test_the_audit_log_says_what_it_was_last_read_to_say() -> None:
    behind = {"X-Forwarded-For": "198.51.100.7, 10.0.0.1"}
    lines = []
    async with served() as console:
        for method, path, headers, data in (
            ("POST", "/ask", ME | behind, {"line": "ack ALERT"}),
            ("POST", "/ask", ME, {"line": "share alerts"}),
            ("POST", "/ask", ME, {"line": "config set idle.below 15%"}),
            ("POST", "/ask", SCRIPT | {"X-User": "rita"}, {"line": "ack ALERT"}),
            ("POST", "/ask", ME, {"line": "alerts"}),
            ("GET", "/", OTHER | {"X-User": "dana"} | behind, None),
            ("GET", "/now", {"Authorization": f"Bearer trnbot_graphs_{'0' * 64}"}, None),
            ("POST", "/login", OWN | {"X-Trnbot": "console"} | behind, {"secret": TOKEN}),
            ("POST", "/logout", ME, {}),
        ):
            with audited() as records:
                answer = await console.ask(method, path, headers, data)
            lines += [f"{method} {path} {data or ''}: {answer[:3]}"]
            lines += [f"  {record}".replace(console.alert, "ALERT") for record in records]
    compare("\n".join(lines) + "\n", GOLDENS / "audit.txt")


async def test_each_tab_and_thread_answers_as_it_was_last_read() -> None:
    lines = []
    async with served() as console:
        for path, page in PAGES.items():
            for words, line in page.tabs:
                if line != HOME:
                    answer = await console.ask("GET", f"{path}?line={quote(line)}", BROWSER)
                    lines.append(f"{path}, {words}: {answer[:260]}")
        (message,) = (await console.web.posted("alerts")).values()
        for line in ("ack", "why", "share alerts", "unack", "alert"):
            answer = await console.ask("POST", "/ask", ME, {"line": line, "where": message})
            lines.append(f"under the alert's message, {line}: {answer}".replace(message, "MESSAGE"))
        page = await console.ask("GET", "/", BROWSER, most=2_000)
        lines.append(f"the channel then: {page}".replace(message, "MESSAGE"))
    compare("\n".join(lines) + "\n", GOLDENS / "tabs.txt")


async def test_a_session_lasts_as_it_was_last_read() -> None:
    lines = []
    async with served() as console:
        entered = await console.client.request(
            "POST", "/login", headers=HOST | SCRIPT, data=FORMS["/login"], allow_redirects=False
        )
        cookie = {"Cookie": f"trnbot_console={entered.cookies['trnbot_console'].value}"}
        forged = {"Cookie": f"{cookie['Cookie'][:-1]}x"}
        for doing, method, path, headers in (
            ("it opens pages", "GET", "/now", PAGE | cookie),
            ("it signs what is pressed", "POST", "/ask", SCRIPT | cookie),
            ("one that is forged", "GET", "/now", PAGE | forged),
            ("it shows the way in", "GET", "/login", PAGE | cookie),
            ("it is over", "POST", "/logout", SCRIPT | cookie),
            ("whoever still has it", "GET", "/now", PAGE | cookie),
            ("it is pressed again", "POST", "/ask", SCRIPT | cookie),
        ):
            data = FORMS.get(path, {}) if method == "POST" else None
            lines.append(f"{doing}: {await console.ask(method, path, headers, data)}")
    compare("\n".join(lines) + "\n", GOLDENS / "session.txt")


async def test_a_console_that_asks_nobody_answers_as_it_was_last_read() -> None:
    lines = []
    async with served(known=False) as console:
        paths = ("/", "/login", "/now", "/metrics", "/healthz", "/api/v1/alerts", "/nowhere")
        lines += [f"{path}: {await console.ask('GET', path, PAGE)}" for path in paths]
        ack = await console.ask("POST", "/ask", SCRIPT, {"line": "ack ALERT"})
        lines += [f"/ask: {ack}", f"/: {await console.ask('GET', '/', PAGE)}"]
        lines.append(f"/alert: {await console.ask('GET', '/alert/ALERT', PAGE)}")
    compare("\n".join(lines) + "\n", GOLDENS / "open.txt")
