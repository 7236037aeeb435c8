"""Choose the channels of an alert by its labels; told apart from who hears everything."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from bot.model.alert import Alert
from bot.model.causes import Severity
from bot.model.notification import NotificationLogEntry
from bot.model.policy import Policy
from bot.model.route import Route, Routes, distinct


def route(alert: Alert, routes: Routes) -> tuple[str, ...]:
    """Return the channels that the alert is for, each once.

    Every route that fits adds its channels, and so does the owner's. The default hears what no
    route of the settings and no channel of an owner takes, and what has no owner; the second
    audience hears what is bought or kept for nothing too, not what runs badly.
    """
    fitting = [one for one in routes.routes if fits(one, alert)]
    owners = routes.mapping.channels.get(alert.owner.lower(), ())
    taken = bool(owners) or (
        any(not one.by for one in fitting) and bool(routes.owner_among(alert.owners))
    )
    channels = [
        *(() if taken else routes.default),
        *(channel for one in fitting for channel in one.to),
        *owners,
    ]
    return distinct([*channels, *routes.finops_of(alert.cause)])


def fits(one: Route, alert: Alert) -> bool:
    """Tell whether the alert has everything that the route asks for."""
    labels = alert.anomaly.scope.merge(alert.anomaly.labels)
    return (
        one.selector.selects(labels)
        and one.cause in {"", alert.cause.value}
        and one.severity in {"", alert.severity.value}
    )


def audience(alert: Alert, routes: Routes, policy: Policy, now: datetime) -> tuple[str, ...]:
    """Return the channels of the alert at `now`.

    Those of a second route too, once it stood unacknowledged for too long.
    """
    late = now - alert.opened >= policy.duration("alert.escalate_after")
    urgent = alert.firing and alert.severity is Severity.CRITICAL and alert.acknowledged is None
    return distinct([*route(alert, routes), *(routes.escalate if urgent and late else ())])


def listeners(
    entries: Sequence[NotificationLogEntry],
    channels: Sequence[str],
    audiences: Sequence[tuple[str, ...]],
) -> tuple[str, ...]:
    """Return every channel to consider.

    Those of every alert, those of some alert now, and those that hold a message already.
    """
    notified = (entry.channel for entry in entries if entry.message)
    return tuple(
        dict.fromkeys([*channels, *(channel for some in audiences for channel in some), *notified])
    )
