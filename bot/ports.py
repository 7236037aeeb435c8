"""Say what the bot asks of the world: each port at most four methods, each call one question.

Calls that are plain `def` may block (files, SQL, HTTP): the doors run them off the event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from bot.cards.card import Card, Chart
from bot.model.alert import Alert, Decision
from bot.model.anomaly import Detection
from bot.model.check import Check as Check
from bot.model.check import CommandHint as CommandHint
from bot.model.claims import Claims
from bot.model.fleet import InstanceType
from bot.model.labels import Labels
from bot.model.memory import Changes as Changes
from bot.model.memory import Memory as Memory
from bot.model.own import OwnBill
from bot.model.policy import Policy
from bot.model.price import Interruption, PlacementScore, Price, StoragePrice
from bot.model.reading import Reading
from bot.model.replay import Replay
from bot.model.request import Request
from bot.model.route import Routes
from bot.model.spend import Filter, Tally
from bot.model.version import Attempt, Version
from bot.model.window import Window
from bot.outlook import NoOutlook, Outlook
from bot.policy.change import applied


class Source(Protocol):
    """Read metrics and inventory; the same for a recording and a live account."""

    def read(self, now: datetime) -> Reading:
        """Return what was visible at `now`, frames reaching back over the history kept."""
        ...

    def extent(self) -> Window | None:
        """Return first to last metric, or None for a source without an end (a live account)."""
        ...

    def problems(self) -> Sequence[str]:
        """Return one sentence for each thing that could not be read: file, line, why."""
        ...


class Billing(Protocol):
    """Ask the bill."""

    def tally(self, window: Window, by: Sequence[str], where: Sequence[Filter] = ()) -> Tally:
        """Sum the rows whose usage starts in the window, by dimensions; raise `WrongInput` for an unknown one."""
        ...

    def deltas(self, now: datetime, days: int) -> Reading:
        """Return a reading with the `spend` frame of the last `days`, of rows seen at `now` (usage end + billing.lag)."""
        ...

    def rates(self, now: datetime) -> Sequence[Price]:
        """Return the account's own effective USD an hour by instance type, region and market (Basis.BILLED)."""
        ...

    def problems(self) -> Sequence[str]:
        """Return one sentence for each file or row that could not be read."""
        ...


class Prices(Protocol):
    """Quote hours."""

    def quotes(self, instance_type: str, region: str, now: datetime) -> Sequence[Price]:
        """Return every known price at `now`, any basis and market; empty when none is known."""
        ...

    def spot_history(self, instance_type: str, now: datetime) -> Sequence[tuple[datetime, Price]]:
        """Return the spot price changes known at `now`, oldest first."""
        ...

    def placement(self, instance_type: str, now: datetime) -> Sequence[PlacementScore]:
        """Return EC2's spot placement scores known at `now`, the best first; empty where they are not read."""
        ...

    def interruptions(self, instance_type: str, now: datetime) -> Sequence[Interruption]:
        """Return the Spot Advisor's bands known at `now`, by region; empty where they are not read."""
        ...


class Knowledge(Protocol):
    """Give dated facts."""

    def types(self) -> Mapping[str, InstanceType]:
        """Return the specification of every known instance type, by name."""
        ...

    def fallback_prices(self) -> Sequence[Price]:
        """Return the prices of last resort (Basis.FALLBACK)."""
        ...

    def storage_prices(self) -> Sequence[StoragePrice]:
        """Return the list prices of storage, each with its source."""
        ...

    def claims(self) -> Claims:
        """Return speed-ups, savings and contradictions as others state them."""
        ...


class Store(Protocol):
    """Keep state."""

    def load(self, now: datetime) -> Memory:
        """Return what the watch needs at `now`."""
        ...

    def save(self, changes: Changes) -> None:
        """Write all of it or none of it."""
        ...

    def history(self, window: Window, selector: Labels) -> Sequence[Alert]:
        """Return the alerts that were open at some time in the window and that the labels select, newest first."""
        ...

    def decisions(self, *alerts: str) -> Sequence[Decision]:
        """Return what people decided about these alert ids, oldest first of each."""
        ...


class Surface(Protocol):
    """Speak on one platform; `channel` is without the platform's prefix."""

    async def post(self, channel: str, card: Card, key: str) -> str:
        """Send a new message and return its id; `key` is remembered with the message where the platform can."""
        ...

    async def edit(self, channel: str, message: str, card: Card, key: str) -> str:
        """Replace a message and return its id: a new one when the old was deleted and it had to be posted fresh."""
        ...

    async def reply(self, channel: str, message: str, card: Card) -> None:
        """Add to the message's thread."""
        ...

    async def find(self, channel: str, key: str) -> str:
        """Return the id of the message that was posted with `key`, "" when there is none or it cannot be known."""
        ...


