"""Open a part of the world when it is first asked.

A source, its prices, a bill, a detector, a replay of the state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from bot.model.alert import Alert, Decision
from bot.model.anomaly import Detection
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.model.price import AccountRates, CommitmentOffer, Interruption, PlacementScore, Price
from bot.model.reading import Reading
from bot.model.run import Compile
from bot.model.spend import Commitment, Filter, Finding, Forecast, Tally
from bot.model.window import Window
from bot.ports import AlertStore, Billing, Inbox, Outlook, Prices, Source, State, StateUpdate

if TYPE_CHECKING:
    from detectors import Detector

T = TypeVar("T")


class Once(Generic[T]):
    """Make a thing at the first call and keep it; a failure is not kept."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = Lock()
        self._made: list[T] = []

    def __call__(self) -> T:
        """Return the thing."""
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]


class AtMostEvery:
    """Tell that something is due.

    At the first call, and again when `seconds` have passed on the clock since it was.
    """

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds, self._clock = seconds, clock
        self._last: float | None = None

    def __call__(self) -> bool:
        """Return whether it is due, and take it as done then."""
        now = self._clock()
        if self._last is not None and now - self._last < self._seconds:
            return False
        self._last = now
        return True


class LazySource:
    """Implement `Source` over one that is opened when first read."""

    def __init__(self, opened: Callable[[], Source]) -> None:
        self._opened = opened

    def read(self, now: datetime) -> Reading:
        """Return the reading of `now`."""
        return self._opened().read(now)

    def extent(self) -> Window | None:
        """Return first to last metric."""
        return self._opened().extent()

    def problems(self) -> Sequence[str]:
        """Return the failures of reading."""
        return self._opened().problems()


class SharedSource:
    """Implement `Source` for several replays side by side: a reading serves them all."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._latest: tuple[datetime, Reading] | None = None

    def read(self, now: datetime) -> Reading:
        """Return the reading of `now`."""
        if self._latest is None or self._latest[0] != now:
            self._latest = now, self._source.read(now)
        return self._latest[1]

    def extent(self) -> Window | None:
        """Return first to last metric."""
        return self._source.extent()

    def problems(self) -> Sequence[str]:
        """Return the failures of reading."""
        return self._source.problems()


class LazyPrices:
    """Implement `Prices` over a price list that is opened when first asked."""

    def __init__(self, opened: Callable[[], Prices]) -> None:
        self._opened = opened

    def quotes(self, instance_type: str, region: str, now: datetime) -> Sequence[Price]:
        """Return every known price."""
        return self._opened().quotes(instance_type, region, now)

    def spot_history(self, instance_type: str, now: datetime) -> Sequence[tuple[datetime, Price]]:
        """Return the spot price changes."""
        return self._opened().spot_history(instance_type, now)

    def placement(self, instance_type: str, now: datetime) -> Sequence[PlacementScore]:
        """Return the spot placement scores."""
        return self._opened().placement(instance_type, now)

    def interruptions(self, instance_type: str, now: datetime) -> Sequence[Interruption]:
        """Return the Spot Advisor's bands."""
        return self._opened().interruptions(instance_type, now)

    def commitment_offers(self, instance_type: str, now: datetime) -> Sequence[CommitmentOffer]:
        """Return the Savings Plans and reserved instances offered."""
        return self._opened().commitment_offers(instance_type, now)


class ReplayedStore:
    """Implement `Store` over one that a replay fills up to the first time that is asked for."""

    def __init__(self, store: AlertStore, fill: Callable[[datetime], None]) -> None:
        self._store = store
        self._fill = fill
        self._filled = False

    def load(self, now: datetime) -> State:
        """Return the state that the watch would have had at `now`."""
        return self._ready(now).load(now)

    def save(self, changes: StateUpdate) -> None:
        """Write all of it or none of it."""
        self._store.save(changes)

    def history(self, window: Window, selector: Labels) -> Sequence[Alert]:
        """Return the alerts that were open within the window."""
        return self._ready(window.end).history(window, selector)

    def decisions(self, *alerts: str) -> Sequence[Decision]:
        """Return people's decisions about some alerts."""
        return self._store.decisions(*alerts)

    def _ready(self, now: datetime) -> AlertStore:
        if not self._filled:
            self._filled = True
            self._fill(now)
        return self._store


class LazyBilling:
    """Implement `Billing` over a bill that is opened when first asked."""

    def __init__(self, opened: Callable[[], Billing]) -> None:
        self._opened = opened

    def tally(self, window: Window, by: Sequence[str], where: Sequence[Filter] = ()) -> Tally:
        """Sum the rows of a window."""
        return self._opened().tally(window, by, where)

    def deltas(self, now: datetime, days: int) -> Reading:
        """Return the daily spend seen at `now`."""
        return self._opened().deltas(now, days)

    def rates(self, now: datetime) -> AccountRates:
        """Return the account's own rates."""
        return self._opened().rates(now)

    def problems(self) -> Sequence[str]:
        """Return the failures of reading."""
        return self._opened().problems()


class LazyOutlook:
    """Implement `Outlook` over one that is opened when first asked."""

    def __init__(self, opened: Callable[[], Outlook]) -> None:
        self._opened = opened

    def forecast(self, now: datetime, /) -> Forecast | None:
        """Return the newest forecast."""
        return self._opened().forecast(now)

    def commitments(self, now: datetime, /) -> Sequence[Commitment]:
        """Return how commitments were used."""
        return self._opened().commitments(now)

    def findings(self, now: datetime, /) -> Sequence[Finding]:
        """Return the provider's findings."""
        return self._opened().findings(now)

    def problems(self) -> Sequence[str]:
        """Return the failures of asking and reading."""
        return self._opened().problems()


class LazyInbox:
    """Implement `Inbox` over one that is opened when something may have been sent."""

    def __init__(self, opened: Callable[[], Inbox]) -> None:
        self._opened = opened

    def receive(self, now: datetime) -> None:
        """Take in what waits."""
        self._opened().receive(now)

    def settle(self, now: datetime) -> None:
        """Take away what was used."""
        self._opened().settle(now)


class LazyDetector:
    """Implement `Detect`, and `Compiles` by a method, over a detector that is made when first asked."""

    def __init__(self, made: Callable[[], Detector]) -> None:
        self._made = made

    def __call__(self, reading: Reading, policy: Policy, known: Sequence[Alert]) -> Detection:
        """Judge the reading by the history before it."""
        return self._made()(reading, policy, known)

    def compiles(self, reading: Reading, policy: Policy, since: datetime) -> Sequence[Compile]:
        """Return every compile that was going on at `since` or later."""
        return self._made().compiles(reading, policy, since)
