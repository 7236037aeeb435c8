from dataclasses import replace
from datetime import timedelta

import pytest
from builder import hours

from bot.model.alert import Alert
from bot.model.anomaly import Anomaly
from bot.model.causes import Cause
from bot.model.labels import Labels
from bot.model.window import Window
from detectors.grade import grade


def alert(cause="starved", start=30.1, end=33, things=("i-1",), cluster="llama", muted=""):
    scope = Labels(cluster=cluster)
    anomaly = Anomaly(
        cause,
        Cause(cause),
        scope,
        scope,
        things,
        Window(hours(start), hours(start)),
        0.9,
        0.2,
        "ratio",
    )
    closed = None if end is None else hours(end)
    return Alert(f"{cause}@{start}", anomaly, hours(start), hours(start), closed, muted_by=muted)


def happened(cause="starved", start=30, end=33, things=("i-1", "i-2"), **more):
    row = {
        "cause": cause,
        "labels": {"cluster": "llama"},
        "start": hours(start).isoformat(),
        "end": hours(end).isoformat(),
    }
    return row | {"things": list(things)} | more


def test_what_was_found_in_time_with_its_name_is_whole():
    found = grade([alert()], [happened()])
    assert (found["recall"], found["precision"], found["cause_top1"]) == (1, 1, 1)
    assert found["median_delay_minutes"] == 6


@pytest.mark.parametrize(
    ("told", "recall", "precision", "top1"),
    [
        ([], 0, None, None),
        ([alert("network_bound")], 1, 1, 0),  # found, under another name
        ([alert(cluster="vision")], 0, 0, None),
        ([alert(things=("i-9",), start=10, end=12)], 0, 0, None),
        ([alert(things=("i-9",))], 0, 1, None),  # it went on at that time, on other nodes
        ([alert(start=10, end=12)], 0, 0, None),
        ([alert(start=10, end=30.5)], 0, 1, None),
        ([alert(), alert(start=40, end=41)], 1, 0.5, 1),
        ([alert(), alert(start=40, end=41, muted="silence:s1")], 1, 1, 1),
        ([alert("spend_jump")], 0, 0, None),  # money and nodes are different kinds
    ],
)
def test_grades(told, recall, precision, top1):
    found = grade(told, [happened()])
    assert (found["recall"], found["precision"], found["cause_top1"]) == (recall, precision, top1)


def test_one_label_that_differs_is_another_place():
    elsewhere = happened(labels={"region": "us-west-2", "cluster": "vision"})
    assert grade([alert()], [elsewhere])["recall"] == 0


def test_another_name_of_the_job_or_a_label_that_is_none_is_no_other_place():
    told, named = alert(), happened(labels={"cluster": "llama", "job": "sft", "rack": "r7"})
    told = replace(told, anomaly=replace(told.anomaly, labels=Labels(job="of i-1")))
    assert grade([told], [named])["recall"] == 1


def test_a_state_needs_no_alert():
    assert (
        grade([], [happened("compiling"), happened("starved", state_only=True)])["incidents"] == 0
    )


def test_false_alerts_are_counted_per_cluster_and_week():
    two_weeks = Window(hours(0), hours(0) + timedelta(weeks=2))
    assert (
        grade([alert(start=40, end=41)], [], window=two_weeks, clusters=5)[
            "false_alerts_per_cluster_week"
        ]
        == 0.1
    )
    assert grade([], [])["false_alerts_per_cluster_week"] is None


def test_a_grade_states_each_cause_and_each_false_alert():
    truth = [
        happened(),
        happened("hung", start=50, end=52, things=(), labels={"cluster": "llama", "job": "a"}),
        happened("spend_jump", start=24, end=48, labels={"service": "AmazonS3"}),
        happened("checkpoint_at_risk", start=60, end=61),
    ]
    alerts = [
        alert("network_bound", start=30.25),
        alert(start=31, end=None),
        alert("spend_jump", start=70, cluster=""),
        alert("idle", start=90, end=91, cluster="vision"),
        alert("hung", start=90, end=91),
    ]
    found = grade(alerts, truth)
    assert found.pop("by_cause") == {
        "starved": {"incidents": 1, "found": 1, "cause_right": 1, "delays_minutes": [15.0]},
        "hung": {"incidents": 1, "found": 0, "cause_right": 0, "delays_minutes": []},
        "spend_jump": {"incidents": 1, "found": 1, "cause_right": 1, "delays_minutes": [2760.0]},
        "checkpoint_at_risk": {
            "incidents": 1,
            "found": 0,
            "cause_right": 0,
            "delays_minutes": [],
        },
    }
    assert [row["key"] for row in found.pop("false")] == [
        "idle/cluster=vision",
        "hung/cluster=llama",
    ]
    assert found == {
        "incidents": 4,
        "alerts": 5,
        "recall": 0.5,
        "precision": 0.6,
        "cause_top1": 0.5,
        "cause_any": 0.5,
        "median_delay_minutes": 1387.5,
        "false_alerts": 2,
        "false_alerts_per_cluster_week": 2.545,
        "messages_per_incident": 0.0,
        "notices_per_incident": 0.0,
    }
