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
            "No run is reporting. A trainer publishes epochs, tokens and loss as CloudWatch "
            "metrics in Trn/Training (docs/recording.md)."
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
    rows = []
    for name, cost in runs[:_MOST]:
        epochs = f"{len(cost.epochs)}"
        if cost.partial_epoch is not None:
            epochs += f" + {cost.partial_epoch * 100:.0f} %"
        per_epoch, per_tokens = _or(cost.usd_per_epoch), _or(cost.usd_per_billion_tokens)
        rows.append((name, usd(cost.usd), per_epoch, epochs, per_tokens, f"{cost.nodes:.1f}"))
    unlisted = f"and {counted(len(runs) - _MOST, 'more run')}" if len(runs) > _MOST else ""

    billed = sum(cost.billed for _, cost in runs) / len(runs)
    note = quiet(
        f"Estimated: hours of the nodes, {_paid(billed)}; lost and repeated work included; "
        "storage is separate."
    )

    first = runs[0][0]
    buttons = [Button(f"Run {first[:40]}", f"runs {quote(first)}")]
    if len(runs) > 1:
        comparison = f"compare {quote(first)} {quote(runs[1][0])}"
        buttons.append(Button("Compare the first two", comparison))

    total = usd(sum((cost.usd for _, cost in runs), Decimal(0)))
    title = f"{counted(len(runs), 'training run')}, {total} while they were observed"
    blocks = (Table(columns, tuple(rows), rest=unlisted), note, Buttons(tuple(buttons)))
    data = {"runs": [{"run": name, **run_data(cost)} for name, cost in runs]}
    return Card(title, Tone.INFO, blocks, data)


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

    since = f"since {clock(cost.since)}, when it was first seen"
    if cost.whole:
        since = "since its start"
    attempts = counted(cost.run.attempts, "attempt")
    spent = f"{usd(cost.usd)} {since} ({attempts}, {cost.nodes:.1f} nodes)."
    if cost.usd_per_epoch is None:
        title = f"{name}: {usd(cost.usd)} so far"
        lead = f"{spent} No epoch has finished since, so there is no cost of an epoch yet."
    else:
        title = f"{name}: {usd(cost.usd_per_epoch)} an epoch"
        hours = f"{cost.hours_per_epoch:.1f} h" if cost.hours_per_epoch else ""
        lead = f"{usd(cost.usd_per_epoch)} an epoch, mean of {len(cost.epochs)}, {hours} each."
        if extra and cost.usd:
            lead += f" With storage {usd(cost.usd_per_epoch * (1 + extra / cost.usd))}."
        lead += f" {spent}"

    blocks: list[Block] = [text(lead), _units(cost)]
    if storage:
        dearest = sorted(storage.items(), key=lambda x: -x[1])
        blocks.append(
            Table(
                (Heading("beside the nodes"), Heading("billed", _R)),
                tuple((line, usd(amount)) for line, amount in dearest),
                ("total", usd(extra)),
                "From the bill, while the run was seen",
            )
        )
    if len(cost.epochs) > 1:
        epochs = cost.epochs[-_BARS:]
        low, high = min(x.usd for x in epochs), max(x.usd for x in epochs)
        blocks.append(
            Chart(
                ChartKind.BAR,
                "Cost of an epoch",
                "$",
                (Series("an epoch", tuple(float(x.usd) for x in epochs)),),
                categories=tuple(f"{x.number}" for x in epochs),
                summary=f"The last {len(epochs)} epochs cost {usd(low)} to {usd(high)}.",
                timed=True,
            )
        )

    basis = (
        f"Estimated: hours of {', '.join(types) or 'no node'}, found by {by}, "
        f"{_paid(cost.billed)}. Every attempt counts, so lost and repeated work is included."
    )
    if unpriced:
        basis += f" {counted(unpriced, 'node')} without a known price are left out."
    blocks += [quiet(basis), *map(quiet, _price_texts(prices))]
    blocks.append(
        Buttons(
            (
                Button("All runs", "runs"),
                Button("Keep as baseline", f"baseline keep {quote(name)}"),
                Button("What it costs", f"cost 7d cluster={quote(cost.run.labels.cluster)}"),
            )
        )
    )
    data = run_data(cost) | {
        "run": name,
        "counted_by": by,
        "storage_usd": extra if storage is not None else None,
    }
    return Card(title, Tone.INFO, tuple(blocks), data)


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

    for (basis, market, region), alike in list(ways.items())[:3]:
        low, high = (usd(end(price.usd_per_hour for price in alike)) for end in (min, max))
        span = low if low == high else f"{low}-{high.removeprefix('$')}"
        newest = max(price.asof for price in alike)
        yield f"Price: {span} an hour, {market}, {basis} of {newest:%Y-%m-%d}, {region}."


