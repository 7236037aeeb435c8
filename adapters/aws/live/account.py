"""Poll all of an account that is no metric: inventory, clusters, quotas, CloudTrail, prices.

A failure costs its part only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from adapters.aws.api.calls import Calls, Place
from adapters.aws.api.history import ResponseHistory
from adapters.aws.inventory.poller import ClusterPoller, LaunchPoller, ResourcePoller
from adapters.aws.inventory.snapshots import Snapshots
from adapters.aws.live.config import LiveConfig
from adapters.aws.live.refusals import RefusalPoller
from adapters.aws.prices.poller import PricePoller
from adapters.aws.prices.quoted import QuotedPrices
from bot.model.reading import Gap


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
        self._price_poller = PricePoller(calls, responses, config.extra.advisor)
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
        running = {x for place in places for x in self.resources.types(place)}
        failed = list(self._price_poller.refresh(places, self._types, running, now))
        self.prices = QuotedPrices(self._responses)
        return failed

    def quoted(self, places: Callable[[], Sequence[Place]], now: datetime) -> QuotedPrices:
        """Return the prices last answered, polling them first where nobody did."""
        if self.prices is None and self._price_poller.due(now):
            self.price(places(), now)
        return self.prices or QuotedPrices(self._responses)
