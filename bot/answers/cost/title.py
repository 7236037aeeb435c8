"""Name the amounts of a cost answer, and write the lines that open a part of it.

Beside a cost stands what was split or derived, and whose the untagged may be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from bot.cards.card import Block, Button, Chart, ChartKind, Series, Text, When, detail, quiet, text
from bot.cards.columns import Columns, datum
from bot.cards.lines import cost_line, window_line
from bot.cards.words import about_in, amount_in, amount_of, few, grouped_words, period, spoken
from bot.costs.allocation import Allocation, OwnerHint
from bot.costs.nowcast import Nowcast
from bot.costs.running import Booking
from bot.costs.tally import BEYOND, days_held, unknown_tag, unknown_value
from bot.errors import WrongInput, nearest, shortened
from bot.model.money import counted, summed
from bot.model.spend import Commitment, CommitmentPlan, Filter, Forecast, Money, Spend, Tally
from bot.model.window import Window, clock, day, month_of, utc_text
from bot.ports import Billing

TIMES = {"hour", "day", "month"}
DRILLS = ("service", "team", "instance_type", "purchase", "line", "cluster")
"""Groupings that are offered, in their order."""
CONDITIONS = "charges with dimension=value or !=value"
"""The meaning of the argument that takes conditions."""
_UNTYPABLE = set(',"“”„\n')


def other_groupings(tally: Tally, filters: Sequence[Filter]) -> list[str]:
    """Return the groupings that a part of this answer may be opened by."""
    asked_by = {*tally.by, *(where.dimension for where in filters)}
    return [name for name in DRILLS if name not in asked_by]


def part_line(tally: Tally, filters: Sequence[Filter], key: Mapping[str, str]) -> str:
    """Write the line that opens the part of an answer that has these values of its groupings.

    "" where none can be typed.
    """
    times = [key[name] for name in key if name in TIMES]
    values = {name: value for name, value in key.items() if name not in TIMES}
    free = other_groupings(tally, filters)
    # No line can hold some characters so that the grammar reads them back.
    if (values and not free) or any(set(value) & _UNTYPABLE for value in values.values()):
        return ""

    # A span of time alone goes on by what the answer is grouped by.
    groups = [] if values else [name for name in tally.by if name not in TIMES]
    filters = [*filters, *(Filter(name, (value,)) for name, value in values.items())]

    return cost_line(
        window_line(span_of(times[0]) if times else tally.window), groups or free[:1], filters
    )


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
        for name in other_groupings(tally, filters)
    ]
    if tally.by:
        dimension = tally.by[0]
        largest = next((row.key[dimension] for row in ranked if row.key[dimension]), "")
        line = part_line(tally, filters, {dimension: largest}) if largest else ""
        if line:
            buttons.insert(0, Button(f"Only {named(largest, dimension)[:40]}", line))

    # With the button of details they fill one line of a phone.
    return buttons[:2]


COLOURS = 5
"""Values that have a colour of their own in a chart."""


def cost_charts(over_time: Tally | None, filters: Sequence[Filter] = ()) -> list[Chart]:
    """Return bars of amortised cost over a tally's first dimension, a time, stacked by its second.

    None without rows.
    """
    if over_time is None or not over_time.rows:
        return []
    step, *groups = over_time.by
    moments = sorted({row.key[step] for row in over_time.rows})

    # A fee may be billed ahead of the hours that it pays: what is not billed yet is no bar of $0.
    through = over_time.billed_through
    billed = [x for x in moments if through is None or span_of(x).start < through]
    times = billed or moments

    # The largest values of the second dimension have a colour each, the others share one.
    series = [Series("amortised", _values(over_time, times, {}))]
    if groups:
        sums = summed((row.key[groups[0]], row.money.amortised) for row in over_time.rows)
        ranked = sorted(sums.keys() - {BEYOND}, key=lambda name: (-sums[name], name))
        series = [
            Series(
                named(name, groups[0]),
                _values(over_time, times, {groups[0]: {name}}),
                line=part_line(over_time, filters, {groups[0]: name}),
            )
            for name in ranked[:COLOURS]
        ]
        if others := sums.keys() - set(ranked[:COLOURS]):
            series.append(Series("others", _values(over_time, times, {groups[0]: set(others)})))

    # A day or month cut by the window's edge is not compared with full ones.
    full = [moment for moment in times if step == "hour" or _is_whole(moment, over_time)] or times
    amounts = [value or 0.0 for value in _values(over_time, full, {})]
    lowest, highest = (
        amount_of(Decimal(str(amount)), over_time) for amount in (min(amounts), max(amounts))
    )
    per = "an hour" if step == "hour" else f"a {step}"
    top = short(full[amounts.index(max(amounts))])
    varied = f"Between {lowest} and {highest} {per}, highest: {top}."
    summary = f"{highest} {per}." if lowest == highest else varied

    return [
        Chart(
            ChartKind.BAR,
            f"Amortised cost by {step}",
            "$" if over_time.currency == "USD" else over_time.currency,
            tuple(series),
            categories=tuple(short(moment) for moment in times),
            summary=summary,
            lines=tuple(part_line(over_time, filters, {step: moment}) for moment in times),
            partial=tuple(i for i, moment in enumerate(times) if not _is_whole(moment, over_time)),
            timed=True,
        )
    ]


def _values(
    tally: Tally, times: Sequence[str], chosen: Mapping[str, set[str]]
) -> tuple[float | None, ...]:
    """Return the amortised cost at each time, of the rows with the chosen values."""
    sums = summed(
        (row.key[tally.by[0]], row.money.amortised)
        for row in tally.rows
        if all(row.key[name] in values for name, values in chosen.items())
    )

    return tuple(round(float(sums.get(moment, Decimal(0))), 2) for moment in times)


def short(at: str) -> str:
    """Return the part of a time key that a bar's label needs."""
    if len(at) < 10:
        return at
    moment = datetime.fromisoformat(at)
    return f"{moment:%H:%M}" if "T" in at else day(moment)


