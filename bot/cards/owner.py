"""Say whose an alert is, and who hears it."""

from __future__ import annotations

from bot.cards.card import Mention
from bot.model.alert import Alert


def owner_words(alert: Alert, resolved: str) -> str:
    """Say whose it is: who is pinged stands beside the title, and here how they were found, where no tag says it."""
    if resolved:
        return "" if resolved == alert.owner else f" · owner by {resolved.replace(':', ' ')}"
    named = [f"owner {alert.owner}"] if alert.owner else ["no owner tag"]
    named += [claim.replace(":", " ") for claim in alert.claims]
    # A person or a role stands among the claims already; a machine is nobody to ask, but says where to look.
    by_machine = alert.launched_by and not any(claim.startswith("launcher:") for claim in alert.claims)
    named += [f"launched by {alert.launched_by}"] if by_machine else []
    unknown = ", not in the settings" if alert.owners else ""
    return f" · {', '.join(named)}{unknown}: told to the default channel"


def mentions(name: str, address: str) -> tuple[Mention, ...]:
    """Ping who was found, nobody without an address."""
    return (Mention(address, name.rpartition(":")[2]),) if address else ()
