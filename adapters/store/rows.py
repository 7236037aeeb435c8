"""Turn nouns into rows and rows into nouns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from adapters.store.derive import labels_of
from bot.model.alert import Alert, Decision, Doing, Said, Silence
from bot.model.codec import encode

Row = dict[str, Any]


def alert_row(alert: Alert) -> Row:
    """Return an alert's row; who acknowledged it stays out, so that a tick never overwrites a decision."""
    labels, waste = labels_of(alert), alert.waste
    return {
        "id": alert.id,
        "key": alert.key,
        "rule": alert.anomaly.rule,
        "cause": alert.cause.value,
        "severity": alert.severity.value,
        "cluster": labels.cluster,
        "team": labels.team,
        "opened": alert.opened,
        "seen": alert.seen,
        "closed": alert.closed,
        "muted_by": alert.muted_by,
        "usd_per_hour": waste and waste.per_hour,
        "usd_so_far": waste and waste.so_far,
        "body": encode(replace(alert, acknowledged=None)),
    }


def said_row(said: Said) -> Row:
    """Return the row of what a channel was told."""
    row = {"id": said.id, "channel": said.channel, "reason": said.reason.value, "at": said.at}
    return row | {"message": said.message, "over": int(said.over), "body": encode(said)}


def silence_row(silence: Silence) -> Row:
    """Return a silence's row."""
    row = {"id": silence.id, "by": silence.by, "starts": silence.starts, "ends": silence.ends}
    return row | {"ended_at": silence.ended_at, "body": encode(silence)}


def decision_row(decision: Decision) -> Row:
    """Return a decision's row."""
    row = {"id": decision.id, "alert": decision.alert, "doing": decision.doing.value, "by": decision.by}
    return row | {"by_name": decision.by_name, "at": decision.at, "note": decision.note}


def decision_of(row: Mapping[str, Any]) -> Decision:
    """Return the decision of a row."""
    found = {name: row[name] for name in ("id", "alert", "by", "by_name", "at", "note")}
    return Decision(doing=Doing(row["doing"]), **found)