def _or(amount: Decimal | None) -> str:
    return usd(amount) if amount is not None else "not reported"


def compare_card(comparison: RunComparison) -> Card:
    """Draw the difference, its interval, the time beside it, and the cost of an equal loss."""
    a, b = comparison.a, comparison.b
    columns = (
        Heading(""),
        Heading(a.name, _R),
        Heading(b.name, _R),
        Heading("difference", _R),
        Heading("95 % interval", _R),
    )
    dollars = _difference_cells(comparison.usd, _signed)
    hours = _difference_cells(comparison.hours, "{:+.1f}".format)
    per_tokens = (_or(a.usd_per_billion_tokens), _or(b.usd_per_billion_tokens))
    rows = (
        ("$ an epoch", _mean(a.usd), _mean(b.usd), *dollars),
        ("hours an epoch", _hours(a.hours), _hours(b.hours), *hours),
        ("epochs", f"{len(a.usd)}", f"{len(b.usd)}", "", ""),
        ("$ a billion tokens", *per_tokens, "", ""),
    )

    blocks: list[Block] = [text(sentence(comparison)), Table(columns, rows)]
    if comparison.same_epochs is False:
        blocks.append(
            text(
                "Their epochs hold different numbers of tokens: compare a billion tokens "
                "or an equal loss, not epochs."
            )
        )
    blocks += [
        text(_loss(comparison.equal_loss, a, b)),
        quiet(
            "Estimated at today's price. Interval: Welch's t at 95 %; "
            "epochs of one run are not independent, so it is too narrow."
        ),
        Buttons(
            (
                Button("All runs", "runs"),
                Button("Follow it weekly", f"migration open {b.name} baseline={a.name}"),
            )
        ),
    ]

    difference = "not enough epochs"
    if comparison.usd is not None:
        difference = f"{_signed(comparison.usd.mean)} an epoch"
    title = f"{a.name} against {b.name}: {difference}"
    return Card(title, Tone.INFO, tuple(blocks), compare_data(comparison))


def sentence(comparison: RunComparison) -> str:
    """Say the comparison in one line, as the weekly digest does too."""
    a, b = comparison.a, comparison.b
    if comparison.usd is None or comparison.hours is None:
        short = " and ".join(
            f"{x.name} has {counted(len(x.usd), 'finished epoch')}" for x in (a, b)
        )
        return f"Not enough epochs: {short}, {FEWEST} each are needed."

    cost, time = _percent(comparison.usd, a.usd), _percent(comparison.hours, a.hours)
    line = f"An epoch on {b.name} costs {cost} and takes {time} than on {a.name}."
    if comparison.usd.mean < 0 < comparison.hours.mean:
        line += " Cheaper but slower: a trade-off."
    if not comparison.usd.sure:
        line += " The difference in cost may be noise: its interval holds 0."
    return line


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


def _difference_cells(difference: Difference | None, write: Any) -> tuple[str, str]:
    return (
        (write(difference.mean), f"{write(difference.low)} to {write(difference.high)}")
        if difference
        else ("", "not enough epochs")
    )


def _loss(equal_loss: EqualLoss | None, a: Sample, b: Sample) -> str:
    if equal_loss is None:
        why = "they have no loss in common"
        missing = [x.name for x in (a, b) if not x.losses]
        if missing:
            verb = "reports" if len(missing) == 1 else "report"
            why = f"{' and '.join(missing)} {verb} no loss"
        return f"Not comparable at equal loss: {why}."

    paid_a = f"{a.name} {usd(equal_loss.a[0])} in {equal_loss.a[1]:.1f} h"
    paid_b = f"{b.name} {usd(equal_loss.b[0])} in {equal_loss.b[1]:.1f} h"
    span = f"from {equal_loss.high:.3f} down to {equal_loss.low:.3f}"
    return f"At equal loss, {span}: {paid_a}, {paid_b}."


def _percent(difference: Difference, base: Sequence[Decimal] | Sequence[float]) -> str:
    usual = mean(float(x) for x in base)
    share = difference.mean / usual * 100 if usual else 0.0
    return f"{abs(share):.0f} % {'less' if share < 0 else 'more'}"


def _signed(amount: float) -> str:
    return f"{'+' if amount >= 0 else ''}{usd(Decimal(str(round(amount, 2))))}"


def _mean(amounts: Sequence[Decimal]) -> str:
    return usd(sum(amounts, Decimal(0)) / len(amounts)) if amounts else "none finished"


def _hours(hours: Sequence[float]) -> str:
    return f"{mean(hours):.1f}" if hours else ""


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
