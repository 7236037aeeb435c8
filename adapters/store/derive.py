"""Derive from stored alerts who acknowledged them and has them, which labels select them, and when they were open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bot.model.alert import Alert, Decision, DecisionKind
from bot.model.labels import Labels
from bot.model.window import Window


def acknowledgement(decisions: Iterable[Decision]) -> Decision | None:
    """Return the first acknowledgement since the last one taken back; `decisions` oldest first."""
    standing = None
    for decision in decisions:
        if decision.doing is DecisionKind.ACKNOWLEDGE:
            standing = standing or decision
        elif decision.doing is DecisionKind.UNACKNOWLEDGE:
            standing = None
    return standing


def assignment(decisions: Iterable[Decision]) -> Decision | None:
    """Return the newest decision about who is to look into an alert; `decisions` oldest first."""
    about = (DecisionKind.ASSIGN, DecisionKind.UNASSIGN)
    return next((one for one in reversed([*decisions]) if one.doing in about), None)


def with_decisions(alert: Alert, decisions: Sequence[Decision]) -> Alert:
    """Return the alert as people's decisions about it leave it; `decisions` oldest first."""
    if not decisions and alert.acknowledged is None and alert.assignment is None:
        return alert
    return replace(alert, acknowledged=acknowledgement(decisions), assignment=assignment(decisions))


def undecided(alert: Alert) -> Alert:
    """Return the alert as the watch alone knows it."""
    return replace(alert, acknowledged=None, assignment=None)


def labels_of(alert: Alert) -> Labels:
    """Return the labels that select an alert.

    The scope of its key, and the labels that its things share.
    """
    return alert.anomaly.scope.merge(alert.anomaly.labels)


def open_within(alert: Alert, window: Window) -> bool:
    """Return whether the alert was open at some time in the window."""
    return alert.opened < window.end and (
        alert.closed is None or alert.closed > window.start or alert.opened in window
    )
