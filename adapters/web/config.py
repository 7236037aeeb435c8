"""Hold how the console is set up, and the parts of the bot that its pages ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import urlsplit

from adapters.web.people import Known
from bot.cards.card import Card
from bot.errors import WrongInput
from bot.model.request import CommandHint, Effect, LineWindow
from bot.ports.chat import Answer, Clock, Story


@dataclass(frozen=True)
class WebConfig:
    """Hold the console's name, its addresses and its token.

    Without `hosts` and `public_url`, a loopback address answers to loopback names alone.
    """

    title: str = "trnbot"
    hosts: tuple[str, ...] = ()
    """Names under which a proxy on this machine offers the console."""
    secret: str = ""
    """The token that every page but `/healthz` asks for, "" for none."""
    public_url: str = ""
    known: Known = field(default_factory=Known)
    """How people are known, beside that token."""

    def __repr__(self) -> str:
        """Show no secret."""
        return f"WebConfig({self.title}, {self.public_url})"

    @property
    def secure(self) -> bool:
        """Return whether browsers reach the console by TLS alone."""
        return self.public_url.startswith("https://")

    @property
    def names(self) -> tuple[str, ...]:
        """Return every name under which a proxy offers the console."""
        public = urlsplit(self.public_url).hostname
        return (*self.hosts, *((public,) if public else ()))


class StoryTeller(Protocol):
    """Tell a demonstration, and begin it again."""

    def told(self) -> Story:
        """Return it as it stands."""
        ...

    @property
    def again(self) -> Callable[[], None] | None:
        """Stop the process when called, which then begins anew; None where it cannot."""
        ...


def _no_table(_: str, __: Card) -> str:
    raise WrongInput("Tables are not written here.")


@dataclass(frozen=True)
class Console:
    """Hold the parts of the bot that the pages ask.

    `health()` may hold `ok`, `problem`, `now`, `live`, `ended`, `speed`, `ticked_at`,
    `open_alerts`, `usd_per_hour`, `source`; the status strip leaves out the facts that are missing.
    `metrics()` returns Prometheus text.
    """

    answer: Answer
    clock: Clock
    health: Callable[[], Mapping[str, Any]]
    metrics: Callable[[], str]
    effect: Callable[[str], Effect]
    """Tells how far a line reaches: the console reads no line itself."""
    window: Callable[[str, datetime], LineWindow | None]
    """Tells the window of a line at a time, None where it has none."""
    csv: Callable[[str, Card], str] = _no_table
    """Writes the table of a line's answer; raises `WrongInput` where it has none."""
    hints: Sequence[CommandHint] = ()
    story: StoryTeller | None = None
