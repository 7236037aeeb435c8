"""Show the cost of training runs: in a table, one with every unit, or two side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from statistics import mean
from typing import Any

from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    Card,
    Chart,
    ChartKind,
    Facts,
    Heading,
    Series,
    Table,
    Text,
    Tone,
    quiet,
    text,
)
from bot.cards.lines import quote
from bot.cards.words import clock
from bot.costs.training import FEWEST, Difference, EqualLoss, RunComparison, RunCost, Sample
from bot.model.money import cents, counted, usd
from bot.model.price import Price

_R = Align.RIGHT
_MOST, _BARS = 15, 24


def runs_card(runs: Sequence[tuple[str, RunCost]]) -> Card:
    """List runs, the dearest first."""
    if not runs:
        advice = text(
            "No run is reporting. A trainer publishes epochs, tokens and loss as CloudWatch metrics in Trn/Training "
            "(docs/recording.md)."
        )
        return Card("No training run is reporting", Tone.INFO, (advice,), {"runs": []})
    columns = (
        Heading("run"),
        Heading("cost", _R),
        Heading("an epoch", _R),
        Heading("epochs", _R),
        Heading("a billion tokens", _R),
        Heading("nodes", _R),
    )
    rows = tuple(
        (
            name,
            usd(x.usd),
            _or(x.usd_per_epoch),
            _done(x),
            _or(x.usd_per_billion_tokens),
            f"{x.nodes:.1f}",
        )
        for name, x in runs[:_MOST]
    )
    rest = f"and {counted(len(runs) - _MOST, 'more run')}" if len(runs) > _MOST else ""
    first = runs[0][0]
    buttons = [Button(f"Run {first[:40]}", f"runs {quote(first)}")]
    buttons += (
        [Button("Compare the first two", f"compare {quote(first)} {quote(runs[1][0])}")]
        if len(runs) > 1
        else []
    )
    billed = sum(x.billed for _, x in runs) / len(runs)
    note = quiet(
        f"Estimated: hours of the nodes, {_paid(billed)}; lost and repeated work included; storage is separate."
    )
    title = f"{counted(len(runs), 'training run')}, {usd(sum((x.usd for _, x in runs), Decimal(0)))} while they were observed"
    blocks = (Table(columns, rows, rest=rest), note, Buttons(tuple(buttons)))
    return Card(
        title, Tone.INFO, blocks, {"runs": [{"run": name, **run_data(x)} for name, x in runs]}
    )


def run_card(
    name: str,
    cost: RunCost,
    types: Sequence[str],
    by: str,
    prices: Sequence[Price],
    unpriced: int,
    storage: Mapping[str, Decimal] | None,
) -> Card:
    """Show one run with every unit, the costs in it, and those that are not."""
    extra = sum((storage or {}).values(), Decimal(0))
    blocks: list[Block] = [text(_lead(cost, extra)), _units(cost)]
    if storage:
        rows = tuple(
            (line, usd(amount)) for line, amount in sorted(storage.items(), key=lambda x: -x[1])
        )
        blocks.append(
            Table(
                (Heading("beside the nodes"), Heading("billed", _R)),
                rows,
                ("total", usd(extra)),
                "From the bill, while the run was seen",
            )
        )
    if len(cost.epochs) > 1:
        blocks.append(_chart(cost))
    blocks += [_about(cost, types, by, unpriced), *map(quiet, _price_texts(prices))]
    words = quote(name)
    shown = Buttons(
        (
            Button("All runs", "runs"),
            Button("Keep as baseline", f"baseline keep {words}"),
            Button("What it costs", f"cost 7d cluster={quote(cost.run.labels.cluster)}"),
        )
    )
    title = (
        f"{name}: {usd(cost.usd_per_epoch)} an epoch"
        if cost.usd_per_epoch is not None
        else f"{name}: {usd(cost.usd)} so far"
    )
    data = run_data(cost) | {
        "run": name,
        "counted_by": by,
        "storage_usd": extra if storage is not None else None,
    }
    return Card(title, Tone.INFO, (*blocks, shown), data)


def run_data(cost: RunCost) -> dict[str, Any]:
    """Return a run's numbers for scripts."""
    return {
        "cluster": cost.run.labels.cluster,
        "since": cost.since,
        "until": cost.until,
        "whole": cost.whole,
        "nodes": round(cost.nodes, 2),
        "usd": cost.usd,
        "billed_ratio": round(cost.billed, 4),
        "epochs": len(cost.epochs),
        "partial_epoch": cost.partial_epoch,
        "partial_usd": cost.partial_usd,
        "usd_per_epoch": cost.usd_per_epoch,
        "hours_per_epoch": cost.hours_per_epoch,
        "usd_per_billion_tokens": cost.usd_per_billion_tokens,
        "usd_per_billion_parameters": cost.usd_per_billion_parameters,
        "usd_per_checkpoint": cost.usd_per_checkpoint,
        "checkpoints": cost.checkpoints,
        "attempts": cost.run.attempts,
        "loss": cost.run.loss,
        "estimated": True,
    }


