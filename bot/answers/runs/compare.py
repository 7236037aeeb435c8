"""Show two runs side by side: dollars, time, and how sure the difference is."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from statistics import mean
from typing import Any

from bot.cards.card import Align, Block, Button, Buttons, Card, Column, Table, Tone, quiet, text
from bot.cards.words import counted
from bot.costs.compare import FEWEST, Difference, EqualLoss, RunComparison, Sample
from bot.model.money import cents, usd

_R = Align.RIGHT


def compare_card(found: RunComparison) -> Card:
    """Draw the difference with its interval and the time beside it, then the cost of an equal loss."""
    a, b = found.a, found.b
    blocks: list[Block] = [text(sentence(found)), _table(found)]
    if found.same_epochs is False:
        blocks.append(
            text("Their epochs hold different numbers of tokens: compare a billion tokens or an equal loss, not epochs.")
        )
    blocks.append(text(_loss(found.equal_loss, a, b)))
    note = "Estimated at today's price. Interval: Welch's t at 95 %; epochs of one run are not independent, so it is too narrow."
    blocks += [
        quiet(note),
        Buttons((Button("All runs", "runs"), Button("Follow it weekly", f"migration open {b.name} baseline={a.name}"))),
    ]
    return Card(_title(found), Tone.INFO, tuple(blocks), compare_data(found))


def sentence(found: RunComparison) -> str:
    """Say the comparison in one line, as the weekly digest does too."""
    a, b = found.a, found.b
    if found.usd is None or found.hours is None:
        short = " and ".join(f"{x.name} has {counted(len(x.usd), 'finished epoch')}" for x in (a, b))
        return f"Not enough epochs: {short}, {FEWEST} each are needed."
    cost, time = _percent(found.usd, a.usd), _percent(found.hours, a.hours)
    trade = " Cheaper but slower: a trade-off." if found.usd.mean < 0 < found.hours.mean else ""
    noise = "" if found.usd.sure else " The difference in cost may be noise: its interval holds 0."
    return f"An epoch on {b.name} costs {cost} and takes {time} than on {a.name}.{trade}{noise}"


def compare_data(found: RunComparison) -> dict[str, Any]:
    """Return the comparison for scripts."""
    loss = found.equal_loss
    return {
        "a": _side(found.a),
        "b": _side(found.b),
        "usd_per_epoch": _interval(found.usd),
        "hours_per_epoch": _interval(found.hours),
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
        "same_epochs": found.same_epochs,
    }


def _title(found: RunComparison) -> str:
    names = f"{found.a.name} against {found.b.name}"
    return f"{names}: not enough epochs" if found.usd is None else f"{names}: {_signed(found.usd.mean)} an epoch"


def _table(found: RunComparison) -> Table:
    columns = (
        Column(""),
        Column(found.a.name, _R),
        Column(found.b.name, _R),
        Column("difference", _R),
        Column("95 % interval", _R),
    )
    rows = [
        ("$ an epoch", _mean(found.a.usd), _mean(found.b.usd), *_told(found.usd, _signed)),
        ("hours an epoch", _hours(found.a.hours), _hours(found.b.hours), *_told(found.hours, _plus)),
        ("epochs", f"{len(found.a.usd)}", f"{len(found.b.usd)}", "", ""),
        ("$ a billion tokens", *(_or(x.usd_per_billion_tokens) for x in (found.a, found.b)), "", ""),
    ]
    return Table(columns, tuple(rows))


def _told(found: Difference | None, write: Any) -> tuple[str, str]:
    return (write(found.mean), f"{write(found.low)} to {write(found.high)}") if found else ("", "not enough epochs")


def _loss(found: EqualLoss | None, a: Sample, b: Sample) -> str:
    if found is None:
        missing = [x.name for x in (a, b) if not x.losses]
        why = (
            f"{' and '.join(missing)} {'reports' if len(missing) == 1 else 'report'} no loss"
            if missing
            else "they have no loss in common"
        )
        return f"Not comparable at equal loss: {why}."
    paid = f"{a.name} {usd(found.a[0])} in {found.a[1]:.1f} h, {b.name} {usd(found.b[0])} in {found.b[1]:.1f} h"
    return f"At equal loss, from {found.high:.3f} down to {found.low:.3f}: {paid}."


def _percent(found: Difference, base: Sequence[Decimal] | Sequence[float]) -> str:
    usual = mean(float(x) for x in base)
    share = found.mean / usual * 100 if usual else 0.0
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


def _interval(found: Difference | None) -> dict[str, float] | None:
    return {"difference": found.mean, "low": found.low, "high": found.high} if found else None
