"""Show the cost of training runs: in a table, one with every unit, or two side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from statistics import mean
from typing import Any

from bot.answers.cost.goodput import most_lost_words
from bot.answers.runs.costed import Costed
from bot.cards.card import (
    Align,
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
    compose,
    detail,
    quiet,
    text,
)
from bot.cards.columns import NUMBER, SHARE, USD, Column, Columns, Unit, datum
from bot.cards.lines import quote
from bot.cards.words import growth
from bot.costs.goodput import RunGoodput
from bot.costs.training import FEWEST, Difference, EqualLoss, RunComparison, RunCost, Sample
from bot.costs.verdict import Verdict
from bot.model.codec import by_key
from bot.model.money import cents, counted, usd
from bot.model.price import Price
from bot.model.window import clock

_UNREPORTED, _UNPRICED = "not reported", "no price known"
_MOST, _BARS = 15, 24


def _epochs(row: tuple[str, RunCost, RunGoodput | None]) -> str:
    """Count the epochs that ended, and say how far the one is that has begun."""
    part = _under_way(row[1].partial_epoch or 0)
    return f"{len(row[1].epochs)}" + (f" + {part}" if part != "0 %" else "")


def _under_way(part: float) -> str:
    """Write how much of an epoch is done: one that goes on is never at 100 %."""
    return f"{int(part * 100)} %"


RUNS = Columns[tuple[str, RunCost, RunGoodput | None]](
    Column("run", lambda row: row[0]),
    Column("cost", lambda row: row[1].usd, USD, missing=_UNPRICED),
    Column("goodput", lambda row: row[2] and row[2].row.goodput, SHARE),
    Column("ETTR", lambda row: row[2] and row[2].ettr, SHARE),
    Column("an epoch", lambda row: row[1].usd_per_epoch, USD, missing=_UNREPORTED),
    Column("epochs", _epochs, NUMBER),
    Column("a billion tokens", lambda row: row[1].usd_per_billion_tokens, USD, missing=_UNREPORTED),
    Column("nodes", lambda row: f"{round(row[1].nodes, 1):g}", NUMBER),
)


def runs_card(runs: Sequence[tuple[str, RunCost, RunGoodput | None]]) -> Card:
    """List runs, the dearest first."""
    if not runs:
        return Card(
            "No training run is reporting",
            Tone.INFO,
            (
                text(
                    "No run is reporting. A trainer publishes epochs, tokens and loss as"
                    " CloudWatch metrics in Trn/Training (docs/recording.md)."
                ),
            ),
            {"runs": []},
        )

    first = runs[0][0]
    buttons = [Button(f"Run {first[:40]}", f"runs {quote(first)}")]
    if len(runs) > 1:
        buttons.append(
            Button("Compare the first two", f"compare {quote(first)} {quote(runs[1][0])}")
        )

    # How much of the hours is billed is told of all runs together, each the same.
    billed = sum(cost.billed for _, cost, _ in runs) / len(runs)
    known = [cost.usd for _, cost, _ in runs if cost.usd is not None]
    total = f"{usd(sum(known, Decimal(0)))} while they were observed" if known else _UNPRICED

    return Card(
        f"{counted(len(runs), 'training run')}, {total}",
        Tone.INFO,
        compose(
            RUNS.table(runs, most=_MOST, noun="run"),
            quiet(
                f"Estimated: hours of the nodes, {_paid(billed)}; lost and repeated work included; "
                "storage is separate."
            ),
            any(goodput for _, _, goodput in runs) and detail(_GOODPUT),
            Buttons(tuple(buttons)),
        ),
        {"runs": [{"run": name, **run_data(cost, goodput)} for name, cost, goodput in runs]},
    )


def run_card(
    costed: Costed, storage: Mapping[str, Decimal] | None, goodput: RunGoodput | None = None
) -> Card:
    """Show one run with every unit, the costs in it, and those that are not."""
    name, cost = costed.name, costed.cost
    extra = sum((storage or {}).values(), Decimal(0))
    seen = f"since {clock(cost.since)}, when it was first seen"
    since = "since its start" if cost.whole else seen
    spent = (
        f"{_or(cost.usd, 'No price is known for what ran')} {since}"
        f" ({counted(cost.run.attempts, 'attempt')}, {round(cost.nodes, 1):g} nodes)."
    )
    if cost.usd is None:
        title, lead = f"{name}: {_UNPRICED}", spent
    elif cost.usd_per_epoch is None:
        title = f"{name}: {usd(cost.usd)} so far"
        lead = f"{spent} No epoch has finished since, so there is no cost of an epoch yet."
    else:
        title = f"{name}: {usd(cost.usd_per_epoch)} an epoch"
        hours = f"{cost.hours_per_epoch:.1f} h" if cost.hours_per_epoch else ""
        lead = f"{usd(cost.usd_per_epoch)} an epoch, mean of {len(cost.epochs)}, {hours} each."
        # Storage is shared out over the epochs as the cost of the nodes is.
        if extra and cost.usd:
            lead += f" With storage {usd(cost.usd_per_epoch * (1 + extra / cost.usd))}."
        lead += f" {spent}"

    chart, epochs = None, {x.number: x.usd for x in cost.epochs[-_BARS:] if x.usd is not None}
    if len(epochs) > 1:
        low, high = min(epochs.values()), max(epochs.values())
        chart = Chart(
            ChartKind.BAR,
            "Cost of an epoch",
            "$",
            (Series("an epoch", tuple(map(float, epochs.values()))),),
            categories=tuple(map(str, epochs)),
            summary=f"The last {len(epochs)} epochs cost {usd(low)} to {usd(high)}.",
            timed=True,
        )

    basis = (
        f"Estimated: hours of {', '.join(costed.instance_types) or 'no node'}, found by"
        f" {costed.by}, {_paid(cost.billed)}. Every attempt counts, so lost and repeated work is"
        " included."
    )
    if costed.unpriced:
        basis += f" Left out: {counted(costed.unpriced, 'node')} without a known price."

    return Card(
        title,
        Tone.INFO,
        compose(
            text(lead),
            _units(cost),
            _worked(goodput),
            STORAGE.table(
                sorted(storage.items(), key=lambda line: -line[1]),
                total="total",
                caption="From the bill, while the run was seen",
            )
            if storage
            else None,
            chart,
            detail(basis),
            detail(_GOODPUT) if goodput else None,
            map(detail, _price_texts(costed.prices)),
            Buttons(
                (
                    Button("All runs", "runs"),
                    Button("Keep as baseline", f"baseline keep {quote(name)}"),
                    Button("What it costs", f"cost 7d cluster={quote(cost.run.labels.cluster)}"),
                )
            ),
        ),
        run_data(cost, goodput)
        | {
            "run": name,
            "counted_by": costed.by,
            "storage_usd": extra if storage is not None else None,
        },
    )


STORAGE = Columns[tuple[str, Decimal]](
    Column("beside the nodes", lambda line: line[0]),
    Column("billed", lambda line: line[1], USD, total=True),
)


def run_data(cost: RunCost, goodput: RunGoodput | None = None) -> dict[str, Any]:
    """Return a run's numbers for scripts."""
    classes = goodput.row.classes if goodput else {}
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
        "goodput": goodput and goodput.row.goodput,
        "ettr": goodput and goodput.ettr,
        "classes_usd": {kind.value: amount for kind, amount in classes.items()},
        "attempts": cost.run.attempts,
        "loss": cost.run.loss,
        "estimated": True,
    }


