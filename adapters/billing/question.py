"""Put one question to the loaded bill: whole days from the rollup, the edges from the detail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb

from adapters.billing.dimensions import Asked, canonical
from adapters.billing.sql import sql
from bot.errors import WrongInput
from bot.model.spend import Filter, Money, Spend, Tally
from bot.model.window import Window

_DAY = timedelta(days=1)
_BY_POD = {"namespace", "pod"}


def ask(db: duckdb.DuckDBPyConnection, window: Window, by: Sequence[str], where: Sequence[Filter], *, pods: bool) -> Tally:
    """Return the tally; `pods` tells whether split rows were loaded. Raise `WrongInput` for what cannot be asked."""
    asked = Asked()
    by = tuple(canonical(one) for one in by)
    keys = "".join(f"{asked.expression(one)}, " for one in by)
    filters = asked.where(where)
    detail = "pod_detail" if pods and asked.used & _BY_POD else "detail"
    fine = "hour" in asked.used or detail != "detail"
    pieces, values = _pieces(window, detail, fine=fine)
    query = sql("tally", keys=keys, pieces=pieces, tags="\n".join(asked.joins), filters=filters)
    found = db.execute(query, {**asked.values, **values}).fetchall()
    return _tally(db, window, tuple(by), found)


def _pieces(window: Window, detail: str, *, fine: bool) -> tuple[str, dict[str, object]]:
    """Cut the window into whole days (rollup) and what is left at its ends (detail)."""
    start, end = _naive(window.start), _naive(window.end)
    first, last = _midnight(start + _DAY - timedelta(microseconds=1)), _midnight(end)
    if fine or first >= last:
        return sql("piece_detail", detail=detail, start="$t0::TIMESTAMP", end="$t1::TIMESTAMP"), {"t0": start, "t1": end}
    spans = [("piece_detail", start, first), ("piece_rollup", first, last), ("piece_detail", last, end)]
    made: list[str] = []
    values: dict[str, object] = {}
    for name, low, high in spans:
        if low < high:
            n = len(values)
            kind = "DATE" if name == "piece_rollup" else "TIMESTAMP"
            made.append(sql(name, detail=detail, start=f"$t{n}::{kind}", end=f"$t{n + 1}::{kind}"))
            values |= {f"t{n}": low, f"t{n + 1}": high}
    return "\nUNION ALL ".join(made), values


def _tally(db: duckdb.DuckDBPyConnection, window: Window, by: tuple[str, ...], found: list[tuple[Any, ...]]) -> Tally:
    n = len(by)
    currencies = sorted({row[n] for row in found})
    if len(currencies) > 1:
        raise WrongInput(
            f"The bill holds {' and '.join(currencies)}, which cannot be added; ask again with currency={currencies[-1]}."
        )
    rows = [Spend(dict(zip(by, row[:n], strict=True)), _money(row[n + 1 : n + 7]), bool(row[n + 7])) for row in found]
    rows.sort(key=lambda row: (-row.money.net, tuple(row.key.values())))
    through, usual = db.execute("SELECT billed_through, currency FROM extent").fetchall()[0]
    sources = tuple(
        row[0] for row in db.execute("SELECT DISTINCT form FROM file WHERE form IS NOT NULL ORDER BY form").fetchall()
    )
    total = sum((row.money for row in rows), Money())
    currency = (currencies or [usual or "USD"])[0]
    return Tally(window, by, tuple(rows), _neat(total), currency, through and through.replace(tzinfo=UTC), sources)


def _money(amounts: Sequence[Decimal]) -> Money:
    return _neat(Money(*amounts))


def _neat(money: Money) -> Money:
    """Drop the zeros that the database's fixed scale adds, at least the cents left."""
    return Money(
        *(neat(amount) for amount in (money.gross, money.discounts, money.credits, money.tax, money.net, money.amortised))
    )


def neat(amount: Decimal) -> Decimal:
    """Return the amount without trailing zeros beyond the cents; exact."""
    short = amount.normalize()
    return short.quantize(Decimal("0.01")) if int(short.as_tuple().exponent) > -2 else short


def _naive(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(tzinfo=None)


def _midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)