def _is_whole(at: str, tally: Tally) -> bool:
    """Return whether all of an hour, day or month lies in the window and is billed."""
    span, end = span_of(at), min(tally.window.end, tally.billed_through or tally.window.end)
    return tally.window.start <= span.start and span.end <= end


def named(value: str, dimension: str) -> str:
    """Return a value of a dimension as it may be typed, or words for none."""
    hour = f"{datetime.fromisoformat(value):%Y-%m-%d %H:%M}" if dimension == "hour" else ""
    return hour or value or f"(no {spoken(dimension)})"


def held_words(days: Tally) -> str:
    """Say how many days of a tally by day the bill holds, "" where none is missing."""
    held, possible = days_held(days)
    return f", {held} of {possible} days" if held < possible else ""


def cost_title(tally: Tally, filters: Sequence[Filter], days: Tally | None = None) -> str:
    """Return the title: an amount and its kind, its time, how it is split, and its filters.

    `days` is the whole bill of the window by day.
    """
    amount = "Nothing billed"
    if tally.rows:
        amount = f"{amount_of(tally.total.net, tally)} net"
        if _is_apart(tally.total):
            amount = f"{amount_of(tally.total.amortised, tally)} amortised, {amount}"

    # What is not billed yet is not in the amount.
    through, last = tally.billed_through, tally.window.end - timedelta(hours=1)
    cut = f", billed to {clock(through)}" if through and tally.window.start < through < last else ""
    span = period(tally.window)
    if cut:
        # The hour of the bill's end matters, and not that of the question.
        span = span.replace(utc_text(tally.window.end), day(tally.window.end))
    time = f"{span}{cut}{held_words(days) if days else ''}"
    conditions = (
        str(x)
        if x.values != ("",)
        else f"{'with' if x.negated else 'without'} {spoken(x.dimension)}"
        for x in filters
    )

    return " · ".join((amount, f"{time}{grouped_words(tally.by)}", *conditions))


def _is_apart(*amounts: Money) -> bool:
    """Return whether amortised and net differ by more than a hundredth of the larger."""
    apart = sum(abs(money.amortised - money.net) for money in amounts)
    return apart > sum(max(abs(money.amortised), abs(money.net)) for money in amounts) / 100


