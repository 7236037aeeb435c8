"""Say beside a cost what was split or derived, whose the untagged may be, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from bot.cards.card import Block, Text, quiet
from bot.cards.words import amount_of, period
from bot.costs.owners import OwnerHint
from bot.model.spend import Spend, Tally

_MOST = 4
DERIVED = " (derived)"
UNUSED = "held, unused"
"""The column of what cores cost that pods held and did not use."""


def split_texts(tally: Tally) -> list[Text]:
    """Say which cost rests on requests of pods instead of the bill, and which teams are derived."""
    parts = [row.derived for row in tally.rows if row.derived]
    texts = []
    if tally.split is not None:
        words = (
            "Neuron nodes are split by the NeuronCores that pods requested"
            f" ({period(tally.split)}): an estimate, not on the bill."
        )
        idle, unused = (
            sum((getattr(part, name) for part in parts), Decimal(0)) for name in ("idle", "unused")
        )
        if idle > 0:
            words += f" {amount_of(idle, tally)} is for cores that no pod held."
        if unused > 0:
            words += f" {amount_of(unused, tally)} is for cores that pods held and did not use."
        texts.append(quiet(words))

    ways = sorted({way for part in parts for _, way in part.owners})
    if ways and "team" in tally.by:
        texts.append(
            quiet(
                f"A team marked{DERIVED} is told by the {' or the '.join(ways)} of pods:"
                " neither they nor their nodes carry one."
            )
        )
    return texts


def hint_texts(hints: Sequence[OwnerHint], tally: Tally) -> list[Text]:
    """Say whose the untagged cost may be, dearest first, and by what."""
    owned = [hint for hint in hints if hint.owner and hint.amortised > 0]
    if not owned:
        return []
    owners = []
    for hint in owned[:_MOST]:
        things = hint.things[0] if hint.things else "no resource named"
        if len(hint.things) > 1:
            things += f" and {len(hint.things) - 1:,} more"
        owners.append(f"{amount_of(hint.amortised, tally)} {hint.owner} ({hint.by}: {things})")
    if len(owned) > _MOST:
        owners.append(f"and {len(owned) - _MOST} more")
    return [quiet(f"Who may own what carries no team, as a hint: {'; '.join(owners)}.")]


def unused_of(rows: Sequence[Spend], tally: Tally) -> str:
    """Write the cost of cores that the pods of rows held and did not use, "" for none known."""
    lost = sum((row.derived.unused for row in rows if row.derived), Decimal(0))
    return amount_of(lost, tally) if lost else ""


def is_derived(row: Spend, dimension: str) -> bool:
    """Tell whether a row's team is a derived one."""
    return dimension == "team" and bool(row.derived and row.derived.owners)


def derived_data(row: Spend) -> dict[str, Any]:
    """Return the derived part of a row, {} where all of it is on the bill."""
    if row.derived is None:
        return {}
    derived = row.derived
    owners = [{"team": team, "by": way} for team, way in derived.owners]
    return {
        "derived": {
            "amortised_usd": derived.amortised,
            "unused_usd": derived.unused,
            "idle_usd": derived.idle,
            "owners": owners,
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
