"""Put one question to the loaded bill: whole days from the rollup, the edges from the detail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb

from adapters.billing.dimensions import Asked, canonical, written
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
    keys = "".join(f"{asked.key(one)}, " for one in by)
    filters = asked.where(where)
    detail = "pod_detail" if pods and asked.used & _BY_POD else "detail"
    pieces, values = _pieces(window, detail, asked)
    rows = "row" if asked.over_time() else sql("piece_sums")
    query = sql("tally", keys=keys, pieces=pieces, rows=rows, tags="\n".join(asked.joins), filters=filters)
    found = db.execute(query, {**asked.values, **values}).fetchall()
    return _tally(db, window, tuple(by), found)


def _pieces(window: Window, detail: str, asked: Asked) -> tuple[str, dict[str, object]]:
    """Cut the window into whole days (rollup) and what is left at its ends (detail)."""
    start, end = _naive(window.start), _naive(window.end)
    first, last = _midnight(start + _DAY - timedelta(microseconds=1)), _midnight(end)
    hour = "date_trunc('hour', started) AS hour," if "hour" in asked.used else ""
    if hour or detail != "detail" or first >= last:
        return sql("piece_detail", detail=detail, hour=hour, start="$t0::TIMESTAMP", end="$t1::TIMESTAMP"), {
            "t0": start,
            "t1": end,
        }
    spans = [("piece_detail", start, first), ("piece_rollup", first, last), ("piece_detail", last, end)]
    made: list[str] = []
    values: dict[str, object] = {}
    for name, low, high in spans:
        if low < high:
            n = len(values)
            kind = "DATE" if name == "piece_rollup" else "TIMESTAMP"
            made.append(sql(name, detail=detail, hour=hour, start=f"$t{n}::{kind}", end=f"$t{n + 1}::{kind}"))
            values |= {f"t{n}": low, f"t{n + 1}": high}
    return "\nUNION ALL ".join(made), values


def _tally(db: duckdb.DuckDBPyConnection, window: Window, by: tuple[str, ...], found: list[tuple[Any, ...]]) -> Tally:
    n = len(by)
    currencies = sorted({row[n] for row in found})
    if len(currencies) > 1:
        raise WrongInput(
            f"The bill holds {' and '.join(currencies)}, which cannot be added; ask again with currency={currencies[-1]}."
        )
    rows = _rows(by, found)
    rows.sort(key=lambda row: (-row.money.net, tuple(row.key.values())))
    through, usual = db.execute("SELECT billed_through, currency FROM extent").fetchall()[0]
    sources = tuple(
        row[0] for row in db.execute("SELECT DISTINCT form FROM file WHERE form IS NOT NULL ORDER BY form").fetchall()
    )
    total = sum((row.money for row in rows), Money())
    currency = (currencies or [usual or "USD"])[0]
    return Tally(window, by, tuple(rows), _neat(total), currency, through and through.replace(tzinfo=UTC), sources)


def _rows(by: tuple[str, ...], found: list[tuple[Any, ...]]) -> list[Spend]:
    """Join the kinds of each group's amounts: gross, discounts, credits, tax."""
    n = len(by)
    sums: dict[tuple[str, ...], tuple[list[Decimal], Decimal, bool]] = {}
    for row in found:
        kind, net, amortised, estimated = row[n + 1 :]
        amounts, before, was = sums.get(row[:n], ([Decimal(0)] * 4, Decimal(0), False))
        amounts[kind] += net
        sums[row[:n]] = amounts, before + amortised, was or bool(estimated)
    return [
        Spend({name: written(name, value) for name, value in zip(by, key, strict=True)}, _money(amounts, amortised), estimated)
        for key, (amounts, amortised, estimated) in sums.items()
    ]


def _money(kinds: Sequence[Decimal], amortised: Decimal) -> Money:
    gross, discounts, credits, tax = kinds
    return _neat(Money(gross, discounts, credits, tax, gross + discounts + credits + tax, amortised))


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
