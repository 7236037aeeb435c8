"""Grade alerts against the labelled incidents of a recording; never used while detecting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from bot.model.alert import Alert
from bot.model.causes import About, Cause
from bot.model.labels import NAMES, Labels
from bot.model.notification import Notification, Reason
from bot.model.window import Window

EARLY = timedelta(minutes=30)
LATE = timedelta(minutes=30)
"""How far outside an incident an alert may open and still be about it."""


@dataclass(frozen=True)
class LabelledIncident:
    """State one thing that happened; `things` may be empty."""

    cause: Cause
    labels: Labels
    window: Window
    things: frozenset[str]


def read_truth(truth: Sequence[Mapping[str, Any]]) -> list[LabelledIncident]:
    """Read rows of `{"cause","labels","start","end"}`.

    More keys are allowed, states that no alert should tell are left out.
    """
    return [
        LabelledIncident(
            Cause(row["cause"]),
            Labels(**{k: v for k, v in row.get("labels", {}).items() if k in NAMES}),
            Window(datetime.fromisoformat(row["start"]), datetime.fromisoformat(row["end"])),
            frozenset(row.get("things") or ()),
        )
        for row in truth
        if not row.get("state_only") and not Cause(row["cause"]).facts.is_state
    ]


def grade(
    alerts: Sequence[Alert],
    truth: Sequence[Mapping[str, Any]],
    notices: Sequence[Notification] = (),
    window: Window | None = None,
    clusters: int = 0,
) -> dict[str, Any]:
    """Return recall, precision, right causes, median delay in minutes, false alerts and messages.

    `cause_top1` judges the first alert about an incident, `cause_any` all of them. An alert is
    about an incident when kind, place, things and time fit, whatever its cause; muted alerts do not
    count. `false_alerts_per_cluster_week` needs the span and the number of clusters: taken from
    what is given where not said.
    """
    incidents = read_truth(truth)
    unmuted = [a for a in alerts if not a.muted_by]
    about = {
        i: [
            a
            for a in unmuted
            if x.window.start - EARLY <= a.opened <= _until(a, x) and _place(a, x)
        ]
        for i, x in enumerate(incidents)
    }
    detected = {
        i: min(matching, key=lambda a: (a.opened, a.key))
        for i, matching in about.items()
        if matching
    }
    false = [a for a in unmuted if not any(_touches(a, incident) for incident in incidents)]
    right = [i for i in about if any(a.cause is incidents[i].cause for a in about[i])]
    delays = [_delay(detected[i], incidents[i]) for i in detected]
    firsts = sum(notice.reason is Reason.FIRST for notice in notices)
    return {
        "incidents": len(incidents),
        "alerts": len(unmuted),
        "recall": _share(len(detected), len(incidents)),
        "precision": _share(len(unmuted) - len(false), len(unmuted)),
        "cause_top1": _share(
            sum(detected[i].cause is incidents[i].cause for i in detected), len(detected)
        ),
        "cause_any": _share(len(right), len(incidents)),
        "median_delay_minutes": round(median(delays), 1) if delays else None,
        "false_alerts": len(false),
        "false_alerts_per_cluster_week": _weekly(len(false), unmuted, incidents, window, clusters),
        "messages_per_incident": _share(firsts, len(incidents)),
        "notices_per_incident": _share(len(notices), len(incidents)),
        "by_cause": _by_cause(incidents, detected, right),
        "false": [
            {"key": a.key, "opened_at": a.opened.isoformat(), "cause": a.cause.value} for a in false
        ],
    }


def _kind(cause: Cause) -> About:
    """Return the kind of thing that alert and incident must share; a run is known by its nodes."""
    return About.NODES if cause.facts.about is About.RUN else cause.facts.about


def _place(alert: Alert, incident: LabelledIncident) -> bool:
    """Return whether no label contradicts, and things overlap where both name any.

    A bill's lines have many names.
    """
    if _kind(alert.cause) != _kind(incident.cause):
        return False
    place = alert.anomaly.labels.merge(alert.anomaly.scope)
    if any(
        value and place.get(name) not in ("", value)
        for name, value in incident.labels
        if name not in ("instance", "job")
    ):
        return False
    return (
        _kind(alert.cause) is About.MONEY
        or not incident.things
        or not alert.anomaly.things
        or bool(incident.things & set(alert.anomaly.things))
    )


def _touches(alert: Alert, incident: LabelledIncident) -> bool:
    cluster = alert.anomaly.scope.cluster
    same_cluster = bool(cluster) and cluster == incident.labels.cluster
    same_kind = _kind(alert.cause) == _kind(incident.cause)
    if not (_place(alert, incident) or (same_cluster and same_kind)):
        return False
    ends = alert.closed or incident.window.end
    return alert.opened <= _until(alert, incident) and ends >= incident.window.start


def _until(alert: Alert, incident: LabelledIncident) -> datetime:
    """Return until when an alert may open and still be about an incident."""
    return incident.window.end + (LATE if _kind(alert.cause) is About.NODES else timedelta(days=3))


def _weekly(
    false: int,
    unmuted: Sequence[Alert],
    incidents: Sequence[LabelledIncident],
    window: Window | None,
    clusters: int,
) -> float | None:
    times = [a.opened for a in unmuted] + [
        t for i in incidents for t in (i.window.start, i.window.end)
    ]
    if window is None and len(set(times)) > 1:
        window = Window(min(times), max(times))
    names = {i.labels.cluster for i in incidents} | {a.anomaly.labels.cluster for a in unmuted}
    clusters = clusters or len(names - {""})
    if window is None or not clusters:
        return None
    return round(false / (clusters * (window.length / timedelta(weeks=1))), 3)


def _by_cause(
    incidents: Sequence[LabelledIncident], detected: Mapping[int, Alert], right: Sequence[int]
) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for i, incident in enumerate(incidents):
        row = rows.setdefault(
            incident.cause.value,
            {"incidents": 0, "found": 0, "cause_right": 0, "delays_minutes": []},
        )
        row["incidents"] += 1
        row["found"] += i in detected
        row["cause_right"] += i in right
        row["delays_minutes"] += [_delay(detected[i], incident)] if i in detected else []
    return rows


def _delay(alert: Alert, incident: LabelledIncident) -> float:
    return round(max(timedelta(0), alert.opened - incident.window.start) / timedelta(minutes=1), 1)


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