_GOODPUT = (
    "Goodput is the share of its dollars that went into work, ETTR (effective training time ratio)"
    " that of its wall hours since it was first seen; estimates, as in 'goodput'."
)


def _worked(goodput: RunGoodput | None) -> Text | None:
    """Say what share of a run's dollars and hours was work, and the class that took most of the others."""
    if goodput is None or goodput.row.goodput is None or goodput.ettr is None:
        return None
    return text(
        f"{100 * goodput.row.goodput:.0f} % of its dollars went into work (goodput), and"
        f" {100 * goodput.ettr:.0f} % of its hours (ETTR){most_lost_words(goodput.row)}."
    )


def _units(cost: RunCost) -> Facts:
    under_way, checkpoint = "", _UNREPORTED
    if cost.partial_epoch is not None or cost.partial_usd:
        under_way = "how far is not reported"
        if cost.partial_epoch is not None:
            under_way = f"{_under_way(cost.partial_epoch)} of an epoch"
        if cost.partial_usd is not None:
            under_way += f", {usd(cost.partial_usd)} so far"
    if cost.checkpoints:
        checkpoint = f"{_or(cost.usd_per_checkpoint)} ({cost.checkpoints} written)"
    pairs = (
        ("an epoch", _or(cost.usd_per_epoch)),
        ("under way", under_way),
        ("a billion tokens", _or(cost.usd_per_billion_tokens)),
        ("a billion parameters", _or(cost.usd_per_billion_parameters)),
        ("a checkpoint", checkpoint),
    )

    return Facts(tuple((name, words) for name, words in pairs if words))


