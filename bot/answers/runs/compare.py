"""Show two runs side by side: dollars, time, and how sure the difference is."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from statistics import mean
from typing import Any

from bot.cards.card import Align, Block, Button, Buttons, Card, Column, Table, Tone, quiet, text
from bot.costs.compare import FEWEST, Difference, EqualLoss, RunComparison, Sample
from bot.model.counts import counted
from bot.model.money import cents, usd

_R = Align.RIGHT


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
        Column(""),
        Column(comparison.a.name, _R),
        Column(comparison.b.name, _R),
        Column("difference", _R),
        Column("95 % interval", _R),
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
            *(_or(x.usd_per_billion_tokens) for x in (comparison.a, comparison.b)),
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


def _or(amount: Decimal | None) -> str:
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
