"""Answer lines in plain words: as the line of the grammar that they mean, which the answer shows.

Unsure, by a choice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import takewhile

from bot.cards.card import Block, Button, Buttons, Card, Code, ShareButton, Text, Tone, quiet, text
from bot.cards.words import grouped_words
from bot.errors import NotAllowed, Unavailable, WrongInput
from bot.grammar.line import Call, attempted, effect_of
from bot.grammar.plain.readings import PlainReading, read_plain
from bot.grammar.plain.senses import Names, is_filler, names_of
from bot.model.fleet import Inventory
from bot.model.reading import Reading
from bot.model.request import Effect, Request
from bot.model.run import Run
from bot.policy.schema import SETTINGS
from bot.ports import Ports
from bot.ports.work import Lane, within

Ask = Callable[[Request], Awaitable[tuple[Call, Card]]]
_FRESH = timedelta(minutes=10)
_LONGEST = 300
"""Characters of a line in plain words."""
_PACKAGES = ("torch", "jax", "transformers")
"""Asked about, though no table lists them as needing CUDA."""


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
        self._known = False
        """The names are those of the newest reading."""
        self._at: datetime | None = None
        self._turn = asyncio.Lock()

    def saw(self, reading: Reading) -> None:
        """Take the names of a reading."""
        self._seen, self._at, self._known = (reading.inventory, reading.runs), reading.now, False

    async def answer(self, request: Request, ask: Ask) -> tuple[Call, Card]:
        """Answer a line of the grammar as it stands; a refused one by its reading in plain words.

        Raises `Unsure` where that cannot be told, or where it would do more than read.
        """
        try:
            return await ask(request)
        except NotAllowed:
            raise
        except WrongInput as error:
            reading = await self._reading(request)
            if reading is None and _is_prose(request.line):
                asked = request.line.strip()[:80]
                raise WrongInput(
                    f"'{asked}' is not understood; say it in other words, or type 'help'."
                ) from error
            if reading is None or (not reading.sure and _is_precise(request.line)):
                raise
            if not reading.sure or effect_of(request.line) is Effect.CHANGES:
                raise _choice(request.line, reading, error) from error
            if effect_of(reading.line) not in (Effect.READS, Effect.WORKS):
                raise _press(request.line, reading.line) from error
        try:
            call, card = await ask(replace(request, line=reading.line))
        except (WrongInput, Unavailable) as error:
            raise _refused(reading, error) from error
        return call, with_reading(card, reading)

    async def _reading(self, request: Request) -> PlainReading | None:
        """Return how a line that was refused is read.

        None where it is no plain words, or means nothing else.
        """
        if (
            len(request.line) > _LONGEST
            or "\n" in request.line
            or effect_of(request.line) is Effect.SHARES
        ):
            return None
        if any(mark in request.line for mark in ("=", " --")) and "==" not in request.line:
            return None
        if (command := attempted(request.line)) and command.carries:
            return None  # it refuses another line, which is no slip of its own
        reading = read_plain(_unprefixed(request.line), await self.names(request.at), request.at)
        if reading is None or reading.line == request.line.strip():
            return None
        return reading if reading.sure or effect_of(request.line) is not Effect.CHANGES else None

    async def names(self, now: datetime) -> Names:
        """Return the names known now."""
        async with self._turn:
            if self._at is None or abs(now - self._at) > _FRESH:
                self._seen = await asyncio.to_thread(self._read, now)
                self._at, self._known = now, False
            if not self._known:
                fresh = await asyncio.to_thread(self._named)
                self._names, self._known = fresh if fresh != self._names else self._names, True
            return self._names

    def _read(self, now: datetime) -> tuple[Inventory, Sequence[Run]]:
        try:
            with within(Lane.QUICK):
                reading = self._ports.world.source.read(now)
        except Unavailable:
            return Inventory(), ()
        return reading.inventory, reading.runs

    def _named(self) -> Names:
        knowledge = self._ports.world.knowledge
        claims = knowledge.claims()
        packages = {package.name for package in claims.packages if "*" not in package.name} | set(
            _PACKAGES
        )
        rules = {key.partition(".")[0] for key in SETTINGS}
        return names_of(
            *self._seen,
            knowledge.types(),
            {"package": packages, "rule": rules, "region": claims.regions},
        )


def _unprefixed(line: str) -> str:
    first, _, rest = line.strip().partition(" ")
    return rest if first.lower() in {"/trn", "/trnbot", "trn", "trnbot"} and rest else line


def _is_precise(line: str) -> bool:
    """Tell whether a line begins with a command and goes on in its grammar.

    Its own mistake is named then.
    """
    return attempted(line) is not None and any(mark in line for mark in ("..", ":", ","))


def _is_prose(line: str) -> bool:
    """Tell whether a line begins as a sentence does, with a word that stands for itself in no line of the grammar."""
    return attempted(line) is None and len(words := line.split()) > 1 and is_filler(words[0])


def with_reading(card: Card, reading: PlainReading) -> Card:
    """Show before an answer how its line was read, and after it the next nearest readings.

    One number in one line.
    """
    note = quiet("Read as ", Code(reading.line), ".")
    more: tuple[Block, ...] = (
        (quiet("Meant something else?"), _buttons(reading.others)) if reading.others else ()
    )
    data = {**card.data, "read_as": reading.line}
    if not _asks_one_number(reading.line):
        return replace(card, blocks=(note, *card.blocks, *more), data=data)
    title = card.title.replace(grouped_words(card.data.get("by", ())), "", 1)
    return replace(card, title=title, blocks=(note, *_brief(card, reading.line), *more), data=data)


def _asks_one_number(line: str) -> bool:
    """Tell whether a line asks what something cost, and for no table of it."""
    return line.startswith("cost ") and " by " not in line


def _brief(card: Card, line: str) -> tuple[Block, ...]:
    """Return the first sentences of an answer, its title above; everything else is behind a button."""
    first = takewhile(lambda block: isinstance(block, Text), card.blocks[:2])
    shares = [
        button
        for block in card.blocks
        if isinstance(block, Buttons)
        for button in block.buttons
        if isinstance(button, ShareButton)
    ]
    return (*first, Buttons((Button("More", line), *shares)))


def _choice(line: str, reading: PlainReading, error: WrongInput) -> Unsure:
    """Ask which line is meant; where a command was typed, after its mistake."""
    listed = " or ".join(f"'{each}'" for each in reading.lines)
    several = reading.lines[1:]
    unsure = "can be read in more than one way" if several else "is not wholly understood"
    sentence = f"'{line.strip()[:80]}' {unsure}; did you mean {listed}?"
    begun = attempted(line) is not None
    press = "choose" if several else "press it"
    first: Text = (
        text(str(error))
        if begun
        else text(f"Nothing was looked up yet: {press}, or say it in other words.")
    )
    asked = "Which of these do you mean?" if several else "Is this what you mean?"
    title, tone = ("That did not work", Tone.ERROR) if begun else (asked, Tone.INFO)
    data = {"error": str(error) if begun else sentence, "choices": list(reading.lines)}
    return Unsure(
        f"{error} Did you mean {listed}?" if begun else sentence,
        Card(title, tone, (first, _buttons(reading.lines)), data),
    )


def _refused(reading: PlainReading, error: WrongInput | Unavailable) -> Unsure:
    """Say how a line was read whose answer is refused, and why.

    Its next nearest readings are offered.
    """
    others: tuple[Block, ...] = (_buttons(reading.others),) if reading.others else ()
    data = {
        "error": str(error),
        "read_as": reading.line,
        **({"choices": list(reading.others)} if others else {}),
    }
    blocks = (quiet("Read as ", Code(reading.line), "."), text(str(error)), *others)
    return Unsure(str(error), Card("That did not work", Tone.ERROR, blocks, data))


def _press(line: str, meant: str) -> Unsure:
    """Ask for a press before plain words do more than read."""
    sentence = (
        f"'{line.strip()[:80]}' reads as '{meant}', which changes something; type that to do it."
    )
    blocks = (
        text("Read as ", Code(meant), ". It changes something, so it waits for your press."),
        _buttons((meant,)),
    )
    return Unsure(
        sentence,
        Card("Shall this be done?", Tone.INFO, blocks, {"error": sentence, "choices": [meant]}),
    )


def _buttons(lines: Sequence[str]) -> Buttons:
    return Buttons(tuple(Button(line, line) for line in lines))
