"""Refuse names that no charge of the bill has."""

from __future__ import annotations

from collections.abc import Sequence

from bot.costs.allocation import Allocation
from bot.costs.tally import unknown_tag, unknown_value
from bot.errors import WrongInput, nearest, shortened
from bot.model.spend import Filter, Tally
from bot.ports import Billing


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
