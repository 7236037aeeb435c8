"""Poll all of an account that is no metric: inventory, clusters, quotas, launchers, prices; a failure costs its part only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from adapters.aws.api.calls import Calls, Place
from adapters.aws.api.history import ResponseHistory
from adapters.aws.inventory.poller import ClusterPoller, LaunchPoller, ResourcePoller
from adapters.aws.inventory.snapshots import Snapshots
from adapters.aws.prices.poller import PricePoller
from adapters.aws.prices.quoted import QuotedPrices
from bot.model.fleet import InstanceType
from bot.model.reading import Gap


@dataclass(frozen=True)
class Means:
    """Hold what asking needs beside credentials."""

    stopwatch: Callable[[], float]
    pause: Callable[[float], None]
    journal: Path | None
    """A folder where changed answers are kept over restarts, and for recordings."""
    advisor: str = ""
    """Where the Spot Advisor's data is: a file or an address."""
    haste: float = 1.0
    """What the time that a tick's reading may take is divided by."""


class AccountPoller:
    """Keep the answers fresh and hand out what they say."""

    def __init__(self, calls: Calls, heard: ResponseHistory, means: Means, types: Mapping[str, InstanceType]) -> None:
        self.describer = ResourcePoller(calls, heard)
        self.blind: frozenset[Place] = frozenset()
        """Where the last tick could not tell what runs."""
        self.left_out: tuple[str, ...] = ()
        """What the last tick could not have and can do without."""
        self._heard, self._types, self._stopwatch = heard, types, means.stopwatch
        self._clusters = ClusterPoller(calls, heard)
        self._launches = LaunchPoller(calls, heard, means.stopwatch, means.pause)
        self._quoter = PricePoller(calls, heard, means.advisor)
        self._prices: QuotedPrices | None = None

    def describe(self, places: Sequence[Place], now: datetime) -> Iterator[Gap]:
        """Ask what runs; yield a gap for each answer without which nobody can tell whether a node is gone."""
        left_out, blind = [], set()
        for missing in self.describer.refresh(places, now):
            if missing.needed:
                blind.add(missing.place)
                yield missing.gap
            else:
                left_out.append(str(missing.gap))
        self.left_out, self.blind = tuple(left_out), frozenset(blind)

    def surround(self, places: Sequence[Place], now: datetime, deadline: float, snapshots: Callable[[], Snapshots]) -> Snapshots:
        """Ask what stands around the instances, until `deadline` by the stopwatch; return all that is known then."""
        left_out = [*self._clusters.refresh(places, now)]
        known, answers = snapshots(), self._launches.answers
        left_out += self._launches.refresh(places, known.at(now).inventory, now, deadline)
        if self._quoter.due(now) and self._stopwatch() < deadline:
            left_out += self.price(places, now)
        self.left_out = (*self.left_out, *left_out)
        return snapshots() if self._launches.answers > answers else known

    def price(self, places: Sequence[Place], now: datetime) -> list[str]:
        """Ask for prices; return a sentence for each that could not be had."""
        running = {x for place in places for x in self.describer.types(place)}
        failed = list(self._quoter.refresh(places, self._types, running, now))
        self._prices = QuotedPrices(self._heard)
        return failed

    def quoted(self, places: Callable[[], Sequence[Place]], now: datetime) -> QuotedPrices:
        """Return the prices last answered, asking first where nobody did."""
        if self._prices is None and self._quoter.due(now):
            self.price(places(), now)
        return self._prices or QuotedPrices(self._heard)
