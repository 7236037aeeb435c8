"""Configure a live account, and poll all of it that is no metric."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from adapters.aws.api.calls import ATTEMPTS, Calls, own_region
from adapters.aws.api.operations import Place
from adapters.aws.api.promql import OTEL_STORE, PrometheusServer
from adapters.aws.api.responses import ResponseHistory
from adapters.aws.config import ReadingConfig
from adapters.aws.inventory.poller import ClusterPoller, LaunchPoller, RefusalPoller, ResourcePoller
from adapters.aws.inventory.snapshots import Snapshots
from adapters.aws.prices.poller import PricePoller
from adapters.aws.prices.quoted import QuotedPrices
from bot.errors import WrongInput
from bot.model.fleet import hardware_of
from bot.model.frame import MetricsSurface
from bot.model.reading import Gap
from bot.ports import Clock

OWN = "self"
"""Stands among roles for the credentials of the process."""


@dataclass(frozen=True)
class AccountAccess:
    """Name the accounts that are read: those behind `roles` (ARNs to assume.

    `self` = no role), each in `regions`.
    """

    regions: Sequence[str] = ()
    roles: Sequence[str] = ()
    external_id: str = ""
    """Shown to every role that is assumed, so that nobody else can have the bot assume it.

    "" where no role asks.
    """

    def places(self) -> tuple[Place, ...]:
        """Return each role in each region, the process's own region where none is named.

        Raise `WrongInput` for none at all.
        """
        regions = tuple(self.regions) or tuple(filter(None, [own_region()]))
        if not regions:
            raise WrongInput(
                "No AWS region is set; set TRNBOT_AWS_REGIONS (a comma list such as us-west-2,"
                " us-east-1) or AWS_REGION."
            )
        return tuple(
            Place(region, "" if role == OWN else role)
            for role in (self.roles or (OWN,))
            for region in regions
        )


@dataclass(frozen=True)
class ReadTiming:
    """Hold the clocks, and the share of an interval that a tick may take."""

    clock: Clock
    stopwatch: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    haste: float = 1.0
    """Divides the time that a tick's reading may take."""


@dataclass(frozen=True)
class LiveConfig:
    """Configure a live account."""

    reading: ReadingConfig
    timing: ReadTiming
    access: AccountAccess = AccountAccess()
    surface: MetricsSurface = MetricsSurface.AUTO
    """Where NeuronCore metrics are read."""
    server: PrometheusServer = OTEL_STORE
    """What answers PromQL."""
    daily_usd: Decimal | None = None
    """The cost of a UTC day at which optional calls stop, None for no limit."""
    usage: Path | None = None
    """A file that counts calls over restarts."""
    attempts: int = ATTEMPTS
    """How often a call is tried."""
    streams: Sequence[str] = ()
    """Addresses of metric streams (s3://BUCKET/PREFIX)."""
    logs: Sequence[str] = ()
    """Log groups (GROUP or REGION:GROUP) that hold compilers' lines."""
    events: Sequence[str] = ()
    """URLs of the SQS queues that EventBridge sends notices to."""
    advisor: str = ""
    """Where the Spot Advisor's data is: a file or an address."""
    journal: Path | None = None
    """A folder where changed answers are kept over restarts, and for recordings."""


class AccountPoller:
    """Keep the answers about an account fresh, and return inventory and prices from them."""

    def __init__(self, calls: Calls, responses: ResponseHistory, config: LiveConfig) -> None:
        self.resources = ResourcePoller(calls, responses)
        self.blind: frozenset[Place] = frozenset()
        """Where the last tick could not tell what runs."""
        self.left_out: tuple[str, ...] = ()
        """What the last tick could not have and can do without."""
        self._responses, self._types, self._stopwatch = (
            responses,
            config.reading.types,
            config.timing.stopwatch,
        )
        self._clusters = ClusterPoller(calls, responses)
        self._launches = LaunchPoller(
            calls, responses, config.timing.stopwatch, config.timing.pause
        )
        self._refusals = RefusalPoller(
            calls, responses, config.timing.stopwatch, config.timing.pause
        )
        self._price_poller = PricePoller(calls, responses, config.advisor)
        self.prices: QuotedPrices | None = None
        """The prices last answered, None before any were."""

    def describe(self, places: Sequence[Place], now: datetime) -> Iterator[Gap]:
        """Poll the resources.

        Yield a gap for each answer without which nobody can tell whether a node is gone.
        """
        left_out, blind = [], set()
        for missing in self.resources.refresh(places, now):
            if missing.needed:
                blind.add(missing.place)
                yield missing.gap
            else:
                left_out.append(str(missing.gap))
        self.left_out, self.blind = tuple(left_out), frozenset(blind)

    def surround(
        self,
        places: Sequence[Place],
        now: datetime,
        deadline: float,
        snapshots: Callable[[], Snapshots],
    ) -> Snapshots:
        """Poll clusters, launchers, refusals and prices until `deadline` by the stopwatch.

        Return all that is known then.
        """
        left_out = [*self._clusters.refresh(places, now)]

        # The inventory is built anew only where a look brought something.
        known_before, answers = snapshots(), self._launches.answers + self._refusals.answers
        left_out += self._launches.refresh(places, known_before.at(now).inventory, now, deadline)
        left_out += self._refusals.refresh(places, now, deadline)
        if self._price_poller.due(now) and self._stopwatch() < deadline:
            left_out += self.price(places, now)
        self.left_out = (*self.left_out, *left_out)
        return (
            snapshots()
            if self._launches.answers + self._refusals.answers > answers
            else known_before
        )

    def price(self, places: Sequence[Place], now: datetime) -> list[str]:
        """Poll prices; return a sentence for each one that is missing."""
        running = {hardware_of(x) for place in places for x in self.resources.types(place)}
        failed = list(self._price_poller.refresh(places, self._types, running, now))
        self.prices = QuotedPrices(self._responses)
        return failed

    def quoted(self, places: Callable[[], Sequence[Place]], now: datetime) -> QuotedPrices:
        """Return the prices last answered, polling them first where nobody did."""
        if self.prices is None and self._price_poller.due(now):
            self.price(places(), now)
        return self.prices or QuotedPrices(self._responses)