def _paid(billed: float) -> str:
    """Say by which price the hours of nodes are counted."""
    if billed >= 0.995:
        return "each at what that very hour was billed"
    if billed < 0.005:
        return "at the price of their node"
    return (
        f"{billed * 100:.0f} % of them at what that very hour was billed, the others at the price"
        " of their node"
    )


def _price_texts(prices: Sequence[Price]) -> Iterator[str]:
    """Yield a sentence for each way in which the nodes are paid.

    Each has a price of its own where the bill names it.
    """
    ways = by_key(((price.basis, price.market, price.region), price) for price in prices)
    for (_, market, region), alike in list(ways.items())[:3]:
        low, high = (usd(end(price.usd_per_hour for price in alike)) for end in (min, max))
        span = low if low == high else f"{low}-{high.removeprefix('$')}"
        origin = max(alike, key=lambda price: price.asof).origin
        yield f"Price: {span} an hour, {market}, {origin}, {region}."


def _or(amount: Decimal | None, missing: str = _UNREPORTED) -> str:
    return usd(amount) if amount is not None else missing


def compare_card(comparison: RunComparison, verdict: Verdict) -> Card:
    """Draw the verdict, then the difference, its interval, the time, and an equal loss as paid."""
    a, b = comparison.a, comparison.b
    rows = (
        (
            "$ an epoch",
            *(_or(_mean(x), _UNPRICED if x.hours else "none finished") for x in (a, b)),
            *_difference_cells(comparison.usd, _signed),
        ),
        (
            "hours an epoch",
            *(f"{mean(sample.hours):.1f}" if sample.hours else "" for sample in (a, b)),
            *_difference_cells(comparison.hours, "{:+.1f}".format),
        ),
        ("epochs", f"{len(a.hours)}", f"{len(b.hours)}", "", ""),
        (
            "$ a billion tokens",
            *(
                _or(x.usd_per_billion_tokens, _UNPRICED if x.tokens else _UNREPORTED)
                for x in (a, b)
            ),
            "",
            "",
        ),
    )

    noise = verdict.ratios and comparison.usd and not comparison.usd.sure
    return Card(
        f"{a.name} to {b.name}: {verdict.headline}{', which may be noise' if noise else ''}",
        Tone.INFO,
        compose(
            text(str(verdict)),
            text(sentence(comparison)),
            Table(
                tuple(
                    Heading(name, Align.RIGHT if name else Align.LEFT)
                    for name in ("", a.name, b.name, "difference", "95 % interval")
                ),
                rows,
            ),
            comparison.same_epochs is False
            and text(
                "Their epochs hold different numbers of tokens: compare a billion tokens "
                "or an equal loss, not epochs."
            ),
            text(_loss(comparison.equal_loss, a, b)),
            quiet(
                "Estimated: hours of the nodes as billed, else at today's price. Interval: Welch's t"
                " at 95 %; "
                "epochs of one run are not independent, so it is too narrow."
            ),
            Buttons(
                (
                    Button("All runs", "runs"),
                    Button("Follow it weekly", f"migration open {b.name} baseline={a.name}"),
                )
            ),
        ),
        compare_data(comparison),
    )