def money_facts(tally: Tally) -> list[tuple[str, str]]:
    """Return the amounts from gross to net, discounts and tax where there are any."""
    total = tally.total
    parts = {"Gross": total.gross, "Discounts": total.discounts, "Credits": total.credits}
    parts |= {"Tax": total.tax, "Net": total.net}

    return [
        (name, amount_of(amount, tally))
        for name, amount in parts.items()
        if amount or name in {"Gross", "Credits", "Net"}
    ]


def nothing_text(tally: Tally, days: Tally | None = None) -> Text:
    """Say why a time shows no cost: the bill ends before it, does not reach it, or has no such row.

    `days` is the whole bill of the window by day.
    """
    if tally.billed_through is None or tally.window.start < tally.billed_through:
        if days is not None and not days.rows:
            return text("The bill holds no charge of this time; it may not reach back so far.")
        return text("No charge on the bill fits this question.")
    return text(
        "Nothing in this window is billed yet: the bill reaches ", When(tally.billed_through), "."
    )


def meaning_texts(tally: Tally, over_time: Tally | None, filters: Sequence[Filter]) -> list[Text]:
    """Explain the amounts.

    Amortised and net where they differ, estimated where AWS may still rewrite them.
    """
    sentences = []
    # Of each row: what one has for another, such as the fee of a plan, adds up to little.
    if _is_apart(*(row.money for row in tally.rows)):
        sentences.append(
            "Amortised spreads prepaid cost over the hours it covers; net is what this window"
            " adds to the invoice, after credits, discounts and tax."
        )
    if over_time:
        step = over_time.by[0]
        first = min((row.key[step] for row in over_time.rows if row.estimated), default="")
        if first:
            since = clock(datetime.fromisoformat(first)) if "T" in first else short(first)
            sentences.append(f"Estimated from {since} on; AWS may still rewrite it.")

    return [detail(" ".join(sentences))] if sentences else []


def refuse_doubled(by: Sequence[str]) -> None:
    """Raise `WrongInput` where a dimension is named twice."""
    if len(set(by)) < len(by):
        raise WrongInput(f"'{', '.join(by)}' names a dimension twice; keep one of each.")


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
            f"No charge on the bill has {slip.dimension}={shortened(slip.value)}{hint}."
        )
    if tag := unknown_tag(billing.tally, tally):
        raise WrongInput(
            f"No charge on the bill carries a tag '{shortened(tag)}';"
            " write it as the bill does, such as tag:team."
        )


def forecast_words(nowcast: Nowcast | None, expected: Forecast | None, tally: Tally) -> str:
    """Say where the month ends, how sure that is, and on which grounds; "" without a forecast."""
    ours = month_end_words(nowcast) if nowcast else ""
    sentences = (ours[:1].upper() + ours[1:], _expected_words(expected, tally))
    return "".join(f" {words}" for words in sentences if words)


def month_end_words(nowcast: Nowcast) -> str:
    """Say where the month ends by our own forecast.

    About, at least and at most, and what it rests on.
    """
    middle, low, high = (
        about_in(amount, nowcast.currency)
        for amount in (nowcast.forecast, nowcast.low, nowcast.high)
    )
    between = f"{low} to {high} in {_months_held(nowcast)}, " if low != high else ""

    return f"about {middle} by month end ({between}from {_basis(nowcast)})."


def range_words(nowcast: Nowcast, expected: Forecast | None, tally: Tally) -> str:
    """Say how sure a forecast is whose amounts stand above, its grounds, and the provider's."""
    sure = "Known from "
    if nowcast.low != nowcast.high:
        sure = f"The range holds in {_months_held(nowcast)}. It rests on "
    return f"{sure}{_basis(nowcast)}. {_expected_words(expected, tally)}".rstrip()


def _months_held(nowcast: Nowcast) -> str:
    """Say how many months end within the range; that all do nobody can promise."""
    return f"{min(9, int(nowcast.held * 10))} of 10 months"


