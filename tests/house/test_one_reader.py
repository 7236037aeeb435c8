"""Twenty thousand lines: guard, audit and permission go by what `understand()` made of each, and looking changes nothing."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from adapters.http import application
from adapters.store.memory import MemoryStore
from adapters.store.open import open_store
from adapters.web.surface import WebConfig, WebSurface
from adapters.web.views import Console
from bot.answers.about.document import csv_text
from bot.app import App
from bot.cards.card import Buttons, Card, Form
from bot.errors import NotAllowed, WrongInput
from bot.grammar.access import Access
from bot.grammar.line import (
    CommandLine,
    attempted,
    effect_of,
    read_line,
    understand,
    window_of,
)
from bot.grammar.registry import COMMANDS, Command
from bot.knowledge import load_knowledge
from bot.model.request import Effect, Manner, Request, Role, User
from bot.wiring.surfaces import command_hints
from tests.babble import HEAVY, JUNK
from tests.belonging import MEMBER
from tests.builders import FIVE, NOON, anomaly, with_parts
from tests.cases import in_one_run
from tests.house.fakes import Chat, Script, app, ask

COUNTS = (1_000, pytest.param(20_000, marks=pytest.mark.slow))
LATER = NOON + FIVE + timedelta(minutes=1)
ADMIN, ANYBODY = User("web:local", "dana"), User("chat:U2", "eve")
QUOTES = (
    '"{}"',
    "'{}'",
    "\u201c{}\u201d",
    "\u201e{}\u201c",
    '"{}',
    "{}'",
    '"{}""',
    "\\{}",
    '"\\{}"',
    '={}"',
    '{}="x"',
)
BLANKS = (" ", " ", " ", "  ", "\t", "\n", "\u00a0", "\u2003", "\x0b", "\x1c", "\u200b", "\u3000")
ALIKE = str.maketrans("acekops", "\u0430\u0441\u0435\u212a\u03bf\u0440\u017f")
PREFIXES = (
    "/trn",
    "trn",
    "TRNBOT",
    '"/trn"',
    "/trnbot",
    "trn trn",
    "@trnbot",
    "share",
    "Share",
    '"share"',
    "share share",
    "/trn share",
)
ENDS = ("--help", "-h", '"--help"', "--", "p00000000", "x" * 3_100)


def forms(cards: list[Card]) -> set[str]:
    """Return the lines of every button and form on these cards."""
    blocks = [block for card in cards for block in card.blocks]
    typed = {
        button.line for block in blocks if isinstance(block, Buttons) for button in block.buttons
    }
    return typed | {block.line for block in blocks if isinstance(block, Form)}


def lines(seed: int, pressed: set[str]) -> Iterator[str]:
    """Yield lines that mean, nearly mean, or do not mean commands: each way of writing one over each command, mixed."""
    dice = random.Random(seed)
    heads = sorted(
        {*COMMANDS, *(line for made in COMMANDS.values() for line in made.examples), *pressed}
    )
    while True:
        words = dice.choice(heads).split(" ")
        words += [dice.choice(JUNK) for _ in range(dice.choice((0, 0, 1, 2)))]
        written = [written_anew(dice, word) if dice.random() < 0.4 else word for word in words]
        if dice.random() < 0.1:
            written = [dice.choice(QUOTES).format(" ".join(written))]
        written[:0] = [dice.choice(PREFIXES)] if dice.random() < 0.3 else []
        written += [dice.choice(ENDS)] if dice.random() < 0.1 else []
        yield "".join(word + dice.choice(BLANKS) for word in written)


def written_anew(dice: random.Random, word: str) -> str:
    """Return a word in quotes, another case, or letters that look like its own."""
    changed = dice.choice(
        (
            str.upper,
            str.title,
            lambda w: w.translate(ALIKE),
            lambda w: dice.choice(QUOTES).format(w),
        )
    )(word)
    return dice.choice(QUOTES).format(changed) if dice.random() < 0.2 else changed


def understood(line: str) -> tuple[CommandLine | None, Command | None]:
    """Return what `read_line` and `understand` make of a line; None where they refuse it."""
    try:
        read = read_line(line)
    except WrongInput:
        with pytest.raises(WrongInput):
            understand(line, LATER)
        return None, None
    try:
        return read, understand(line, LATER).command
    except WrongInput:
        return read, None


def tables(path: Path) -> list[str]:
    """Return everything that a database holds."""
    with sqlite3.connect(path) as database:
        return list(database.iterdump())


def bot_over(store: Any) -> App:
    bot = app(Script(*(anomaly(at=NOON + i * FIVE) for i in range(2))), Chat(), store, (ADMIN.id,))
    bot.ports = with_parts(bot.ports, knowledge=load_knowledge())
    return bot


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[tuple[App, Path, set[str]]]:
    """Yield a bot over a real database with one alert firing, the database's file, and lines that buttons of its answers type."""
    path = tmp_path / "trnbot.db"
    store = open_store(f"sqlite:///{path}")
    bot = bot_over(store)
    (alert,) = [(await bot.tick(NOON + i * FIVE)).outcome.alerts for i in range(2)][1]  # type: ignore[union-attr]
    views = [
        made.examples[0] for made in COMMANDS.values() if made.examples and made.name not in HEAVY
    ]
    cards = [
        await bot.answer(ask(line, ADMIN.id, LATER))
        for line in (*views, f"alert {alert.id}", f"snooze {alert.id}")
    ]
    pressed = forms(cards) | {f"{name} {alert.id}" for name in ("ack", "useful", "reopen", "why")}
    assert len(pressed) > 20
    yield bot, path, {*pressed, f"snooze {alert.id} 2h", f"not-an-anomaly {alert.id} 30d"}
    store.close() if hasattr(store, "close") else None


