"""Draw cost over time: bars by hour, day or month, stacked by the largest values of a dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from bot.answers.cost.drill import part_line, span_of
from bot.cards.card import Chart, ChartKind, Series
from bot.cards.money import amount_of
from bot.cards.words import day
from bot.model.spend import Filter, Tally

_COLOURS = 5


def cost_charts(over_time: Tally | None, filters: Sequence[Filter] = ()) -> list[Chart]:
    """Return bars of amortised cost over a tally's first dimension, a time, stacked by its second.

    None without rows.
    """
    if over_time is None or not over_time.rows:
        return []
    step, *groups = over_time.by
    times = sorted({row.key[step] for row in over_time.rows})
    names = _largest(over_time, groups[0]) if groups else []
    series = [
        Series(
            named(name, groups[0]),
            _values(over_time, times, {groups[0]: {name}}),
            line=part_line(over_time, filters, {groups[0]: name}),
        )
        for name in names
    ]
    others = {row.key[groups[0]] for row in over_time.rows} - set(names) if groups else set()
    if others:
        series.append(Series("others", _values(over_time, times, {groups[0]: others})))
    if not groups:
        series = [Series("amortised", _values(over_time, times, {}))]
    title = f"Amortised cost by {step}"
    summary = _summary(over_time, times, step)
    unit = "$" if over_time.currency == "USD" else over_time.currency
    bars = Chart(
        ChartKind.BAR,
        title,
        unit,
        tuple(series),
        categories=tuple(short(at) for at in times),
        summary=summary,
    )
    lines = tuple(part_line(over_time, filters, {step: at}) for at in times)
    partial = tuple(i for i, at in enumerate(times) if not _is_whole(at, over_time))
    return [replace(bars, timed=True, lines=lines, partial=partial)]


def _largest(tally: Tally, dimension: str) -> list[str]:
    sums: dict[str, Decimal] = {}
    for row in tally.rows:
        sums[row.key[dimension]] = sums.get(row.key[dimension], Decimal(0)) + row.money.amortised
    return sorted(sums, key=lambda name: (-sums[name], name))[:_COLOURS]


def _values(
    tally: Tally, times: Sequence[str], keep: Mapping[str, set[str]]
) -> tuple[float | None, ...]:
    sums = dict.fromkeys(times, Decimal(0))
    for row in tally.rows:
        if row.key[tally.by[0]] in sums and all(
            row.key[name] in values for name, values in keep.items()
        ):
            sums[row.key[tally.by[0]]] += row.money.amortised
    return tuple(round(float(sums[at]), 2) for at in times)


def short(at: str) -> str:
    """Return the part of a time key that a bar's label needs."""
    if len(at) < 10:
        return at
    moment = datetime.fromisoformat(at)
    return f"{moment:%H:%M}" if "T" in at else day(moment)


def _summary(tally: Tally, times: Sequence[str], step: str) -> str:
    """Say lowest and highest.

    A day or month cut by the window's edge is not compared with full ones.
    """
    whole = [at for at in times if step == "hour" or _is_whole(at, tally)] or times
    values = [value or 0.0 for value in _values(tally, whole, {})]
    low, high = (amount_of(Decimal(str(value)), tally) for value in (min(values), max(values)))
    each = "an hour" if step == "hour" else f"a {step}"
    return f"Between {low} and {high} {each}, highest: {short(whole[values.index(max(values))])}."


def _is_whole(at: str, tally: Tally) -> bool:
    """Return whether all of an hour, day or month lies in the window and is billed."""
    span, end = span_of(at), min(tally.window.end, tally.billed_through or tally.window.end)
    return tally.window.start <= span.start and span.end <= end


def named(value: str, dimension: str) -> str:
    """Return a value of a dimension, or words for none."""
    if value:
        return value
    return f"(no {dimension.removeprefix('tag:').replace('_', ' ')})"
