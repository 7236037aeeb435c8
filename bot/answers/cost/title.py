"""Name the amounts of a cost answer, and write the lines that open a part of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from bot.cards.card import Button, Chart, ChartKind, Series, Text, When, quiet, text
from bot.cards.lines import cost_line, window_line
from bot.cards.words import about, amount_in, amount_of, clock, day, grouped_words, period
from bot.costs.allocation import Allocation
from bot.costs.nowcast import Expected, Nowcast
from bot.costs.tally import unknown_tag, unknown_value
from bot.errors import WrongInput, nearest, shortened
from bot.model.money import counted
from bot.model.projection import COVERAGE
from bot.model.spend import Filter, Spend, Tally
from bot.model.window import Window, month_of
from bot.ports import Billing

TIMES = {"hour", "day", "month"}
DRILLS = ("service", "team", "instance_type", "purchase", "line", "cluster")
"""Groupings that are offered, in their order."""
_UNTYPABLE = set(',"“”„\n')


def others(tally: Tally, filters: Sequence[Filter]) -> list[str]:
    """Return the groupings that a part of this answer may be opened by."""
    taken = {*tally.by, *(each.dimension for each in filters)}
    return [name for name in DRILLS if name not in taken]


def part_line(tally: Tally, filters: Sequence[Filter], key: Mapping[str, str]) -> str:
    """Write the line that opens the part of an answer that has these values.

    "" where none can be typed.
    """
    times = [key[name] for name in key if name in TIMES]
    named = {name: value for name, value in key.items() if name not in TIMES}
    free = [name for name in others(tally, filters) if name not in named]
    if (named and not free) or any(set(value) & _UNTYPABLE for value in named.values()):
        return ""
    by = free[:1] if named else [name for name in tally.by if name not in TIMES] or free[:1]
    kept = [*filters, *(Filter(name, (value,)) for name, value in named.items())]
    return cost_line(window_line(span_of(times[0]) if times else tally.window), by, kept)


def span_of(at: str) -> Window:
    """Return the hour, day or month that a key of time names."""
    start = datetime.fromisoformat(at if len(at) > 7 else f"{at}-01").replace(tzinfo=UTC)
    if len(at) <= 7:
        return month_of(start)
    return Window(start, start + timedelta(hours=1 if "T" in at else 24))


def drill_buttons(tally: Tally, filters: Sequence[Filter], ranked: Sequence[Spend]) -> list[Button]:
    """Offer other groupings, and the largest row on its own."""
    window = window_line(tally.window)
    buttons = [
        Button(f"By {name.replace('_', ' ')}", cost_line(window, [name], filters))
        for name in others(tally, filters)[:3]
    ]
    first = next((row for row in ranked if tally.by and row.key[tally.by[0]]), None)
    line = part_line(tally, filters, {tally.by[0]: first.key[tally.by[0]]}) if first else ""
    return (
        [Button(f"Only {first.key[tally.by[0]][:40]}", line), *buttons]
        if first and line
        else buttons
    )


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


def cost_title(tally: Tally, filters: Sequence[Filter]) -> str:
    """Return the title: an amount and its kind, its time, how it is split, and its filters."""
    of = "".join(f" · {_filter_words(each)}" for each in filters)
    return f"{_amount_words(tally)} · {period(tally.window)}{grouped_words(tally.by)}{of}"


def _filter_words(where: Filter) -> str:
    """Write a filter as it is typed; one for rows without a value, or with any, in words."""
    if where.values != ("",):
        return str(where)
    return f"{'with' if where.negated else 'without'} {where.dimension.removeprefix('tag:').replace('_', ' ')}"


def _amount_words(tally: Tally) -> str:
    """Say the amount; where they differ, amortised and net."""
    if not tally.rows:
        return "Nothing billed"
    net = f"{amount_of(tally.total.net, tally)} net"
    return (
        f"{amount_of(tally.total.amortised, tally)} amortised, {net}" if _is_apart(tally) else net
    )


def _is_apart(tally: Tally) -> bool:
    """Return whether amortised and net differ by more than a hundredth of the larger."""
    amortised, net = tally.total.amortised, tally.total.net
    return abs(amortised - net) > max(abs(amortised), abs(net)) / 100


def nothing_text(tally: Tally) -> Text:
    """Say why a time shows no cost: it is later than the bill, or the bill has no such row."""
    if tally.billed_through is None or tally.window.start < tally.billed_through:
        return text("The bill holds no row for this question.")
    return text(
        "Nothing of this time is billed yet: the bill reaches ", When(tally.billed_through), "."
    )


def meaning_texts(tally: Tally, over_time: Tally | None, filters: Sequence[Filter]) -> list[Text]:
    """Explain the amounts.

    Amortised and net where they differ, estimated where AWS may still rewrite them.
    """
    since = _estimated_since(over_time) if over_time else ""
    first = _first_billed(tally, over_time) if over_time and not filters else ""
    words = [
        "Amortised spreads what was paid ahead over the hours that it covers; net is what this time adds to the invoice,"
        " with credits, discounts and tax."
        if _is_apart(tally)
        else "",
        f"Estimated from {since} on: AWS still rewrites that." if since else "",
        f"The bill holds nothing before {first}." if first else "",
    ]
    said = " ".join(word for word in words if word)
    return [quiet(said)] if said else []


def _first_billed(tally: Tally, over_time: Tally) -> str:
    """Return the day or month in which the bill begins, "" where it begins before the window, or hours tell of it."""
    first = min((row.key[over_time.by[0]] for row in over_time.rows), default="T")
    late = "T" not in first and span_of(first).start >= tally.window.start + timedelta(hours=1)
    return short(first) if late else ""


def _estimated_since(over_time: Tally) -> str:
    days = [row.key[over_time.by[0]] for row in over_time.rows if row.estimated]
    if not days:
        return ""
    first = min(days)
    return clock(datetime.fromisoformat(first)) if "T" in first else short(first)


def refuse_unknown(
    allocation: Allocation, billing: Billing, tally: Tally, where: Sequence[Filter]
) -> None:
    """Raise `WrongInput` for a value or a tag that no charge of the bill has.

    A slip would read as nothing spent.
    """
    if tally.billed_through is None:
        return
    if slip := unknown_value(allocation.tally, billing.tally, tally, where):
        hint = nearest(
            slip.value,
            slip.known,
            otherwise=f"'cost by {slip.dimension}' lists those that there are",
        )
        raise WrongInput(
            f"No charge of the bill has {slip.dimension}={shortened(slip.value)}{hint}."
        )
    if tag := unknown_tag(billing.tally, tally):
        raise WrongInput(
            f"No charge of the bill carries a tag '{shortened(tag)}'; write it as the bill does, such as tag:team."
        )


def forecast_words(nowcast: Nowcast | None, theirs: Expected | None, tally: Tally) -> str:
    """Say where the month ends, how sure that is, and what it rests on; "" where nobody forecasts."""
    ours = month_end_words(nowcast) if nowcast else ""
    return "".join(
        f" {words}" for words in (ours[:1].upper() + ours[1:], _theirs(theirs, tally)) if words
    )


def month_end_words(nowcast: Nowcast) -> str:
    """Say where the month ends by our own forecast.

    About, at least and at most, and what it rests on.
    """
    low, high = (_about(amount, nowcast.currency) for amount in (nowcast.low, nowcast.high))
    between = f"{low} to {high} in {COVERAGE * 10:.0f} of 10 months, " if low != high else ""
    return f"about {_about(nowcast.forecast, nowcast.currency)} by month end ({between}{basis_words(nowcast)})."


def range_words(nowcast: Nowcast, theirs: Expected | None, tally: Tally) -> str:
    """Say how sure a forecast is whose amounts stand above, what it rests on, and the provider's own."""
    sure = (
        f"The range holds in {COVERAGE * 10:.0f} of 10 months, "
        if nowcast.low != nowcast.high
        else "Known "
    )
    return f"{sure}{basis_words(nowcast)}. {_theirs(theirs, tally)}".rstrip()


