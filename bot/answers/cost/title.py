"""Name the amounts of a cost answer: amortised or net, estimated, and how far the bill reaches."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from bot.answers.cost.chart import short
from bot.answers.cost.drill import span_of
from bot.cards.card import Text, When, quiet, text
from bot.cards.money import amount_of
from bot.cards.words import clock, period
from bot.model.spend import Filter, Tally


def cost_title(tally: Tally, filters: Sequence[Filter]) -> str:
    """Return the title: an amount and its kind, its time, how it is split, and its filters."""
    of = "".join(f" · {_filter_words(each)}" for each in filters)
    return f"{_amount_words(tally)} · {period(tally.window)}{grouped_words(tally.by)}{of}"


def grouped_words(by: Sequence[str]) -> str:
    """Say in a title how a cost is split, "" for not at all."""
    return f" · by {', '.join(name.replace('_', ' ') for name in by)}" if by else ""


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
