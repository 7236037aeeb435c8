"""Read CloudTrail's answers once for both questions.

Who launched what, and which launches were refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from adapters.aws.api.responses import Pages, ResponseInfo, members
from adapters.aws.inventory.ownership import launchers
from adapters.aws.inventory.refusals import refusals_in
from bot.model.fleet import Launcher, Refusal

SERVICE, OPERATION = "cloudtrail", "lookup_events"
REFUSALS = "refusals"
"""The argument of the answer that holds the refused launches of a place."""
SPACING_SECONDS = 0.5
"""LookupEvents takes two calls a second of an account and region (CloudTrail User Guide, quotas, 2026-11)."""


@dataclass(frozen=True)
class Trail:
    """Hold what one answer of LookupEvents says."""

    launchers: Mapping[str, Launcher]
    refusals: tuple[Refusal, ...] | None
    """None where the answer is about one resource: nobody asked for refusals."""


def trail(pages: Pages, answer: ResponseInfo) -> Trail:
    """Translate LookupEvents."""
    asked = answer.argument == REFUSALS
    refused = tuple(x for event in members(pages, "Events") for x in refusals_in(event, answer))
    return Trail({} if asked else launchers(pages, answer), refused if refused or asked else None)


def refusals_of(every: Iterable[Trail]) -> tuple[Refusal, ...] | None:
    """Return the refusals that answers name, each once, the oldest first.

    None where nobody ever asked.
    """
    told = [one.refusals for one in every if one.refusals is not None]
    by_id = {refusal.id: refusal for refusals in told for refusal in refusals}
    return tuple(sorted(by_id.values(), key=lambda x: (x.at, x.id))) if told else None
