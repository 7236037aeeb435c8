"""Answer lines in plain words: as the line of the grammar that they mean, which the answer shows.

Unsure, by a choice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from bot.cards.card import Block, Button, Buttons, Card, Code, Text, Tone, quiet, text
from bot.errors import NotAllowed, TrnbotError, Unavailable, WrongInput
from bot.grammar.line import PREFIXES, Call, attempted, effect_of
from bot.grammar.plain.ranker import Example, Ranker, load_counts, masked
from bot.grammar.plain.readings import (
    MOST,
    PlainReading,
    choices,
    followed,
    read_plain,
)
from bot.grammar.plain.senses import Names, is_filler, names_of, senses_of
from bot.model.fleet import Inventory
from bot.model.limits import Newest
from bot.model.reading import Reading
from bot.model.request import Effect, Manner, Request
from bot.model.run import Run
from bot.model.window import EVER
from bot.policy.schema import SETTINGS
from bot.ports import Documents, Ports
from bot.ports.work import Lane, within

Ask = Callable[[Request], Awaitable[tuple[Call, Card]]]
_FRESH = timedelta(minutes=10)
_LONGEST = 300
"""Characters of a line in plain words."""
_PEOPLE = 200
"""People whose last unclear line is remembered at a time."""
_PACKAGES = ("torch", "jax", "transformers")
"""Asked about, though no table lists them as needing CUDA."""


@dataclass(frozen=True)
class LearntLine:
    """Hold a line that was asked back and the command that was pressed; names and times are slots."""

    text: str
    command: str


LEARNT = Documents("learnt_lines", LearntLine)
MOST_LEARNT = 500
"""Lines that are learnt from, the newest ones."""


@dataclass(frozen=True)
class _AskedBack:
    """Hold a line that was asked back, and the lines that were offered for it."""

    text: str
    lines: tuple[str, ...]
    at: datetime


class Unsure(WrongInput):
    """Ask which of a few lines is meant; `card` has a button for each."""

    def __init__(self, sentence: str, card: Card) -> None:
        super().__init__(sentence)
        self.card = card


class PlainWords:
    """Read lines by the names of the fleet, which the watch's readings bring.

    Else they are read when first needed.
    """

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._seen: tuple[Inventory, Sequence[Run]] = (Inventory(), ())
        self._names = Names()
        self._named = False
        """The names are those of the newest reading."""
        self._at: datetime | None = None
        self._turn = asyncio.Lock()
        self._asked_back = Newest[str, _AskedBack](_PEOPLE)
        """The last line of each person that was asked back."""
        self._answered = Newest[tuple[str, str, str], tuple[str, datetime]](_PEOPLE)
        """The last line that each person was answered, by person, channel and thread; and when."""
        self._ranker: Ranker | None = None

    def saw(self, reading: Reading) -> None:
        """Take the names of a reading."""
        self._seen, self._at, self._named = (reading.inventory, reading.runs), reading.now, False

    async def answer(self, request: Request, ask: Ask) -> tuple[Call, Card]:
        """Answer a line of the grammar as it stands; a refused one by its reading in plain words.

        Raises `Unsure` where that cannot be told, or where it would do more than read.
        """
        try:
            answered = await ask(request)
        except NotAllowed:
            raise
        except WrongInput as error:
            line, reading = request.line, await self._follow_up(request)
            reading = reading or await self._reading(request)
            words, is_command = line.split(), attempted(line) is not None
            # Prose begins with a word that stands for itself in no line of the grammar.
            if not (reading or is_command) and len(words) > 1 and is_filler(words[0]):
                raise WrongInput(
                    f"'{line.strip()[:80]}' is not understood; "
                    "say it in other words, or type 'help'."
                ) from error
            if reading is None or (_is_precise(line) and not reading.sure):
                raise
            if not reading.sure or effect_of(line) is Effect.CHANGES:
                await self._note(request, reading.lines)
                raise _choice(line, reading, error) from error
            if effect_of(reading.line) not in (Effect.READS, Effect.WORKS):
                raise _press(line, reading) from error
        else:
            await self._learn(request)
            self._remember(request, request.line)
            return answered

        try:
            call, card = await ask(replace(request, line=reading.line))
        except (WrongInput, Unavailable) as error:
            # Say how the line was read whose answer is refused, and why.
            blocks: tuple[Block, ...] = (_read_as(reading), text(str(error)))
            data: dict[str, Any] = {"error": str(error), "read_as": reading.line}
            if reading.others:
                blocks += (_buttons(reading.others),)
                data["choices"] = list(reading.others)
            raise Unsure(str(error), Card("That did not work", Tone.ERROR, blocks, data)) from error
        self._remember(request, reading.line)
        return call, with_reading(card, reading)

    def _remember(self, request: Request, line: str) -> None:
        """Remember what a person was answered, which a short line may follow up."""
        if request.manner is not Manner.ASKED or effect_of(line) is not Effect.READS:
            return
        place = request.user.id, request.channel, request.thread
        self._answered[place] = line, request.at

    async def _follow_up(self, request: Request) -> PlainReading | None:
        """Return how a line is read that follows up the last one of its person in its place."""
        place = request.user.id, request.channel, request.thread
        last, at = self._answered.get(place, ("", request.at))
        if not last or request.at - at > _FRESH or len(request.line) > _LONGEST:
            return None
        names, unprefixed = await self.names(request.at), _unprefixed(request.line)
        try:
            line = followed(unprefixed, last, names, request.at)
        except WrongInput:
            return None
        return PlainReading((line,), sure=True) if line and line != last else None

    async def _reading(self, request: Request) -> PlainReading | None:
        """Return how a line that was refused is read.

        None where it is no plain words, or means nothing else.
        """
        line, effect = request.line, effect_of(request.line)
        if len(line) > _LONGEST or "\n" in line or effect is Effect.SHARES:
            return None
        if any(mark in line for mark in ("=", " --", "<!", "&lt;!")) and "==" not in line:
            return None
        if (command := attempted(line)) and command.carries:
            return None  # it refuses another line, which is no slip of its own

        names, unprefixed = await self.names(request.at), _unprefixed(line)
        reading = read_plain(unprefixed, names, request.at, self._ranker)
        reader = self._ports.world.reader
        if reader and not _is_precise(line) and not (reading and reading.sure):
            lines = choices(unprefixed, names, request.at, self._ranker or Ranker(load_counts()))
            if chosen := await asyncio.to_thread(reader.choose, unprefixed, lines):
                offers = tuple(x for x in (reading.lines if reading else ()) if x != chosen)
                reading = PlainReading((chosen,), True, offers[: MOST - 1], by=reader.name)
        if reading is None or reading.line == line.strip():
            return None
        return reading if reading.sure or effect is not Effect.CHANGES else None

    async def _note(self, request: Request, lines: tuple[str, ...]) -> None:
        """Remember what is offered to a person, who may press it next."""
        names, line = await self.names(request.at), _unprefixed(request.line)
        text = masked(line, senses_of(line, names, request.at))
        self._asked_back[request.user.id] = _AskedBack(text, lines, request.at)

    async def _learn(self, request: Request) -> None:
        """Learn what a line meant that was asked back, from the line that its person asks next."""
        if request.manner is not Manner.ASKED:
            return
        question = self._asked_back.pop(request.user.id, None)
        if not question or request.line not in question.lines or request.at - question.at > _FRESH:
            return
        command = attempted(request.line)
        if command is None:
            return
        store, learnt = self._ports.stores.documents, LearntLine(question.text, command.name)
        with suppress(Unavailable):
            await asyncio.to_thread(LEARNT.put, store, question.text, learnt)
            await asyncio.to_thread(self._count)

    def _count(self) -> None:
        """Count what this installation has learnt to the examples."""
        learnt = LEARNT.newest(self._ports.stores.documents, MOST_LEARNT)
        self._ranker = Ranker(
            load_counts(), tuple(sorted(Example(entry.text, entry.command) for _, entry in learnt))
        )

    async def names(self, now: datetime) -> Names:
        """Return the names known now."""
        async with self._turn:
            if self._at is None or abs(now - self._at) > _FRESH:
                self._seen = await asyncio.to_thread(self._read, now)
                self._at, self._named = now, False
                with suppress(Unavailable):
                    await asyncio.to_thread(self._count)
            if not self._named:
                names = await asyncio.to_thread(self._names_of_seen)
                # Equal names stay the same object, whose tables are worked out already.
                self._names, self._named = names if names != self._names else self._names, True
            return self._names

    def _read(self, now: datetime) -> tuple[Inventory, Sequence[Run]]:
        try:
            with within(Lane.QUICK):
                reading = self._ports.world.source.read(now)
        except Unavailable:
            return Inventory(), ()
        return reading.inventory, reading.runs

    def _names_of_seen(self) -> Names:
        knowledge = self._ports.world.knowledge
        claims = knowledge.claims()
        packages = {package.name for package in claims.packages if "*" not in package.name}
        kinds: dict[str, Iterable[str]] = {
            "package": packages | set(_PACKAGES),
            "rule": {key.partition(".")[0] for key in SETTINGS},
            "region": claims.regions,
        }
        if not self._seen[0].instances:
            # A bill without metrics names what it is of.
            with suppress(TrnbotError):
                billed = self._ports.world.billing.tally(EVER, ("cluster", "team"))
                for kind in billed.by:
                    kinds[kind] = {row.key[kind] for row in billed.rows}
        return names_of(*self._seen, knowledge.types(), kinds)


def _unprefixed(line: str) -> str:
    """Return a line without the bot's name before it."""
    first, _, after = line.strip().partition(" ")
    return after if after and first.lower() in PREFIXES else line


