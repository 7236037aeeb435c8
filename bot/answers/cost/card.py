"""Draw the answer to `cost`.

Total and change, gross to net apart, who spent it, and how old the figures are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from bot.answers.cost.owners import (
    DERIVED,
    UNUSED,
    derived_data,
    hint_texts,
    is_derived,
    split_data,
    split_texts,
    unread,
    unused_of,
)
from bot.answers.cost.title import (
    DRILLS,
    TIMES,
    cost_charts,
    cost_title,
    drill_buttons,
    forecast_data,
    forecast_words,
    meaning_texts,
    named,
    nothing_text,
    part_line,
)
from bot.answers.fleet.compiling import bill_data, compile_fact, compile_text
from bot.cards.card import (
    Align,
    Block,
    Buttons,
    Card,
    Facts,
    Heading,
    Table,
    Text,
    Tone,
    When,
    quiet,
    text,
)
from bot.cards.words import amount_of, clock, money_data, period
from bot.costs.compiling import CompileBill
from bot.costs.nowcast import Expected, Nowcast
from bot.costs.owners import OwnerHint
from bot.costs.tally import Change, row_ratio, share, top, untagged
from bot.model.money import usd
from bot.model.spend import Commitment, CommitmentPlan, Filter, Money, Spend, Tally
from bot.model.window import month_of, rounded_duration

_ROWS, _EVERY = 10, 300
_OWNERS = {"team", "project", "cluster", "namespace", "pod"}


@dataclass(frozen=True)
class CostAnswer:
    """Hold the parts of the card.

    `over_time` is keyed by a time dimension and the first dimension asked for.
    """

    tally: Tally
    filters: tuple[Filter, ...] = ()
    over_time: Tally | None = None
    change: Change | None = None
    nowcast: Nowcast | None = None
    expected: Expected | None = None
    """What the provider itself expects, beside the nowcast."""
    problems: Sequence[str] = ()
    commitments: tuple[Commitment, ...] = ()
    """How commitments were used, as the provider says."""
    hints: Sequence[OwnerHint] = ()
    """Whose the untagged cost may be."""
    unused: Decimal = Decimal(0)
    """What of the amortised cost is commitment that no usage took."""
    compared: tuple[Tally, Tally] | None = None
    """The settled part and as much of the window before, by the same dimensions.

    None where rows cannot be compared.
    """
    compiling: CompileBill | None = None
    """What compiling cost of it, estimated from metrics; None where they say nothing of it."""


def cost_card(answer: CostAnswer) -> Card:
    """Draw the card; `data` holds every row, the table the largest."""
    tally = answer.tally
    title = cost_title(tally, answer.filters)
    aged = [*_age(answer), *unread(answer.problems)]
    if not tally.rows:
        return Card(
            title, Tone.INFO, (nothing_text(tally), *aged), cost_data(tally, answer.filters)
        )
    notes = [
        *_hints(tally),
        *hint_texts(answer.hints, tally),
        *split_texts(tally),
        *_unused(answer),
        *([compile_text(answer.compiling)] if answer.compiling else []),
        *use_texts(answer.commitments),
        *aged,
    ]
    blocks: list[Block] = [
        _lead(answer),
        *meaning_texts(tally, answer.over_time, answer.filters),
        _parts(answer),
        _table(answer),
        *cost_charts(answer.over_time, answer.filters),
        *notes,
    ]
    blocks.append(Buttons(tuple(drill_buttons(tally, answer.filters, _ranked(tally)))))
    data = (
        cost_data(tally, answer.filters)
        | forecast_data(answer.nowcast, answer.expected)
        | split_data(tally, answer.hints)
        | _compiling(answer)
    )
    return Card(title, Tone.INFO, tuple(blocks), data)


def cost_data(tally: Tally, filters: Sequence[Filter] = ()) -> dict[str, Any]:
    """Return the stable data of `cost --json`: every row, nothing folded away."""
    return {
        "window": {"start": tally.window.start, "end": tally.window.end},
        "by": list(tally.by),
        "currency": tally.currency,
        "rows": [
            {
                "key": dict(row.key),
                **money_data(row.money),
                "estimated": row.estimated,
                **derived_data(row),
            }
            for row in tally.rows
        ],
        "total": money_data(tally.total),
        "billed_through": tally.billed_through,
        "rest": None,
        "filters": [str(each) for each in filters],
        "groupings": list(DRILLS),
        **({"seen": tally.seen} if tally.seen else {}),
    }


def _compiling(answer: CostAnswer) -> dict[str, Any]:
    return {"compiling": bill_data(answer.compiling)} if answer.compiling else {}


def _lead(answer: CostAnswer) -> Text:
    change, tally = answer.change, answer.tally
    words = f"Amortised {amount_of(tally.total.amortised, tally)}"
    words += (
        f"; {_compared(change, tally)}."
        if change is None or change.ratio is None
        else f", {_compared(change, tally)}."
    )
    return text(words + forecast_words(answer.nowcast, answer.expected, tally))


def growth(ratio: Decimal | None) -> str:
    """Write a change for a cell: `+12 %`, `-3 %`, `new` where nothing was spent before."""
    if ratio is None:
        return "new"
    return "0 %" if abs(ratio) < Decimal("0.005") else f"{ratio * 100:+,.0f} %"


def _grown(ratio: Decimal) -> str:
    percent = abs(ratio * 100)
    if percent < Decimal("0.5"):
        return "unchanged"
    return f"{'up' if ratio > 0 else 'down'} {percent:,.0f} %"


def _compared(change: Change | None, tally: Tally) -> str:
    """Say the change, and which part was compared when it is not the whole window."""
    if change is None:
        return "no settled figures to compare it with"
    grown = f"{_grown(change.ratio)} from" if change.ratio is not None else "nothing was spent in"
    if change.part == tally.window:
        return f"{grown} {period(change.before)}"
    now, then = amount_of(change.now, tally), amount_of(change.then, tally)
    before = (
        "month"
        if tally.window == month_of(tally.window.start)
        else rounded_duration(tally.window.length)
    )
    return f"{grown} the {before} before by settled figures ({now} against {then}, up to {clock(change.part.end)} UTC)"


def _parts(answer: CostAnswer) -> Facts:
    tally, total = answer.tally, answer.tally.total
    pairs = [
        ("Gross", total.gross),
        ("Discounts", total.discounts),
        ("Credits", total.credits),
        ("Tax", total.tax),
    ]
    shown = [(name, amount) for name, amount in pairs if amount or name in {"Gross", "Credits"}]
    compiling = [compile_fact(answer.compiling)] if answer.compiling else []
    return Facts(
        (
            *((name, amount_of(amount, tally)) for name, amount in [*shown, ("Net", total.net)]),
            *compiling,
        )
    )


def _table(answer: CostAnswer) -> Table:
    tally = answer.tally
    ranked = _ranked(tally)
    rows, rest, rest_count = top(ranked, _ROWS)
    unused = (UNUSED,) if any(row.derived and row.derived.unused for row in tally.rows) else ()
    changes = ("change",) if answer.compared else ()
    columns = (
        *(Heading(name.replace("_", " ")) for name in tally.by),
        *(Heading(n, Align.RIGHT) for n in ("net", "amortised", "share", *changes, *unused)),
    )
    mixed = len({row.estimated for row in tally.rows}) > 1
    every = tuple(_row(answer, row, mixed and row.estimated, unused) for row in ranked[:_EVERY])
    lines = tuple(
        part_line(tally, answer.filters, row.key) if tally.by else "" for row in ranked[:_EVERY]
    )
    shown = every[: len(rows)]
    if rest_count:
        others = (unused_of(ranked[len(rows) :], tally) for _ in unused)
        word = "earlier" if set(tally.by) <= TIMES else "more"
        shown += (
            (
                *_first(f"{rest_count} {word}", len(tally.by)),
                *_amounts(rest, tally),
                *("" for _ in changes),
                *others,
            ),
        )
    note = f"{rest_count} {_folded_words(tally.by)} rows are folded into one." if rest_count else ""
    caption = "~ is an estimate that AWS may still rewrite; share is of amortised" if mixed else ""
    grown = (growth(answer.change.ratio) if answer.change else "" for _ in changes)
    sums = (unused_of(tally.rows, tally) for _ in unused)
    whole = (*_first("total", len(tally.by)), *_amounts(tally.total, tally), *grown, *sums)
    return Table(columns, shown, whole, caption, note, every if rest_count else (), lines)


def _folded_words(by: Sequence[str]) -> str:
    """Say which rows a table folds."""
    if set(by) <= TIMES:
        return "earlier"
    return "earlier or smaller" if TIMES & set(by) else "smaller"


def _row(answer: CostAnswer, row: Spend, estimated: bool, unused: Sequence[str]) -> tuple[str, ...]:
    tally = answer.tally
    grown = (growth(row_ratio(*answer.compared, row)),) if answer.compared else ()
    names = (_named(row, name) for name in tally.by)
    return (
        *names,
        *_amounts(row.money, tally, estimated),
        *grown,
        *(unused_of([row], tally) for _ in unused),
    )


def _named(row: Spend, dimension: str) -> str:
    return named(row.key[dimension], dimension) + (DERIVED if is_derived(row, dimension) else "")


def _unused(answer: CostAnswer) -> list[Text]:
    """State apart the commitment that nothing used: it is in the amortised sum, in nobody's usage."""
    if answer.unused <= 0:
        return []
    amount = amount_of(answer.unused, answer.tally)
    return [
        quiet(
            f"{amount} of the amortised cost is commitment that nothing used (Savings Plans, reserved instances)."
        )
    ]


