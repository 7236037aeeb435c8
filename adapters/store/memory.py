"""Keep state in dicts, for a backtest: the same port, nothing written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from bot.errors import WrongInput
from bot.model.alert import Alert, Decision, DecisionKind, Silence
from bot.model.labels import Labels
from bot.model.notification import Coverage, Line, NotificationLogEntry, State, StateUpdate
from bot.model.policy import Attempt, Version
from bot.model.window import Window


def with_decisions(alert: Alert, decisions: Sequence[Decision]) -> Alert:
    """Return the alert as people's decisions about it leave it; `decisions` oldest first.

    The first acknowledgement since one was taken back stands, and the newest assignment.
    """
    if not decisions and alert.acknowledged is None and alert.assignment is None:
        return alert
    standing = assignment = None
    for decision in decisions:
        match decision.doing:
            case DecisionKind.ACKNOWLEDGE:
                standing = standing or decision
            case DecisionKind.UNACKNOWLEDGE:
                standing = None
            case DecisionKind.ASSIGN | DecisionKind.UNASSIGN:
                assignment = decision
    return replace(alert, acknowledged=standing, assignment=assignment)


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


KEEP_CLOSED = timedelta(days=15)
KEEP_SAID = timedelta(days=1)
KEEP_OVER = timedelta(days=5)
"""How long the watch knows a message of what is over: so late the bill may correct its dollars."""
KEEP_SLEPT = timedelta(days=1)


class MemoryStore:
    """Implement `AlertStore`, `Outbox`, `Versions`, `DocumentStore` and `IdempotencyKeys`."""

    def __init__(self) -> None:
        self._open: dict[str, Alert] = {}
        self._closed: dict[str, Alert] = {}
        self._log: dict[tuple[str, str], NotificationLogEntry] = {}
        self._lines: dict[str, Line] = {}
        self._silences: dict[str, Silence] = {}
        self._decisions: dict[str, dict[str, Decision]] = {}
        self._ticked_at: datetime | None = None
        self._seen: Coverage | None = None
        self._versions: list[Version] = []
        self._attempts: list[Attempt] = []
        self._shelves: dict[str, dict[str, Mapping[str, Any]]] = {}

    def load(self, now: datetime) -> State:
        """Return the watch's state at `now`."""
        recent = [
            alert
            for alert in self._closed.values()
            if alert.closed is None or alert.closed > now - KEEP_CLOSED
        ]
        standing = [silence for silence in self._silences.values() if silence.ended_at is None]
        return State(
            alerts=self._ordered([*self._open.values(), *recent]),
            notification_log=tuple(
                e for e in self._log.values() if e.pending or not e.over or e.at > now - KEEP_OVER
            ),
            silences=tuple(silence for silence in standing if silence.ends > now),
            slept=tuple(silence for silence in standing if now - KEEP_SLEPT < silence.ends <= now),
            ticked_at=self._ticked_at,
            seen=self._seen,
            lines=tuple(
                line for line in self._lines.values() if not line.sent and line.at > now - KEEP_SAID
            ),
        )

    def save(self, changes: StateUpdate) -> None:
        """Write all of the changes or none of them."""
        # Read them all first: what fails on the way fails before the first is written.
        alerts, entries = tuple(changes.alerts), tuple(changes.notification_log)
        silences, decisions = tuple(changes.silences), tuple(changes.decisions)
        lines, receipts = tuple(changes.lines), tuple(changes.receipts)

        for alert in alerts:
            self._open.pop(alert.id, None)
            self._closed.pop(alert.id, None)
            (self._open if alert.firing else self._closed)[alert.id] = alert
        for entry in entries:
            # An entry that names no message keeps the one it had.
            before = self._log.get((entry.id, entry.channel))
            self._log[entry.id, entry.channel] = replace(
                entry, message=entry.message or (before.message if before else "")
            )
        for receipt in receipts:
            # A newer version than the one that was shown is still to be sent.
            if posted := self._log.get((receipt.id, receipt.channel)):
                self._log[receipt.id, receipt.channel] = replace(
                    posted,
                    message=receipt.message,
                    pending=posted.pending and posted.version != receipt.version,
                )
        for line in lines:
            if line.sent or line.id not in self._lines:
                self._lines[line.id] = line
        self._silences.update((silence.id, silence) for silence in silences)
        for decision in decisions:
            # A decision is only ever added: the first under an id stays.
            self._decisions.setdefault(decision.alert, {}).setdefault(decision.id, decision)
        if changes.ticked_at:
            self._ticked_at, self._seen = changes.ticked_at, changes.seen

    def owed(
        self, notification: str, channel: str
    ) -> tuple[NotificationLogEntry | None, Sequence[Line]]:
        """Return a message's newest entry, and the lines of its thread that are not said yet."""
        unsent = [
            line
            for line in self._lines.values()
            if (line.notification, line.channel) == (notification, channel) and not line.sent
        ]
        return self._log.get((notification, channel)), unsent

    def hold(self, name: str) -> int:
        """Let this process send, for nobody else sees this state."""
        return int(bool(name))

    def holds(self, name: str, token: int) -> bool:
        """Return whether the token is one that was given."""
        return bool(name) and token == 1

    def release(self, name: str, token: int) -> None:
        """Do nothing."""

    def history(self, window: Window, selector: Labels) -> Sequence[Alert]:
        """Return the alerts open some time in the window that the labels select, newest first."""
        return self._ordered(
            [
                alert
                for alert in (*self._open.values(), *self._closed.values())
                if open_within(alert, window) and selector.selects(labels_of(alert))
            ]
        )[::-1]

    def decisions(self, *alerts: str) -> Sequence[Decision]:
        """Return people's decisions about these alert ids, oldest first."""
        return sorted(
            (decision for alert in alerts for decision in self._decisions.get(alert, {}).values()),
            key=lambda decision: decision.at,
        )

    def versions(self, most: int) -> Sequence[Version]:
        """Return up to `most` versions of the policy, the newest first."""
        return self._versions[::-1][:most]

    def add(self, version: Version) -> None:
        """Write one version; raise `WrongInput` when its number is taken."""
        if any(earlier.number == version.number for earlier in self._versions):
            raise WrongInput(
                "Somebody changed the policy in the same moment; nothing of yours was applied. "
                "Preview it again."
            )
        self._versions.append(version)

    def attempts(self, most: int) -> Sequence[Attempt]:
        """Return up to `most` attempts to change the policy, the newest first."""
        return self._attempts[::-1][:most]

    def note(self, attempt: Attempt) -> None:
        """Write one attempt."""
        self._attempts.append(attempt)

    def put(self, shelf: str, key: str, document: Mapping[str, Any]) -> None:
        """Write one document over the one before."""
        self.drop(shelf, key)
        self._shelves.setdefault(shelf, {})[key] = document

    def get(self, shelf: str, key: str) -> Mapping[str, Any] | None:
        """Return one document, or None."""
        return self._shelves.get(shelf, {}).get(key)

    def newest(self, shelf: str, most: int) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Return up to `most` (key, document), the last written first."""
        return list(reversed(self._shelves.get(shelf, {}).items()))[:most]

    def drop(self, shelf: str, key: str) -> None:
        """Forget one document."""
        self._shelves.get(shelf, {}).pop(key, None)

    def first(self, shelf: str, key: str) -> bool:
        """Return whether the key came for the first time, and keep it."""
        document: dict[str, Any] = {}
        return self._shelves.setdefault(shelf, {}).setdefault(key, document) is document

    def close(self) -> None:
        """Do nothing."""

    def _ordered(self, alerts: list[Alert]) -> tuple[Alert, ...]:
        alerts.sort(key=lambda alert: (alert.opened, alert.id))
        return tuple(
            with_decisions(alert, self.decisions(alert.id) if alert.id in self._decisions else ())
            for alert in alerts
        )