def _basis(nowcast: Nowcast) -> str:
    """Name the basis of a forecast."""
    currency = nowcast.currency

    return "".join(
        (
            counted(nowcast.days_used, "settled day"),
            f" and, since {day(nowcast.running_since)}, the nodes that ran"
            if nowcast.running_since
            else "",
            f"; {amount_in(nowcast.fees, currency)} of one-off and monthly charges counted once"
            if nowcast.fees
            else "",
            *(
                f"; a commitment ends on {day(ends)}, which adds {amount_in(usd, currency)}"
                " unless its renewal is queued"
                for ends, usd in sorted(nowcast.lapses.items())
            ),
            *(f"; {_booking_words(booking, currency)}" for booking in nowcast.bookings),
        )
    )


def _booking_words(booking: Booking, currency: str) -> str:
    """Say what AWS has promised, from when on, what it adds and by which price."""
    reservation = booking.reservation
    kind = "Capacity Block" if booking.is_block else "reservation"
    return (
        f"a {kind} of {reservation.total:,} x {reservation.labels.instance_type}"
        f" from {day(reservation.starts_at)}"
        f" that is on no bill yet adds {about_in(booking.usd, currency)}"
        f" (an estimate: {booking.price.origin})"
    )


def _expected_words(expected: Forecast | None, tally: Tally) -> str:
    if expected is None:
        return ""
    low, mean, high = (
        about_in(amount, tally.currency) for amount in (expected.low, expected.mean, expected.high)
    )
    return f"AWS itself expects about {mean} ({low} to {high}, asked {day(expected.asof)})."


_NOWCAST = Columns[Nowcast](
    datum(
        "amortised_usd",
        lambda nowcast: nowcast.forecast,
        "settled days of the month, fees at their day, and the recurring cost of the days "
        "left, by the days that settled and the nodes that run",
    ),
    datum(
        "low_usd",
        lambda nowcast: nowcast.low,
        "the low end of the forecast's range, never under what is billed",
    ),
    datum("high_usd", lambda nowcast: nowcast.high, "the high end of the forecast's range"),
    datum(
        "range_share",
        lambda nowcast: round(nowcast.held, 3),
        "share of months that end within the range: the share of 2,000 drawn futures that it "
        "holds x 0.92, as no more of the months went as futures are drawn",
    ),
    datum(
        "fees_usd",
        lambda nowcast: nowcast.fees,
        "what is charged once or once a month, fees and runs of nodes, each counted once",
    ),
    datum("settled", lambda nowcast: nowcast.settled),
    datum(
        "settled_days",
        lambda nowcast: nowcast.days_used,
        "count of the settled days that the forecast rests on",
    ),
    datum("running_since", lambda nowcast: nowcast.running_since),
    datum(
        "lapses_usd",
        lambda nowcast: sum(nowcast.lapses.values(), Decimal(0)),
        "what nodes cost more after the end of the commitment that covers them: their hours of the "
        "last week at the price on demand less their own",
    ),
    datum(
        "booked_usd",
        lambda nowcast: sum((booking.usd for booking in nowcast.bookings), Decimal(0)),
        "hours within the month of Capacity Blocks and future-dated reservations that are on no "
        "bill yet x the price of their nodes",
    ),
)
_EXPECTED = Columns[Forecast](
    datum(
        "amortised_usd",
        lambda expected: expected.mean,
        "amortised cost billed before AWS's forecast begins + AWS's forecast of the rest",
    ),
    datum(
        "low_usd",
        lambda expected: expected.low,
        "amortised cost billed before AWS's forecast begins + the low end of AWS's 80 % interval",
    ),
    datum(
        "high_usd",
        lambda expected: expected.high,
        "amortised cost billed before AWS's forecast begins + the high end of AWS's 80 % interval",
    ),
    datum("asof", lambda expected: expected.asof),
)
NOWCAST_FIGURES = _NOWCAST.sources("forecast")
"""How each number of our own forecast in `forecast_data` is made."""
FORECAST_FIGURES = NOWCAST_FIGURES | _EXPECTED.sources("expected")
"""How each number of `forecast_data` is made."""


def forecast_data(nowcast: Nowcast | None, expected: Forecast | None) -> dict[str, Any]:
    """Return the forecasts of the month's end that were made."""
    return {
        **({"forecast": _NOWCAST.record(nowcast)} if nowcast else {}),
        **({"expected": _EXPECTED.record(expected)} if expected else {}),
    }