def _is_precise(line: str) -> bool:
    """Return whether a line begins with a command and goes on in its grammar.

    It has a mistake of its own.
    """
    return attempted(line) is not None and any(mark in line for mark in ("..", ":", ","))


def _read_as(reading: PlainReading) -> Text:
    return quiet("Read as ", Code(reading.line), f" by {reading.by}." if reading.by else ".")


def with_reading(card: Card, reading: PlainReading) -> Card:
    """Show before an answer how its line was read, and after it the next nearest readings."""
    blocks = (_read_as(reading), *card.blocks, *_other_readings(reading))
    return replace(card, blocks=blocks, data={**card.data, "read_as": reading.line})


def _other_readings(reading: PlainReading) -> tuple[Block, ...]:
    others = reading.others
    return (quiet("Meant something else?"), _buttons(others)) if others else ()


def _choice(line: str, reading: PlainReading, error: WrongInput) -> Unsure:
    """Ask which line is meant; where a command was typed, after its mistake."""
    listed = " or ".join(f"'{candidate}'" for candidate in reading.lines)
    buttons, data = _buttons(reading.lines), {"choices": list(reading.lines)}
    if attempted(line):
        blocks = (text(str(error)), buttons)
        card = Card("That did not work", Tone.ERROR, blocks, {"error": str(error), **data})
        # A name that was nearly right is asked about already.
        asked = "" if "did you mean" in str(error) else f" Did you mean {listed}?"
        return Unsure(f"{error}{asked}", card)

    unsure, press, title = "is not fully understood", "press it", "Is this what you mean?"
    if len(reading.lines) > 1:
        unsure, press = "can be read in more than one way", "choose"
        title = "Which of these do you mean?"
    if reading.of_two:
        unsure, press, title = "asks two questions", "press one", "Two questions"
    sentence = f"'{line.strip()[:80]}' {unsure}; did you mean {listed}?"
    advice = text(f"Nothing was looked up yet: {press}, or say it in other words.")
    return Unsure(sentence, Card(title, Tone.INFO, (advice, buttons), {"error": sentence, **data}))


def _press(line: str, reading: PlainReading) -> Unsure:
    """Ask for a press before plain words do more than read."""
    sentence = (
        f"'{line.strip()[:80]}' reads as '{reading.line}', which changes something; "
        "type that to do it."
    )
    note = text(
        "Read as ", Code(reading.line), ". It changes something, so it waits for your press."
    )
    data = {"error": sentence, "choices": [reading.line, *reading.others]}
    return Unsure(
        sentence,
        Card(
            "Shall this be done?",
            Tone.INFO,
            (note, _buttons((reading.line,)), *_other_readings(reading)),
            data,
        ),
    )


def _buttons(lines: Sequence[str]) -> Buttons:
    return Buttons(tuple(Button(line, line) for line in lines))
