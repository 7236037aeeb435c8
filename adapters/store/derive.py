"""Derive from stored alerts who acknowledged them, which labels select them, and when they were open."""

from __future__ import annotations

from collections.abc import Iterable
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


def with_acknowledgement(alert: Alert, decision: Decision | None) -> Alert:
    """Return the alert with the decision that acknowledged it, or without."""
    return alert if alert.acknowledged == decision else replace(alert, acknowledged=decision)


def labels_of(alert: Alert) -> Labels:
    """Return the labels that select an alert: the scope of its key, and the labels that its things share."""
    return alert.anomaly.scope.merge(alert.anomaly.labels)


def open_within(alert: Alert, window: Window) -> bool:
    """Return whether the alert was open at some time in the window."""
    return alert.opened < window.end and (alert.closed is None or alert.closed > window.start or alert.opened in window)