def _lead(cost: RunCost, extra: Decimal) -> str:
    since = (
        "since its start" if cost.whole else f"since {clock(cost.since)}, when it was first seen"
    )
    seen = f"{usd(cost.usd)} {since} ({counted(cost.run.attempts, 'attempt')}, {cost.nodes:.1f} nodes)."
    if cost.usd_per_epoch is None:
        return f"{seen} No epoch has finished since, so there is no cost of an epoch yet."
    share = (
        f" With storage {usd(cost.usd_per_epoch * (1 + extra / cost.usd))}."
        if extra and cost.usd
        else ""
    )
    hours = f"{cost.hours_per_epoch:.1f} h" if cost.hours_per_epoch else ""
    return f"{usd(cost.usd_per_epoch)} an epoch, mean of {len(cost.epochs)}, {hours} each.{share} {seen}"


def _units(cost: RunCost) -> Facts:
    pairs = [("an epoch", _or(cost.usd_per_epoch))]
    if cost.partial_epoch is not None:
        pairs.append(
            (
                "under way",
                f"{cost.partial_epoch * 100:.0f} % of an epoch, {usd(cost.partial_usd)} so far",
            )
        )
    pairs += [
        ("a billion tokens", _or(cost.usd_per_billion_tokens)),
        ("a billion parameters", _or(cost.usd_per_billion_parameters)),
        (
            "a checkpoint",
            f"{_or(cost.usd_per_checkpoint)} ({cost.checkpoints} written)"
            if cost.checkpoints
            else "not reported",
        ),
    ]
    return Facts(tuple(pairs))


def _chart(cost: RunCost) -> Chart:
    shown = cost.epochs[-_BARS:]
    series = (Series("an epoch", tuple(float(x.usd) for x in shown)),)
    low, high = min(x.usd for x in shown), max(x.usd for x in shown)
    summary = f"The last {len(shown)} epochs cost {usd(low)} to {usd(high)}."
    numbers = tuple(f"{x.number}" for x in shown)
    return Chart(
        ChartKind.BAR,
        "Cost of an epoch",
        "$",
        series,
        categories=numbers,
        summary=summary,
        timed=True,
    )


def _about(cost: RunCost, types: Sequence[str], by: str, unpriced: int) -> Text:
    missing = (
        f" {counted(unpriced, 'node')} without a known price are left out." if unpriced else ""
    )
    lost = "Every attempt counts, so lost and repeated work is included."
    paid = _paid(cost.billed)
    return quiet(
        f"Estimated: hours of {', '.join(types) or 'no node'}, found by {by}, {paid}. {lost}{missing}"
    )


def _paid(billed: float) -> str:
    """Say by which price the hours of nodes are counted."""
    if billed >= 0.995:
        return "each at what that very hour was billed"
    share = (
        f"{billed * 100:.0f} % of them at what that very hour was billed, the others "
        if billed >= 0.005
        else ""
    )
    return f"{share}at the price of their node"


def _price_texts(prices: Sequence[Price]) -> Iterator[str]:
    """Yield a sentence for each way in which the nodes are paid.

    Each has a price of its own where the bill names it.
    """
    ways: dict[tuple[str, str, str], list[Price]] = {}
    for price in prices:
        ways.setdefault((price.basis, price.market, price.region), []).append(price)
    for alike in list(ways.values())[:3]:
        low, high = (usd(end(price.usd_per_hour for price in alike)) for end in (min, max))
        span = low if low == high else f"{low}-{high.removeprefix('$')}"
        newest = max(alike, key=lambda price: price.asof)
        yield f"Price: {span} an hour, {newest.market}, {newest.basis} of {newest.asof:%Y-%m-%d}, {newest.region}."


def _done(cost: RunCost) -> str:
    partial = f" + {cost.partial_epoch * 100:.0f} %" if cost.partial_epoch is not None else ""
    return f"{len(cost.epochs)}{partial}"


def _or(amount: Decimal | None) -> str:
    return usd(amount) if amount is not None else "not reported"


def compare_card(comparison: RunComparison) -> Card:
    """Draw the difference with its interval and the time beside it, then the cost of an equal loss."""
    a, b = comparison.a, comparison.b
    blocks: list[Block] = [text(sentence(comparison)), _table(comparison)]
    if comparison.same_epochs is False:
        blocks.append(
            text(
                "Their epochs hold different numbers of tokens: compare a billion tokens or an equal loss, not epochs."
            )
        )
    blocks.append(text(_loss(comparison.equal_loss, a, b)))
    note = "Estimated at today's price. Interval: Welch's t at 95 %; epochs of one run are not independent, so it is too narrow."
    blocks += [
        quiet(note),
        Buttons(
            (
                Button("All runs", "runs"),
                Button("Follow it weekly", f"migration open {b.name} baseline={a.name}"),
            )
        ),
    ]
    return Card(_title(comparison), Tone.INFO, tuple(blocks), compare_data(comparison))


