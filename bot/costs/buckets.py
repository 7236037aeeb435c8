"""Tell what S3 costs by bucket: the bytes that it keeps apart from the requests to it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from bot.costs.tally import settled_by
from bot.errors import TrnbotError
from bot.model.spend import Filter
from bot.model.window import NO_TIME, Window
from bot.ports import Billing

KEPT, REQUESTS = "S3", "S3-requests"
"""The lines of the bill that a bucket's cost stands in."""
_WEEK = timedelta(days=7)


@dataclass(frozen=True)
class Bucket:
    """State what one bucket cost, amortised: keeping its bytes, and requests.

    `name` is "" where the bill names none.
    """

    name: str
    kept: Decimal
    requests: Decimal

    @property
    def total(self) -> Decimal:
        """Return both together."""
        return self.kept + self.requests


@dataclass(frozen=True)
class Buckets:
    """Hold the buckets of a settled week of the bill, the dearest first."""

    week: Window
    buckets: tuple[Bucket, ...]

    @property
    def total(self) -> Bucket:
        """Return the sum of them all."""
        kept = sum((bucket.kept for bucket in self.buckets), Decimal(0))
        return Bucket("", kept, sum((bucket.requests for bucket in self.buckets), Decimal(0)))


def buckets_of(billing: Billing, at: datetime, cluster: str = "") -> Buckets | None:
    """Return what each bucket cost in the last settled week; None where the bill does not tell.

    May block.
    """
    try:
        settled = settled_by(billing.tally(NO_TIME, ()), at)
        if settled is None:
            return None
        week = Window(settled - _WEEK, settled)
        where = [
            Filter("line", (KEPT, REQUESTS)),
            *([Filter("cluster", (cluster,))] if cluster else []),
        ]
        rows = billing.tally(week, ("resource", "line"), where).rows
    except TrnbotError:
        return None
    costs: defaultdict[str, defaultdict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for row in rows:
        costs[row.key["resource"].rpartition(":")[2]][row.key["line"]] += row.money.amortised
    each = (
        Bucket(name, lines[KEPT], lines[REQUESTS])
        for name, lines in costs.items()
        if any(lines.values())
    )
    return Buckets(week, tuple(sorted(each, key=lambda bucket: (-bucket.total, bucket.name))))
