"""Grade `trnbot backtest RECORDING --json` against the recording's labels.

    python -m tests.worlds.grade RECORDING BACKTEST.json

An alert is **right** where place, time and cause of a label fit, **wrong** where only the cause does
not, else **false**. Place: labels that both name are equal, and where both name instances they share
one. Time: it opened from half an hour before the incident until half an hour after its end, for
money 36 hours, as bills come late. Cause: the label's, one of its `also`, or any drop for a drop.
Muted alerts count where a first message went out for them alone.
"""

from __future__ import annotations

import json
import statistics
import sys
from datetime import datetime, timedelta
from pathlib import Path

DROPS = {"starved", "network_bound", "collective_path", "straggler"}
MONEY = {"unused_capacity", "orphaned_storage", "transfer_route", "spend_jump", "spend_new"}
MONEY |= {"budget_burn", "commitment_unused"}
PLACES = ("account", "region", "zone", "cluster", "namespace", "job", "instance_type", "service")
SLACK, BILLED_WITHIN = timedelta(minutes=30), timedelta(hours=36)


def fits(alert: dict, label: dict) -> bool:
    """Return whether an alert's cause is one that may be given for a label."""
    cause, truth = alert["cause"], label["cause"]
    return cause == truth or cause in label.get("also", ()) or {cause, truth} <= DROPS


def is_about(alert: dict, label: dict) -> bool:
    """Return whether an alert speaks of a label's place and time."""
    told, truth = alert["labels"], label["labels"]
    if (alert["cause"] in MONEY) != (label["cause"] in MONEY):
        return False
    if any(told.get(k) and truth.get(k) and told[k] != truth[k] for k in PLACES):
        return False
    things = {*alert.get("things", ()), told.get("instance")} - {None, ""}
    if things and label["instances"] and not things & set(label["instances"]):
        return False

    opened, start, end = (
        datetime.fromisoformat(text) for text in (alert["opened_at"], label["start"], label["end"])
    )
    after = BILLED_WITHIN if label["cause"] in MONEY else SLACK
    return start - SLACK <= opened <= end + after


def told_alerts(replay: dict) -> list[dict]:
    """Return the alerts that somebody heard of."""
    alone = {
        n["alerts"][0]
        for n in replay["notices"]
        if n["reason"] == "FIRST" and len(n["alerts"]) == 1
    }
    return [x for x in replay["alerts"] if not x["muted_by"] or x["key"] in alone]


def median(numbers: list[float]) -> float | None:
    """Return the median to three digits, None of nothing."""
    return round(statistics.median(numbers), 3) if numbers else None


def grade(labels: list[dict], replay: dict, clusters: int) -> dict:
    """Return the figures, and the alerts and labels behind what is not right."""
    verdicts: dict[str, list[dict]] = {"right": [], "wrong": [], "false": []}
    right_of: dict[int, list[dict]] = {number: [] for number in range(len(labels))}
    for alert in told_alerts(replay):
        near = [n for n, label in enumerate(labels) if is_about(alert, label)]
        fitting = [n for n in near if fits(alert, labels[n])]
        for number in fitting:
            right_of[number].append(alert)
        verdicts["right" if fitting else "wrong" if near else "false"].append(alert)

    found = {n: alerts for n, alerts in right_of.items() if alerts}
    named = [n for n, alerts in found.items() if first(alerts)["cause"] == labels[n]["cause"]]
    delays, ratios = [], []
    for number, alerts in found.items():
        label = labels[number]
        late = datetime.fromisoformat(first(alerts)["opened_at"]) - datetime.fromisoformat(
            label["start"]
        )
        delays.append(late.total_seconds() / 60 - label["grace_min"])
        given = max(
            (float(x["waste_usd"]["so_far"]) for x in alerts if x.get("waste_usd")), default=None
        )
        if given is not None and label["usd"]:
            ratios.append(given / label["usd"])

    span = datetime.fromisoformat(replay["end"]) - datetime.fromisoformat(replay["start"])
    weeks = max(span / timedelta(weeks=1), 1e-9)
    told = sum(map(len, verdicts.values()))
    unfounded = verdicts["wrong"] + verdicts["false"]
    return {
        "false_per_cluster_week": round(len(unfounded) / max(1, clusters) / weeks, 3),
        "precision": round(len(verdicts["right"]) / told, 3) if told else None,
        "recall": round(len(found) / len(labels), 3) if labels else None,
        "cause": round(len(named) / len(found), 3) if found else None,
        "dollars_ratio": median(ratios),
        "minutes_past_grace": median(delays),
        **{verdict: len(alerts) for verdict, alerts in verdicts.items()},
        "unfounded": [summary(x) for x in unfounded],
        "missed": [{k: x[k] for k in ("id", "cause", "variant", "labels", "start", "end")}
                   for n, x in enumerate(labels) if n not in found],
    }  # fmt: skip


def first(alerts: list[dict]) -> dict:
    """Return the alert that opened first."""
    return min(alerts, key=lambda alert: alert["opened_at"])


def summary(alert: dict) -> dict:
    """Return what a reader of the grade needs of an alert."""
    return {key: alert.get(key) for key in ("cause", "labels", "opened_at", "closed_at", "why")}


def clusters_of(recording: Path) -> int:
    """Return how many clusters report metrics."""
    return sum(1 for _ in (recording / "metrics").rglob("*.jsonl.gz"))


def graded(recording: Path, replayed: Path) -> dict:
    """Return the figures of a recording, by the file that says what a backtest told of it."""
    replay = json.loads(replayed.read_text())
    replay = replay.get("data", replay) if "alerts" not in replay else replay
    labels = json.loads((recording / "labels.json").read_text())
    return grade(labels, replay, clusters_of(recording))


def main() -> None:
    """Print the grade of a replay."""
    print(json.dumps(graded(*map(Path, sys.argv[1:])), indent=1))


if __name__ == "__main__":
    main()