def _ranked(tally: Tally) -> list[Spend]:
    """Return the rows dearest first by amortised cost, which the shares are of.

    Rows of time the newest first.
    """
    dearest = sorted(tally.rows, key=lambda row: -row.money.amortised)
    return sorted(
        dearest, key=lambda row: [row.key[name] for name in tally.by if name in TIMES], reverse=True
    )


def _amounts(money: Money, tally: Tally, estimated: bool = False) -> tuple[str, str, str]:
    part = share(money.amortised, tally.total.amortised)
    percent = f"{part * 100:.0f} %" if part is not None else ""
    return (
        f"{'~' if estimated else ''}{amount_of(money.net, tally)}",
        amount_of(money.amortised, tally),
        percent,
    )


def _first(word: str, columns: int) -> tuple[str, ...]:
    return (word, *[""] * (columns - 1)) if columns else ()


def _hints(tally: Tally) -> list[Text]:
    """Say how much nobody owns, and how to change that."""
    hints = []
    for name in tally.by:
        lost = untagged(tally, name).amortised
        if lost > 0 and (name in _OWNERS or name.startswith("tag:")):
            tag = name.removeprefix("tag:")
            hints.append(
                quiet(
                    f"{amount_of(lost, tally)} (amortised) carries no {tag}: {_remedy(name, tag)}."
                )
            )
    return hints


