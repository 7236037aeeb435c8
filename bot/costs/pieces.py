"""Take sums of the bill apart and add them up again: a sum that its pieces do not make is no sum."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta

from bot.errors import OverBudget, WrongInput
from bot.model.receipt import Difference, Piece, TallyTerms, agree
from bot.model.spend import Money, Tally
from bot.ports import Billing

_BY_DAY = timedelta(days=92)
"""The longest window that is taken apart by days; longer ones by months."""
MEASURES = ("gross", "discounts", "credits", "tax", "net", "amortised")
_PARTS = ("day", "resource")
"""What a sum is taken apart by, each by itself."""


def pieces_of(billing: Billing, terms: TallyTerms) -> tuple[Piece, ...]:
    """Return the parts of a sum by day, or by month where the window is long.

    None where the bill does not tell them.
    """
    step = "day" if terms.window.length <= _BY_DAY else "month"
    try:
        rows = billing.tally(terms.window, (step,), terms.where).rows
    except (WrongInput, OverBudget):
        return ()
    return tuple(
        Piece(row.key[step], row.money) for row in sorted(rows, key=lambda row: row.key[step])
    )


def mismatches(
    billing: Billing, terms: TallyTerms, tally: Tally
) -> tuple[list[Difference], list[str]]:
    """Add a sum up from its days, and from its resources.

    Return where it does not agree to the cent, and the sums not tried.
    """
    wrong, untried = [], []
    for part in _PARTS:
        if part in terms.by:
            continue
        try:
            pieces = billing.tally(terms.window, (*terms.by, part), terms.where)
        except (WrongInput, OverBudget) as error:
            untried.append(f"{terms} was not added up by {part}: {error}")
            continue
        wrong += _compared(f"bill added up by {part}: {terms}", tally, pieces, terms.by)
    return wrong, untried


def _compared(what: str, tally: Tally, pieces: Tally, by: Sequence[str]) -> list[Difference]:
    """Return each row, and the total, that its pieces do not make."""
    sums: dict[tuple[str, ...], Money] = defaultdict(Money)
    for row in pieces.rows:
        sums[tuple(row.key[name] for name in by)] += row.money
    stated = {tuple(row.key[name] for name in by): row.money for row in tally.rows}
    pairs = [
        (", ".join(key) or "all", stated.get(key, Money()), sums.get(key, Money()))
        for key in dict.fromkeys((*stated, *sums))
    ]
    pairs.append(("total", tally.total, sum(sums.values(), Money())))
    return [
        _unequal(f"{what}, {name}", one, other)
        for name, one, other in pairs
        if _measures(one, other)
    ]


def _measures(one: Money, other: Money) -> list[str]:
    """Return the amounts in which two sums differ by a cent or more."""
    return [
        measure for measure in MEASURES if not agree(getattr(one, measure), getattr(other, measure))
    ]


def _unequal(what: str, stated: Money, added: Money) -> Difference:
    measures = _measures(stated, added)
    was, now = (
        "; ".join(f"{measure} {getattr(money, measure):.2f}" for measure in measures)
        for money in (stated, added)
    )
    return Difference(what, was, now, "its pieces make another sum")