async def refused(access: Access, read: CommandLine, user: User, manner: Manner) -> bool:
    request = Request(read.text, user, LATER, "web", MEMBER, manner=manner)
    try:
        await access.check(read, request, {})
    except NotAllowed:
        return True
    return False


@pytest.mark.timeout(300)
@pytest.mark.parametrize("count", COUNTS)
async def test_guard_audit_and_permission_agree_with_understand_on_every_line(
    watched: Any, count: int
) -> None:
    access, seen = Access((ADMIN.id,)), dict.fromkeys(Effect, 0)
    for line, _ in zip(lines(11, watched[2]), range(count), strict=False):
        read, command = understood(line)
        seen[effect_of(line)] += 1
        if read is None:
            assert effect_of(line) is Effect.NOTHING, line
            continue
        command = command or read.runs
        plain = (
            Effect.CHANGES if command.changes else Effect.WORKS if command.heavy else Effect.READS
        )
        assert effect_of(line) is (Effect.SHARES if read.shared else plain), line
        assert effect_of(read.text) is plain, line  # what a Share button repeats is the same line
        assert attempted(line) is command, line
        admins = command.who is Role.ADMIN or (
            read.carried is not None and read.carried.runs.who is Role.ADMIN
        )
        assert await refused(access, read, ANYBODY, Manner.ASKED) is admins, line
        assert await refused(access, read, ADMIN, Manner.VIEWED) is (
            effect_of(line) is not Effect.READS
        ), line
    assert min(seen.values()) > count / 1_000, seen


@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", COUNTS)
async def test_no_line_that_is_viewed_changes_anything(watched: Any, count: int) -> None:
    bot, path, pressed = watched
    before = tables(path)
    for line, i in zip(lines(12, pressed), range(count), strict=False):
        user = (ADMIN, ANYBODY)[i % 2]
        await bot.answer(
            Request(line, user, LATER, "web", MEMBER, "web:alerts", manner=Manner.VIEWED)
        )
    assert tables(path) == before
    (alert,) = bot.ports.stores.alerts.load(LATER).alerts
    assert f"ack {alert.id}" in pressed
    await bot.answer(ask(f"ack {alert.id}", ADMIN.id, LATER))
    assert tables(path) != before  # a press does change it


@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [200, pytest.param(3_000, marks=pytest.mark.slow)])
async def test_no_get_changes_anything(watched: Any, count: int) -> None:
    bot, path, pressed = watched
    console = Console(
        bot.answer,
        lambda: LATER,
        bot.health.facts,
        str,
        effect_of,
        window_of,
        csv_text,
        command_hints(),
    )
    page = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    senders: tuple[dict[str, str], ...] = (
        {},
        *({"Sec-Fetch-Site": site} | page for site in ("none", "same-origin", "cross-site")),
    )
    async with TestClient(
        TestServer(application([WebSurface(WebConfig(), console, bot.ports.stores.documents)]))
    ) as client:  # type: ignore[arg-type]
        before = tables(path)
        for line, i in zip(lines(13, pressed), range(count), strict=False):
            response = await client.get(
                "/ask", params={"line": line}, headers=senders[i % len(senders)]
            )
            fine = {200, 400, 403, 503} if len(line.strip()) <= 4_000 else {400}
            assert response.status in fine, line
        assert tables(path) == before


AUDITED = sorted(made.name for made in COMMANDS.values() if made.audited)
WRITTEN = (
    '"{}" "{}" p1',
    "'{}' {} p1",
    "share {} {} p1",
    '/trn "{}" {}',
    "{} \u201c{}\u201d x",
    '"{} {}" p1',
    '{} {} "p1',
    "{}  {}\tp1",
)


@in_one_run
@pytest.mark.parametrize("name", AUDITED)
@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("case", [str.lower, str.upper])
async def test_quoted_words_are_refused_and_kept_in_the_audit(
    name: str, written: str, case: Any
) -> None:
    store = MemoryStore()
    line = case(written.format(*name.split()))
    card = await bot_over(store).answer(ask(line, ANYBODY.id, LATER))
    (kept,) = store.attempts(9)
    assert (kept.line, kept.by, bool(kept.refused)) == (line, ANYBODY.id, True)
    assert kept.refused == card.data["error"]


@pytest.mark.parametrize(
    "line",
    [
        "c\u043enfig apply p1",
        "config \u0430pply p1",
        "config\u200bapply p1",
        "config apply p1 --help",
        "ac\u212a a1",
    ],
)
async def test_what_looks_like_a_command_and_is_none_is_no_attempt(line: str) -> None:
    store = MemoryStore()
    await bot_over(store).answer(ask(line, ANYBODY.id, LATER))
    assert store.attempts(9) == []
    assert effect_of(line) in (Effect.NOTHING, Effect.READS)


async def test_a_link_is_nobodys_attempt() -> None:
    store = MemoryStore()
    request = Request('config "undo"', ADMIN, LATER, "web", MEMBER, manner=Manner.VIEWED)
    assert "waits for a person to press it" in str(
        (await bot_over(store).answer(request)).data["error"]
    )
    assert store.attempts(9) == []