def _remedy(dimension: str, tag: str) -> str:
    if dimension in {"namespace", "pod"}:
        return "turn on split cost allocation data for EKS in the export"
    return f"tag the resources and activate '{tag}' as a cost allocation tag in AWS Billing"


def _age(answer: CostAnswer) -> list[Text]:
    tally = answer.tally
    if tally.billed_through is None:
        return []
    beyond = (
        " The window reaches beyond it."
        if tally.window.end > tally.billed_through + timedelta(hours=1)
        else ""
    )
    sources = f" Source: {', '.join(tally.sources)}." if tally.sources else ""
    known = (
        " The files hold later charges; a charge counts once its hour lies back by the bill's usual delay."
        if tally.seen
        else ""
    )
    return [quiet("Billed through ", When(tally.billed_through), f".{known}{beyond}{sources}")]


def use_texts(commitments: Sequence[Commitment]) -> list[Text]:
    """Say how each kind of commitment was used on the newest day that the provider tells of."""
    texts = []
    for plan in CommitmentPlan:
        days = [
            commitment
            for commitment in commitments
            if commitment.plan is plan and commitment.committed
        ]
        if days:
            last = max(days, key=lambda commitment: commitment.day)
            covers = (
                f"; they cover {last.coverage:.0%} of what they could"
                if last.coverage is not None
                else ""
            )
            words = f"{plan[0].upper()}{plan[1:]}: {last.utilization:.0%} of {usd(last.committed)} used on {last.day}, by AWS"
            texts.append(quiet(f"{words}; {usd(last.unused)} unused{covers}.".replace("%", " %")))
    return texts