_MOST = 4
DERIVED = " (derived)"
UNUSED = "held, unused"
"""The column of what cores cost that pods held and did not use."""


def newest_uses(commitments: Sequence[Commitment]) -> list[Commitment]:
    """Return the newest day of each kind of commitment on which there was one."""
    of_plans = (
        [use for use in commitments if use.plan is plan and use.committed]
        for plan in CommitmentPlan
    )
    return [max(uses, key=lambda use: use.day) for uses in of_plans if uses]


def split_texts(tally: Tally) -> Iterator[Text]:
    """Say which cost rests on requests of pods instead of the bill, and which teams are derived."""
    parts = [row.derived for row in tally.rows if row.derived]
    if tally.split is not None:
        idle, unused = (
            sum((getattr(part, name) for part in parts), Decimal(0)) for name in ("idle", "unused")
        )
        sentences = (
            "Neuron nodes are split by the NeuronCores that pods requested"
            f" ({period(tally.split)}): an estimate, not on the bill.",
            f"{amount_of(idle, tally)} is for cores that no pod held." if idle > 0 else "",
            f"{amount_of(unused, tally)} is for cores that pods held and did not use."
            if unused > 0
            else "",
        )
        yield detail(" ".join(filter(None, sentences)))

    ways = sorted({way for part in parts for _, way in part.owners})
    if ways and "team" in tally.by:
        yield detail(
            f"A team marked{DERIVED} is derived from the {' or the '.join(ways)} of pods:"
            " neither they nor their nodes carry one."
        )


def hint_texts(hints: Sequence[OwnerHint], tally: Tally) -> list[Text]:
    """Say whose the untagged cost may be, dearest first, and by what."""
    owned = [hint for hint in hints if hint.owner and hint.amortised > 0]
    if not owned:
        return []
    owners = []
    for hint in owned:
        things = hint.things[0] if hint.things else "no resource named"
        if len(hint.things) > 1:
            things += f" and {len(hint.things) - 1:,} more"
        owners.append(f"{amount_of(hint.amortised, tally)} {hint.owner} ({hint.by}: {things})")

    return [detail(f"Likely owners of what has no team (a hint): {'; '.join(few(owners, _MOST))}.")]


def unused_of(rows: Sequence[Spend], tally: Tally) -> str:
    """Write the cost of cores that the pods of rows held and did not use, "" for none known."""
    lost = sum((row.derived.unused for row in rows if row.derived), Decimal(0))
    return amount_of(lost, tally) if lost else ""


def is_derived(row: Spend, dimension: str) -> bool:
    """Tell whether a row's team is a derived one."""
    return dimension == "team" and bool(row.derived and row.derived.owners)


def derived_data(row: Spend) -> dict[str, Any]:
    """Return the derived part of a row, {} where all of it is on the bill."""
    derived = row.derived
    if derived is None:
        return {}

    return {
        "derived": {
            "amortised_usd": derived.amortised,
            "unused_usd": derived.unused,
            "idle_usd": derived.idle,
            "owners": [{"team": team, "by": way} for team, way in derived.owners],
        }
    }


def split_data(tally: Tally, hints: Sequence[OwnerHint]) -> dict[str, Any]:
    """Return how nodes were split, and the hints, where there are any."""
    split = tally.split and {
        "by": "neuroncore_request_count",
        "start": tally.split.start,
        "end": tally.split.end,
        "estimate": True,
    }
    owners = [
        {"owner": x.owner, "by": x.by, "amortised_usd": x.amortised, "things": list(x.things)}
        for x in hints
        if x.owner
    ]

    return {**({"split": split} if split else {}), **({"owner_hints": owners} if owners else {})}


_TOLD = 2


def unread(problems: Sequence[str]) -> list[Block]:
    """Return the first sentences about the export.

    A file that broke off must not make a smaller bill without a word.
    """
    if not problems:
        return []
    hidden = len(problems) - _TOLD
    note = f" And {hidden:,} more: 'about' names them." if hidden > 0 else ""

    return [quiet("About the export: ", " ".join(problems[:_TOLD]), note)]
