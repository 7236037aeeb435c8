"""Put questions to the loaded bill: its extent, tallies, and effective rates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb

from adapters.billing.dimensions import QueryParts, canonical, written
from adapters.billing.sql import sql
from bot.errors import WrongInput
from bot.model.fleet import Market
from bot.model.money import cents
from bot.model.price import AccountRates, Basis, Price
from bot.model.spend import Filter, Money, Spend, Tally
from bot.model.window import Window
from bot.ports.work import most_rows, refuse_rows

_ONE_DAY = timedelta(days=1)
_NO_USD = Decimal(0)
_NO_CENTS = cents(_NO_USD)
_BY_POD = {"namespace", "pod"}


@dataclass(frozen=True)
class BillExtent:
    """State what the loaded files hold.

    Read once a loading, as each small query takes as long as a sum.
    """

    billed_through: datetime | None
    settled: datetime | None
    """What is used later is an estimate, as is what has no invoice in the newest month."""
    newest_month: date | None
    currency: str
    sources: tuple[str, ...]
    pods: bool
    """Whether split rows were loaded."""
    hourly: bool
    """Whether every charge begins at a whole hour."""


NO_EXTENT = BillExtent(None, None, None, "USD", (), pods=False, hourly=False)


def extent_of(db: duckdb.DuckDBPyConnection) -> BillExtent:
    """Read how far the loaded files reach."""
    ((through, settled, month, currency),) = db.execute(
        "SELECT billed_through, settled, newest_month, currency FROM extent"
    ).fetchall()
    forms = db.execute(
        "SELECT DISTINCT form FROM file WHERE form IS NOT NULL ORDER BY form"
    ).fetchall()
    ((splits,),) = db.execute("SELECT count(*) FROM split").fetchall()
    ((odd,),) = db.execute(
        "SELECT count(*) FROM detail WHERE started <> date_trunc('hour', started)"
    ).fetchall()
    return BillExtent(
        through,
        settled,
        month,
        currency or "USD",
        tuple(form for (form,) in forms),
        bool(splits),
        not odd,
    )


def ask(
    db: duckdb.DuckDBPyConnection,
    extent: BillExtent,
    window: Window,
    by: Sequence[str],
    where: Sequence[Filter],
) -> Tally:
    """Return the tally; raise `WrongInput` for an unknown dimension or mixed currencies."""
    parts = QueryParts()
    by = tuple(canonical(name) for name in by)
    keys = "".join(f"{parts.key(name)}, " for name in by)
    filters = parts.where(where)
    broad = not parts.names_one() and not (extent.pods and parts.used & _BY_POD)
    pieces, values = _pieces(window, extent, parts, broad=broad)
    rows = f"({pieces})" if parts.over_time() else sql("piece_sums", pieces=pieces)
    things = "broad_thing" if broad else "thing"
    query = sql("tally", keys=keys, pieces=rows, things=things, tags=parts.tags(), filters=filters)
    return _tally(extent, window, tuple(by), _groups(db, query, {**parts.values, **values}))


def _groups(
    db: duckdb.DuckDBPyConnection, query: str, values: dict[str, object]
) -> list[tuple[Any, ...]]:
    """Return the rows of a query; raise `OverBudget` where the line that asks may not have so many."""
    most = most_rows()
    if most is None:
        return db.execute(query, values).fetchall()
    groups = db.execute(f"{query}\nLIMIT {most + 1}", values).fetchall()
    if len(groups) > most:
        raise refuse_rows(most)
    return groups


def _pieces(
    window: Window, extent: BillExtent, parts: QueryParts, *, broad: bool
) -> tuple[str, dict[str, object]]:
    """Cut the window into whole days (rolled up) and the remainders at its ends (detail)."""
    start, end = _naive(window.start), _naive(window.end)
    first, last = _midnight(start + _ONE_DAY - timedelta(microseconds=1)), _midnight(end)
    by_pod = extent.pods and bool(parts.used & _BY_POD)
    days = "piece_broad" if broad else "piece_rollup"
    spans = [("piece_detail", start, end)]
    if "hour" not in parts.used and not by_pod and first < last:
        cut = [("piece_detail", start, first), (days, first, last), ("piece_detail", last, end)]
        spans = [span for span in cut if span[1] < span[2]]
    detail = {
        "detail": "detail JOIN broad_of USING (thing)"
        if broad
        else "pod_detail"
        if by_pod
        else "detail",
        "thing": "broad" if broad else "thing",
        "hour": "date_trunc('hour', started) AS hour," if "hour" in parts.used else "",
    }
    selects: list[str] = []
    values: dict[str, object] = {}
    for n, (name, low, high) in enumerate(spans):
        kind = "TIMESTAMP" if name == "piece_detail" else "DATE"
        selects.append(sql(name, start=f"$a{n}::{kind}", end=f"$b{n}::{kind}", **detail))
        values |= {f"a{n}": low, f"b{n}": high}
        if name != "piece_broad":
            values |= {"settled": extent.settled, "newest": extent.newest_month}
    return "\nUNION ALL ".join(selects), values


def _tally(
    extent: BillExtent, window: Window, by: tuple[str, ...], groups: list[tuple[Any, ...]]
) -> Tally:
    n = len(by)
    currencies = sorted({row[n] for row in groups})
    if len(currencies) > 1:
        raise WrongInput(
            f"The bill holds {' and '.join(currencies)}, which cannot be added; ask again with currency={currencies[-1]}."
        )
    rows = _rows(by, groups)
    rows.sort(key=lambda row: (-row.money.net, tuple(row.key.values())))
    total = sum((row.money for row in rows), Money())
    through = extent.billed_through and extent.billed_through.replace(tzinfo=UTC)
    return Tally(
        window,
        by,
        tuple(rows),
        _neat(total),
        (currencies or [extent.currency])[0],
        through,
        extent.sources,
    )


def _rows(by: tuple[str, ...], groups: list[tuple[Any, ...]]) -> list[Spend]:
    """Join the kinds of each group's amounts: gross, discounts, credits, tax."""
    n = len(by)
    sums: dict[tuple[Any, ...], _Sum] = {}
    for row in groups:
        kind, net, amortised, hours, estimated = row[n + 1 :]
        if (of := sums.get(row[:n])) is None:
            of = sums[row[:n]] = _Sum([_NO_USD] * 4)
        of.kinds[kind] += net
        of.amortised += amortised
        of.hours += hours or 0.0
        of.estimated |= bool(estimated)
    keys = (
        zip(*(_texts(name, [key[at] for key in sums]) for at, name in enumerate(by)), strict=True)
        if by
        else [()] * len(sums)
    )
    return [
        Spend(
            dict(zip(by, key, strict=True)),
            _money(of.kinds, of.amortised),
            of.estimated,
            hours=of.hours,
        )
        for key, of in zip(keys, sums.values(), strict=True)
    ]