def sentence(comparison: RunComparison) -> str:
    """Say the comparison in one line, as the weekly digest does too."""
    a, b = comparison.a, comparison.b
    if comparison.usd is None or comparison.hours is None:
        short = " and ".join(
            f"{x.name} has {counted(len(x.usd), 'finished epoch')}" for x in (a, b)
        )
        return f"Not enough epochs: {short}, {FEWEST} each are needed."
    cost, time = _percent(comparison.usd, a.usd), _percent(comparison.hours, a.hours)
    trade = (
        " Cheaper but slower: a trade-off."
        if comparison.usd.mean < 0 < comparison.hours.mean
        else ""
    )
    noise = (
        "" if comparison.usd.sure else " The difference in cost may be noise: its interval holds 0."
    )
    return f"An epoch on {b.name} costs {cost} and takes {time} than on {a.name}.{trade}{noise}"


def compare_data(comparison: RunComparison) -> dict[str, Any]:
    """Return the comparison for scripts."""
    loss = comparison.equal_loss
    return {
        "a": _side(comparison.a),
        "b": _side(comparison.b),
        "usd_per_epoch": _interval(comparison.usd),
        "hours_per_epoch": _interval(comparison.hours),
        "equal_loss": {
            "from": loss.high,
            "to": loss.low,
            "a_usd": loss.a[0],
            "b_usd": loss.b[0],
            "a_hours": loss.a[1],
            "b_hours": loss.b[1],
        }
        if loss
        else None,
        "same_epochs": comparison.same_epochs,
    }


def _title(comparison: RunComparison) -> str:
    names = f"{comparison.a.name} against {comparison.b.name}"
    return (
        f"{names}: not enough epochs"
        if comparison.usd is None
        else f"{names}: {_signed(comparison.usd.mean)} an epoch"
    )


def _table(comparison: RunComparison) -> Table:
    columns = (
        Heading(""),
        Heading(comparison.a.name, _R),
        Heading(comparison.b.name, _R),
        Heading("difference", _R),
        Heading("95 % interval", _R),
    )
    rows = [
        (
            "$ an epoch",
            _mean(comparison.a.usd),
            _mean(comparison.b.usd),
            *_difference_cells(comparison.usd, _signed),
        ),
        (
            "hours an epoch",
            _hours(comparison.a.hours),
            _hours(comparison.b.hours),
            *_difference_cells(comparison.hours, _plus),
        ),
        ("epochs", f"{len(comparison.a.usd)}", f"{len(comparison.b.usd)}", "", ""),
        (
            "$ a billion tokens",
            *(_compare_or(x.usd_per_billion_tokens) for x in (comparison.a, comparison.b)),
            "",
            "",
        ),
    ]
    return Table(columns, tuple(rows))


def _difference_cells(difference: Difference | None, write: Any) -> tuple[str, str]:
    return (
        (write(difference.mean), f"{write(difference.low)} to {write(difference.high)}")
        if difference
        else ("", "not enough epochs")
    )


def _loss(equal_loss: EqualLoss | None, a: Sample, b: Sample) -> str:
    if equal_loss is None:
        missing = [x.name for x in (a, b) if not x.losses]
        why = (
            f"{' and '.join(missing)} {'reports' if len(missing) == 1 else 'report'} no loss"
            if missing
            else "they have no loss in common"
        )
        return f"Not comparable at equal loss: {why}."
    paid = f"{a.name} {usd(equal_loss.a[0])} in {equal_loss.a[1]:.1f} h, {b.name} {usd(equal_loss.b[0])} in {equal_loss.b[1]:.1f} h"
    return f"At equal loss, from {equal_loss.high:.3f} down to {equal_loss.low:.3f}: {paid}."


def _percent(difference: Difference, base: Sequence[Decimal] | Sequence[float]) -> str:
    usual = mean(float(x) for x in base)
    share = difference.mean / usual * 100 if usual else 0.0
    return f"{abs(share):.0f} % {'less' if share < 0 else 'more'}"


def _signed(amount: float) -> str:
    return f"{'+' if amount >= 0 else ''}{usd(Decimal(str(round(amount, 2))))}"


def _plus(hours: float) -> str:
    return f"{hours:+.1f}"


def _mean(amounts: Sequence[Decimal]) -> str:
    return usd(sum(amounts, Decimal(0)) / len(amounts)) if amounts else "none finished"


def _hours(hours: Sequence[float]) -> str:
    return f"{mean(hours):.1f}" if hours else ""


def _compare_or(amount: Decimal | None) -> str:
    return usd(amount) if amount is not None else "not reported"


def _side(side: Sample) -> dict[str, Any]:
    return {
        "name": side.name,
        "epochs": len(side.usd),
        "usd_per_epoch": cents(sum(side.usd, Decimal(0)) / len(side.usd)) if side.usd else None,
        "hours_per_epoch": mean(side.hours) if side.hours else None,
    }


def _interval(difference: Difference | None) -> dict[str, float] | None:
    return (
        {"difference": difference.mean, "low": difference.low, "high": difference.high}
        if difference
        else None
    )