def basis_words(nowcast: Nowcast) -> str:
    """Say what a forecast rests on."""
    fees = (
        f", {amount_in(nowcast.fees, nowcast.currency)} of fees counted once"
        if nowcast.fees
        else ""
    )
    since = (
        f", and since {short(nowcast.running_since.isoformat())} from the nodes that ran"
        if nowcast.running_since
        else ""
    )
    days = counted(nowcast.days_used, "settled day")
    return f"from {days}{fees}{since}"


def _theirs(expected: Expected | None, tally: Tally) -> str:
    if expected is None:
        return ""
    low, mean, high = (
        _about(amount, tally.currency) for amount in (expected.low, expected.mean, expected.high)
    )
    return f"AWS itself expects about {mean} ({low} to {high}, asked {day(expected.asof)})."


def _about(amount: Decimal, currency: str) -> str:
    return about(amount) if currency == "USD" else amount_in(amount, currency)


def forecast_data(nowcast: Nowcast | None, theirs: Expected | None) -> dict[str, Any]:
    """Return the forecasts of the month's end that were made."""
    ours = (
        {
            "forecast": {
                "amortised_usd": nowcast.forecast,
                "low_usd": nowcast.low,
                "high_usd": nowcast.high,
                "fees_usd": nowcast.fees,
                "settled": nowcast.settled,
                "settled_days": nowcast.days_used,
                "running_since": nowcast.running_since,
            }
        }
        if nowcast
        else {}
    )
    expected = (
        {
            "expected": {
                "amortised_usd": theirs.mean,
                "low_usd": theirs.low,
                "high_usd": theirs.high,
                "asof": theirs.asof,
            }
        }
        if theirs
        else {}
    )
    return ours | expected
