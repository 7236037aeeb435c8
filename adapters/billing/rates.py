"""Work out what an instance-hour really cost, from the bill's own amounts and hours."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

import duckdb

from adapters.billing.sql import sql
from bot.model.fleet import Market
from bot.model.price import Basis, Price

_MARKETS = {market.value for market in Market}
_WEEK = timedelta(days=7)


def rates(db: duckdb.DuckDBPyConnection, seen: datetime) -> tuple[Price, ...]:
    """Return amortised USD over instance-hours of the 7 days before midnight `seen`; nothing for types without hours."""
    until = seen.replace(tzinfo=None)
    rows = db.execute(sql("rates"), {"start": until - _WEEK, "seen": until}).fetchall()
    return tuple(
        Price(
            instance_type=kind,
            usd_per_hour=(cost / Decimal(repr(hours))).quantize(Decimal("0.000001")),
            market=Market(market),
            basis=Basis.BILLED,
            region=region,
            asof=(ended - timedelta(microseconds=1)).date(),
            source=f"{form} of {month:%Y-%m}, {hours:,.0f} instance-hours",
            hours=hours,
        )
        for kind, region, market, cost, hours, ended, form, month in rows
        if market in _MARKETS
    )
