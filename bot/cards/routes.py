"""Show who hears what."""

from __future__ import annotations

from collections.abc import Sequence

from bot.cards.card import Block, Button, Buttons, Card, Column, Table, Tone, quiet, text
from bot.model.route import Route, Routes

_COLUMNS = (Column("alerts"), Column("go to"), Column("because"))
_MOST = 20


def routes_card(routes: Routes, always: Sequence[str]) -> Card:
    """List every route in the order in which a person asks: mine, the rest, and the second ones."""
    rows = [(str(one), ", ".join(one.to), f"{one.by} subscribed" if one.by else "settings") for one in routes.routes]
    beside = (
        ("what no route takes, or nobody owns", routes.default, "TRNBOT_ROUTE"),
        ("causes of money too", routes.finops, "TRNBOT_FINOPS"),
        ("critical, not acknowledged in time", routes.escalate, "TRNBOT_ESCALATE"),
        ("every alert", always, "the console"),
    )
    shown = [*rows[:_MOST], *((what, ", ".join(to), why) for what, to, why in beside if to)]
    rest = f"and {len(rows) - _MOST} more routes" if len(rows) > _MOST else ""
    owners = [quiet("Owners with an address: ", ", ".join(sorted(routes.owners)))] if routes.owners else []
    hint = quiet("A channel subscribes from within it: subscribe cluster=llama. Try one: routes test cluster=llama cause=idle")
    blocks: tuple[Block, ...] = (Table(_COLUMNS, tuple(shown), rest=rest), *owners, hint)
    data = {
        "routes": [{"alerts": str(one), "to": list(one.to), "by": one.by} for one in routes.routes],
        "default": list(routes.default),
        "finops": list(routes.finops),
        "escalate": list(routes.escalate),
        "always": list(always),
    }
    return Card("Who hears which alerts", Tone.INFO, blocks, data)


def tried_card(asked: str, heard: Sequence[str], escalated: Sequence[str], owner: tuple[str, str], *, money: bool) -> Card:
    """Tell where an alert would go."""
    name, address = owner
    who = f"{name} is {address} and is mentioned." if address else f"'{name}' is nobody known, so nobody is mentioned."
    blocks = [text("It goes to ", ", ".join(heard), ".")]
    blocks += [text(f"Unacknowledged for too long, also to {', '.join(escalated)}.")] if escalated else []
    blocks += [text(who if name else "Without an owner the default channel hears it too; try one with owner=NAME.")]
    blocks += [quiet("It is a cause of money.")] if money else []
    data = {"alerts": asked, "to": list(heard), "escalate": list(escalated), "owner": address}
    return Card(f"Where it would go: {asked}", Tone.INFO, (*blocks, Buttons((Button("All routes", "routes"),))), data)


def subscribed_card(channel: str, routes: Sequence[Route]) -> Card:
    """Confirm what a channel hears from the next look at the fleet on."""
    words = "; ".join(map(str, routes))
    title = f"This channel hears {words}" if routes else "This channel is subscribed to nothing"
    told = "From the next look at the fleet on. " if routes else "What it was told of is still told to its end. "
    return Card(title, Tone.GOOD, (quiet(told, channel),), {"channel": channel, "routes": [str(one) for one in routes]})
