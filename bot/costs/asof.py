"""Show the bill as it stood at a time.

Its rows hold no time of their coming, and are taken to have come by their usual delay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property

from bot.costs.tally import SETTLE
from bot.model.price import AccountRates
from bot.model.reading import Reading
from bot.model.spend import Filter, Spend, Tally
from bot.model.window import NO_TIME, Window, month_of
from bot.ports import Billing, Ports

INVOICED = timedelta(days=5)
"""How long after a month's end its invoice is taken to have been made.

Until then AWS may rewrite each of its rows.
"""

_HOUR = timedelta(hours=1)
"""What a bill that is up to date may reach beyond the time of the question.

A row names its whole hour.
"""


@dataclass(frozen=True)
class BilledBy:
    """Implement `Billing` over another one as of `at`, where that one holds hours that had not passed by then.

    A charge counts once its hour lies `lag` back. A bill that reaches no farther than `at` is shown
    as it is.
    """

    billing: Billing
    at: datetime
    lag: timedelta

    def tally(self, window: Window, by: Sequence[str], where: Sequence[Filter] = ()) -> Tally:
        """Sum the rows of the window that had been billed.

        What was not final at the time is an estimate.
        """
        seen = self._seen
        if seen is None:
            return self.billing.tally(window, by, where)
        tally = self.billing.tally(_until(window, seen), by, where)
        unsettled = Window(min(seen - SETTLE, month_of(self.at - INVOICED).start), seen)
        late = self._late(tally, unsettled, by, where)
        rows = tuple(
            row if row.estimated or not is_late else replace(row, estimated=True)
            for row, is_late in late
        )
        return replace(tally, window=window, rows=rows, billed_through=seen, seen=seen)

    def deltas(self, now: datetime, days: int) -> Reading:
        """Return the daily spend seen at `now`, which says itself what that is."""
        return self.billing.deltas(now, days)

    def rates(self, now: datetime) -> AccountRates:
        """Return the account's own rates seen at `now`."""
        return self.billing.rates(now)

    def problems(self) -> Sequence[str]:
        """Return the bill's own problems."""
        return self.billing.problems()

    @cached_property
    def _seen(self) -> datetime | None:
        """Return the hour before which all was billed.

        None where the bill reaches no farther than the time of the question.
        """
        through = self.billing.tally(NO_TIME, ()).billed_through
        return self.at - self.lag if through is not None and through > self.at + _HOUR else None

    def _late(
        self, tally: Tally, span: Window, by: Sequence[str], where: Sequence[Filter]
    ) -> Iterator[tuple[Spend, bool]]:
        """Yield each row of a tally, and whether it has a charge in a span that reaches as far as the tally."""
        start, end = max(tally.window.start, span.start), min(tally.window.end, span.end)
        if start == tally.window.start or start >= end:  # all of it, or nothing: no need to ask
            yield from ((row, start < end) for row in tally.rows)
            return
        late = {
            tuple(row.key.values())
            for row in self.billing.tally(Window(start, end), by, where).rows
        }
        yield from ((row, tuple(row.key.values()) in late) for row in tally.rows)


def _until(window: Window, end: datetime) -> Window:
    return Window(min(window.start, end), min(window.end, end))


def as_of(ports: Ports, at: datetime) -> Ports:
    """Return the ports with the bill as it stood at `at`."""
    world = ports.world
    return replace(
        ports, world=replace(world, billing=BilledBy(world.billing, at, world.billing_lag))
    )
