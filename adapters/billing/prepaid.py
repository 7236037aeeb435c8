"""Find the hours that a prepaid fee buys: its own line's, else its reservation's.

Or say that it stands on its day.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb

from adapters.billing.database import sql
from adapters.billing.exports import ExportForm
from bot.model.fleet import Market, Reservation
from bot.model.money import usd

_DAY = timedelta(days=1)
_AFTER = timedelta(days=190)
"""A Capacity Block begins at most eight weeks after it is bought, and lasts half a year at most."""


@dataclass(frozen=True)
class _Fee:
    """State a fee of the bill.

    USD `net` of cash and `amortised` as the export has it, for `units` instance-hours.
    """

    thing: int
    month: Any
    started: datetime
    ended: datetime
    net: Decimal
    amortised: Decimal
    units: float | None
    reservation: str | None
    currency: str
    region: str
    instance_type: str
    form: str
    monthly: bool
    charged: Decimal | None

    @property
    def words(self) -> str:
        """Read as `the fee of $411,964.42 on 2026-10-13 for the Capacity Block cr-0ab`."""
        name = " ".join(filter(None, ("Capacity Block", self.reservation or self.instance_type)))
        return f"The fee of {usd(self.net)} on {self.started:%Y-%m-%d} for the {name}"


def amortise(
    db: duckdb.DuckDBPyConnection, blocks: Callable[[], Sequence[Reservation]]
) -> list[str]:
    """Spread every fee whose hours are known; return a sentence for each whose are not.

    `blocks` are asked for only where there is a fee.
    """
    if not db.execute("SELECT 1 FROM fee LIMIT 1").fetchall():
        return []
    known, problems = blocks(), []
    db.execute(
        "CREATE OR REPLACE TEMP TABLE prepaid (thing UBIGINT, month DATE, started TIMESTAMP, "
        "ended TIMESTAMP, currency VARCHAR, usd DECIMAL(38, 15), amortised DECIMAL(38, 15), "
        "reservation VARCHAR, region VARCHAR, instance_type VARCHAR, "
        "begins TIMESTAMP, ends TIMESTAMP, instances DOUBLE)"
    )
    for fee in [_Fee(*row) for row in db.execute(sql("prepaid")).fetchall()]:
        # FOCUS demands that an export charges the hours themselves; the fee has no effective cost.
        spread_already = not fee.amortised and bool(fee.charged)
        if spread_already or not (fee.amortised or fee.charged is not None):
            continue
        span = None
        why = "Cost Explorer names neither its hours nor its instances."
        if fee.form != ExportForm.EXPLORER:
            span = _span(fee, known)
            why = (
                "neither its line nor a capacity reservation that was read says which hours it "
                "buys."
            )
        if span is None:
            problems.append(f"{fee.words} stands on its day, in amortised cost too: {why}")
            continue
        row = [fee.thing, fee.month, fee.started, fee.ended, fee.currency]
        row += [fee.amortised or fee.net, fee.amortised, *astuple(span)]
        db.execute(f"INSERT INTO prepaid VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608
    db.execute(sql("amortise"))
    return problems


@dataclass(frozen=True)
class _Span:
    """State the hours that a fee buys.

    Of which reservation and place, and of how many instances (None: not known).
    """

    reservation: str | None
    region: str
    instance_type: str
    begins: datetime
    ends: datetime
    instances: float | None


def _span(fee: _Fee, blocks: Sequence[Reservation]) -> _Span | None:
    """Return the hours of the one Capacity Block that the fee may have bought, else its line's.

    That is the one it names, else one of its type that began since.
    """
    bought = []
    for block in blocks:
        if block.market is not Market.CAPACITY_BLOCK or block.ends_at is None:
            continue
        labels, begins, ends = block.labels, _naive(block.starts_at), _naive(block.ends_at)
        alike = (labels.instance_type, labels.region) == (fee.instance_type, fee.region)
        soon = fee.started - _DAY < begins < fee.started + _AFTER
        if labels.resource == fee.reservation or (not fee.reservation and alike and soon):
            region = labels.region or fee.region
            instance_type = labels.instance_type or fee.instance_type
            total = float(block.total)
            bought.append(_Span(labels.resource, region, instance_type, begins, ends, total))
    if len(bought) == 1:
        return bought[0]

    if fee.ended - fee.started <= _DAY or fee.monthly:
        return None
    hours = (fee.ended - fee.started) / timedelta(hours=1)
    instances = fee.units / hours if fee.units and fee.units >= hours else None
    place = (fee.reservation, fee.region, fee.instance_type)
    return _Span(*place, fee.started, fee.ended, instances)


def _naive(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(tzinfo=None)