@dataclass(slots=True)
class _Sum:
    """Add up the amounts of one group by kind."""

    kinds: list[Decimal]
    amortised: Decimal = _NO_USD
    hours: float = 0.0
    estimated: bool = False


def _texts(dimension: str, values: Sequence[Any]) -> list[str]:
    """Return the values of one dimension as text, each that comes again written once."""
    texts = {value: written(dimension, value) for value in set(values)}
    return [texts[value] for value in values]


def _money(kinds: Sequence[Decimal], amortised: Decimal) -> Money:
    gross, discounts, credits, tax = kinds
    return _neat(
        Money(gross, discounts, credits, tax, gross + discounts + credits + tax, amortised)
    )


def _neat(money: Money) -> Money:
    """Drop the zeros that the database's fixed scale adds, at least the cents left."""
    return Money(
        neat(money.gross),
        neat(money.discounts),
        neat(money.credits),
        neat(money.tax),
        neat(money.net),
        neat(money.amortised),
    )


def neat(amount: Decimal) -> Decimal:
    """Return the amount without trailing zeros beyond the cents; exact."""
    if not amount:
        return _NO_CENTS
    whole = cents(amount)
    return whole if whole == amount else amount.normalize()


def _naive(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(tzinfo=None)


def _midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


_MARKETS = {market.value for market in Market}
_RATED_SPAN = timedelta(days=7)


def rates(db: duckdb.DuckDBPyConnection, midnight: datetime) -> AccountRates:
    """Return amortised USD over instance-hours of the 7 days before `midnight`.

    Nothing for types without hours.
    """
    until = midnight.replace(tzinfo=None)
    every = db.execute(sql("rates"), {"start": until - _RATED_SPAN, "seen": until}).fetchall()
    rows = [row for row in every if row[2] in _MARKETS and not row[-1]]
    empty = [row for row in every if row[2] in _MARKETS and row[-1]]
    return AccountRates(
        tuple(_rates_of(rows, "")),
        {
            cluster: tuple(_rates_of(mine, "of the cluster"))
            for cluster, mine in _sorted_by(rows, 3).items()
        },
        {
            instance: tuple(_rates_of(mine, "of its own"))
            for instance, mine in _sorted_by(rows, 4).items()
        },
        {name: tuple(_rates_of(mine, "unused")) for name, mine in _sorted_by(empty, 4).items()},
    )


def _sorted_by(rows: Iterable[tuple[Any, ...]], column: int) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows by the value of a column, without those that have none."""
    sorted_rows: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        if row[column]:
            sorted_rows.setdefault(row[column], []).append(row)
    return sorted_rows


def _rates_of(rows: Iterable[tuple[Any, ...]], whose: str) -> Iterator[Price]:
    """Yield the rate of each type, region and market over some rows."""
    groups: dict[tuple[str, str, str], list[tuple[Any, ...]]] = {}
    for row in rows:
        groups.setdefault(row[:3], []).append(row[5:10])
    for (kind, region, market), group in groups.items():
        costs, hours, ended, forms, months = zip(*group, strict=True)
        total = sum(hours)
        yield Price(
            instance_type=kind,
            usd_per_hour=(sum(costs) / Decimal(repr(total))).quantize(Decimal("0.000001")),
            market=Market(market),
            basis=Basis.BILLED,
            region=region,
            asof=(max(ended) - timedelta(microseconds=1)).date(),
            source=" ".join(
                filter(
                    None,
                    (
                        f"{max(filter(None, forms), default='prepaid fees')} of {max(months):%Y-%m}, {total:,.0f} instance-hours",
                        whose,
                    ),
                )
            ),
            hours=total,
        )