def sentence(comparison: RunComparison) -> str:
    """Say the comparison in one line, as the weekly digest does too."""
    a, b = comparison.a, comparison.b
    if comparison.usd is None or comparison.hours is None:
        short = " and ".join(
            f"{x.name} has {counted(len(x.hours), 'finished epoch')}" for x in (a, b)
        )
        if min(len(a.hours), len(b.hours)) >= FEWEST:
            unpriced = " and ".join(x.name for x in (a, b) if not x.usd)
            return f"No price of the nodes of {unpriced} is known, so no cost is compared."
        return f"Not enough epochs: {short}, {FEWEST} each are needed."

    cost, time = _percent(comparison.usd, a.usd), _percent(comparison.hours, a.hours)
    sentences = (
        f"An epoch on {b.name} costs {cost} and takes {time} than on {a.name}.",
        "Cheaper but slower: a trade-off."
        if comparison.usd.mean < 0 < comparison.hours.mean
        else "",
        "" if comparison.usd.sure else "The difference in cost may be noise: its interval holds 0.",
    )

    return " ".join(filter(None, sentences))


COMPARE_FIGURES = {
    "epochs": "count of the finished epochs",
    "usd_per_epoch": "cost of the finished epochs / their number",
    "hours_per_epoch": "hours of the finished epochs / their number",
    "equal_loss/*": "cost and hours of each side between two losses that both passed",
    "usd_per_epoch/*": "mean of b - mean of a, with its 95 % interval",
    "hours_per_epoch/*": "mean of b - mean of a, with its 95 % interval",
}


def compare_data(comparison: RunComparison) -> dict[str, Any]:
    """Return the comparison for scripts."""
    return {
        "a": _SIDE.record(comparison.a),
        "b": _SIDE.record(comparison.b),
        "usd_per_epoch": comparison.usd and _INTERVAL.record(comparison.usd),
        "hours_per_epoch": comparison.hours and _INTERVAL.record(comparison.hours),
        "equal_loss": comparison.equal_loss and _EQUAL_LOSS.record(comparison.equal_loss),
        "same_epochs": comparison.same_epochs,
    }


def _difference_cells(difference: Difference | None, write: Callable[[float], str]) -> list[str]:
    if difference is None:
        return ["", "not enough epochs"]
    return [write(difference.mean), f"{write(difference.low)} to {write(difference.high)}"]


def _loss(equal_loss: EqualLoss | None, a: Sample, b: Sample) -> str:
    if equal_loss is None:
        why = "they share no range of loss that took an hour on each"
        missing = [x.name for x in (a, b) if not x.losses]
        if missing:
            verb = "reports" if len(missing) == 1 else "report"
            why = f"{' and '.join(missing)} {verb} no loss"
        return f"Not comparable at equal loss: {why}."

    sides = ((a.name, *equal_loss.a), (b.name, *equal_loss.b))
    paid = ", ".join(f"{name} {usd(amount)} in {hours:.1f} h" for name, amount, hours in sides)

    return f"Paid to equal loss, from {equal_loss.high:.3f} down to {equal_loss.low:.3f}: {paid}."


def _percent(difference: Difference, base: Sequence[Decimal] | Sequence[float]) -> str:
    usual = mean(float(x) for x in base)
    share = difference.mean / usual if usual else 0.0
    return f"{growth(share)} {'less' if share < 0 else 'more'}"


def _signed(amount: float) -> str:
    return f"{'+' if amount >= 0 else ''}{usd(Decimal(str(round(amount, 2))))}"


def _mean(side: Sample) -> Decimal | None:
    """Return the mean cost of an epoch, None where none has finished."""
    return sum(side.usd, Decimal(0)) / len(side.usd) if side.usd else None


_SIDE = Columns[Sample](
    datum("name", lambda side: side.name),
    datum("epochs", lambda side: len(side.hours)),
    datum("usd_per_epoch", _mean, unit=Unit(usd, store=cents)),
    datum("hours_per_epoch", lambda side: mean(side.hours) if side.hours else None),
)
_INTERVAL = Columns[Difference](
    datum("difference", lambda difference: difference.mean),
    datum("low", lambda difference: difference.low),
    datum("high", lambda difference: difference.high),
)
_EQUAL_LOSS = Columns[EqualLoss](
    datum("from", lambda loss: loss.high),
    datum("to", lambda loss: loss.low),
    datum("a_usd", lambda loss: loss.a[0]),
    datum("b_usd", lambda loss: loss.b[0]),
    datum("a_hours", lambda loss: loss.a[1]),
    datum("b_hours", lambda loss: loss.b[1]),
)
