"""Find the hours that a prepaid fee buys: its own line's, else its reservation's.

Or say that it stands on its day.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    def spread_already(self) -> bool:
        """Return whether the export charges the hours themselves, as FOCUS demands.

        Then the fee has no effective cost.
        """
        return not self.amortised and bool(self.charged)

    @property
    def words(self) -> str:
        """Read as `the fee of $411,964.42 on 2026-10-13 for the Capacity Block cr-0ab`."""
        name = " ".join(filter(None, ("Capacity Block", self.reservation or self.instance_type)))
        return f"The fee of {usd(self.net)} on {self.started:%Y-%m-%d} for the {name}"


def has_fees(db: duckdb.DuckDBPyConnection) -> bool:
    """Return whether any prepaid fee was loaded."""
    return bool(db.execute("SELECT count(*) FROM fee").fetchall()[0][0])


def amortise(db: duckdb.DuckDBPyConnection, blocks: Sequence[Reservation]) -> list[str]:
    """Spread every fee whose hours are known; return a sentence for each whose are not."""
    fees = [_Fee(*row) for row in db.execute(sql("prepaid")).fetchall()]
    problems = []
    db.execute(
        "CREATE OR REPLACE TEMP TABLE prepaid (thing UBIGINT, month DATE, started TIMESTAMP, ended TIMESTAMP, currency VARCHAR, "
        "usd DECIMAL(38, 15), amortised DECIMAL(38, 15), reservation VARCHAR, region VARCHAR, instance_type VARCHAR, "
        "begins TIMESTAMP, ends TIMESTAMP, instances DOUBLE)"
    )
    for fee in fees:
        if fee.spread_already or not (fee.amortised or fee.charged is not None):
            continue
        span = _span(fee, blocks) if fee.form != ExportForm.EXPLORER else None
        if span is None:
            problems.append(_why(fee))
            continue
        row = [
            fee.thing,
            fee.month,
            fee.started,
            fee.ended,
            fee.currency,
            fee.amortised or fee.net,
            fee.amortised,
        ]
        db.execute(
            "INSERT INTO prepaid VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [*row, *astuple(span)],
        )
    db.execute(sql("amortise"))
    return problems


def _why(fee: _Fee) -> str:
    if fee.form == ExportForm.EXPLORER:
        return f"{fee.words} stands on its day, in amortised cost too: Cost Explorer names neither its hours nor its instances."
    return (
        f"{fee.words} stands on its day, in amortised cost too: neither its line nor a capacity reservation that was read "
        "says which hours it buys."
    )


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
    held = list(_candidates(fee, blocks))
    if len(held) == 1 and (ends := held[0].ends_at):
        labels = held[0].labels
        place = (
            labels.resource,
            labels.region or fee.region,
            labels.instance_type or fee.instance_type,
        )
        return _Span(*place, _naive(held[0].starts_at), _naive(ends), float(held[0].total))
    if fee.ended - fee.started > _DAY and not fee.monthly:
        hours = (fee.ended - fee.started) / timedelta(hours=1)
        instances = fee.units / hours if fee.units and fee.units >= hours else None
        return _Span(
            fee.reservation, fee.region, fee.instance_type, fee.started, fee.ended, instances
        )
    return None


def _candidates(fee: _Fee, blocks: Sequence[Reservation]) -> Iterator[Reservation]:
    """Yield the Capacity Blocks that the fee may have bought.

    The one it names, else those of its type that began since.
    """
    for block in blocks:
        if block.market is not Market.CAPACITY_BLOCK or block.ends_at is None:
            continue
        labels, begins = block.labels, _naive(block.starts_at)
        alike = (labels.instance_type, labels.region) == (fee.instance_type, fee.region)
        soon = fee.started - _DAY < begins < fee.started + _AFTER
        if labels.resource == fee.reservation or (not fee.reservation and alike and soon):
            yield block


def _naive(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(tzinfo=None)