class Detect(Protocol):
    """Find anomalies."""

    def __call__(self, reading: Reading, policy: Policy, known: Sequence[Alert]) -> Detection:
        """Judge `reading.now` by the history before it; `known` alerts are not learnt from."""
        ...


Clock = Callable[[], datetime]


class Replays(Protocol):
    """Run the watch over recorded time: of other recordings, and of the source being watched."""

    def open(self, source: str, policy: Policy) -> Ports:
        """Return ports over `recording:DIR` or `simulator:SEED` with an empty store; raise `WrongInput` or `Unavailable`."""
        ...

    def again(self, policies: Sequence[Policy]) -> Sequence[Ports]:
        """Return ports over the watched source for each policy, with an empty store each; asked alike, they read once."""
        ...

    def truth(self, source: str) -> Sequence[Mapping[str, Any]] | None:
        """Return the labelled incidents of a recording, None when it has none."""
        ...

    def grade(self, seen: Replay, truth: Sequence[Mapping[str, Any]], clusters: int) -> Mapping[str, Any]:
        """Return how well the alerts of a replay over so many clusters meet the truth."""
        ...


class Versions(Protocol):
    """Keep every version of the policy, and every attempt to change it."""

    def versions(self, most: int) -> Sequence[Version]:
        """Return up to `most` versions, the newest first."""
        ...

    def add(self, version: Version) -> None:
        """Write one version; raise `WrongInput` when somebody else took its number."""
        ...

    def attempts(self, most: int) -> Sequence[Attempt]:
        """Return up to `most` attempts, the newest first."""
        ...

    def note(self, attempt: Attempt) -> None:
        """Write one attempt."""
        ...


@dataclass(frozen=True)
class Ports:
    """Give a command everything it may ask."""

    source: Source
    billing: Billing
    prices: Prices
    knowledge: Knowledge
    store: Store
    detect: Detect
    base: Policy
    """The settings file's policy, under every stored change."""
    versions: Versions
    shelf: Shelf
    replays: Replays
    interval: timedelta
    channels: Sequence[str] = ("default",)
    """Channels that hear every alert."""
    routes: Routes = field(default_factory=Routes)
    """Who else hears which alerts, by the settings."""
    surfaces: Mapping[str, Surface] = field(default_factory=dict)
    people: Mapping[str, People] = field(default_factory=dict)
    """Who is in which group, by platform."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Facts about this installation that answers may show, secrets masked."""
    remembers: bool = True  # the store outlives this call: what people decided is asked without a replay
    outlook: Outlook = field(default_factory=NoOutlook)
    checks: Callable[[], Sequence[Check]] = tuple  # look at everything the bot needs; may block
    own_bill: Callable[[], OwnBill | None] = lambda: None
    """Return what the bot's own AWS calls cost, None where no account is read; may block."""
    standing: Callable[[], Mapping[str, Any]] = dict  # what this process's watch counted; empty where it does not watch
    drill: Callable[[Sequence[str], datetime], None] = lambda *_: None  # look closer at these instances from now on; may block

    @property
    def policy(self) -> Policy:
        """Return the policy in force now, whoever changed it; may block."""
        newest = self.versions.versions(1)
        return applied(self.base, newest[0].overrides) if newest else self.base


Answer = Callable[[Request], Awaitable[Card]]
"""The second door: every surface hands its lines to this."""

Tell = Callable[[str], Awaitable[None]]
"""Tell an admin one sentence about the bot itself."""

Draw = Callable[[Chart], bytes]  # as PNG


class Listener(Protocol):
    """Live with the process: what a surface (or a timer) starts, serves and stops."""

    def routes(self) -> Sequence[Any]:
        """Return the aiohttp route definitions it serves on the one HTTP port; empty when none."""
        ...

    async def start(self) -> None:
        """Connect."""
        ...

    async def stop(self) -> None:
        """Disconnect and finish what is under way."""
        ...


class Shelf(Protocol):
    """Keep small JSON documents for surfaces: conversation references, installations, the console's messages."""

    def put(self, shelf: str, key: str, document: Mapping[str, Any]) -> None:
        """Write one document over the one before."""
        ...

    def get(self, shelf: str, key: str) -> Mapping[str, Any] | None:
        """Return one document, or None."""
        ...

    def newest(self, shelf: str, most: int) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Return up to `most` (key, document), the last written first."""
        ...

    def drop(self, shelf: str, key: str) -> None:
        """Forget one document."""
        ...


class People(Protocol):
    """Know who is in which group on one platform; both are addresses without the platform."""

    async def belongs(self, user: str, group: str) -> bool:
        """Tell whether a person is in a group; False for what names no group. Raises `Unavailable` when it cannot be told."""


class Turnstile(Protocol):
    """Let each key through once, in whichever process it comes: a platform's repeated event, a state of an installation."""

    def first(self, shelf: str, key: str) -> bool:
        """Tell whether the key came for the first time, and keep it; of processes that ask at once, one hears yes."""
