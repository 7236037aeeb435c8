"""How much of the fleet a reading tells: nothing that nobody reads is well."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from bot.model.fleet import Volume
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.notification import Coverage, Known, State
from bot.model.reading import Gap, Reading, bill_coverage, coverage_of, detached_since
from tests.builders import NOON, reading

HOUR = timedelta(hours=1)
DENIED = Gap("AWS cloudwatch:GetMetricData in us-west-2 is denied.")


def silenced(nodes):
    """Return a reading in which the first nodes of four sent nothing within the last hour."""
    read = reading()
    frame = read.frames["node"]
    values = frame.values.copy()
    values[:nodes] = np.nan
    return replace(read, frames={"node": replace(frame, values=values)})


def billed(age):
    """Return a reading whose bill is so old."""
    day, midnight = timedelta(days=1), NOON.replace(hour=0)
    values = np.ones((1, 45, 1), np.float32)
    values[:, 45 - age // day :] = np.nan  # a frame reaches up to now, whatever is billed
    metrics = ("spend_amortised_usd",)
    spend = Frame("spend", (Labels(),), midnight - 45 * day, day, metrics, values)
    return replace(reading(), frames={**reading().frames, "spend": spend})


@pytest.mark.parametrize(
    ("read", "known", "because"),
    [
        (reading(), Known.WHOLE, ""),
        (Reading(NOON), Known.WHOLE, ""),
        (Reading(NOON, gaps=(DENIED,)), Known.UNKNOWN, "is denied"),
        (reading(gaps=(DENIED,)), Known.UNKNOWN, "4 of 4 nodes sent no metrics"),
        (replace(reading(), gaps=(DENIED,)), Known.PARTLY, "is denied"),
        (silenced(1), Known.PARTLY, "1 of 4 nodes sent no metrics"),
        (silenced(4), Known.UNKNOWN, "4 of 4 nodes sent no metrics"),
        (billed(timedelta(days=1)), Known.WHOLE, ""),
        (billed(timedelta(days=7)), Known.PARTLY, "The bill ends 7 days ago"),
        (replace(reading(), learning="A half is read."), Known.PARTLY, "A half is read."),
    ],
    ids=[
        "all is read",
        "nothing runs",
        "no credentials",
        "metrics denied",
        "one permission denied",
        "a node is silent",
        "all are silent",
        "a bill of yesterday",
        "a bill a week old",
        "history is being read",
    ],
)
def test_what_is_not_read_is_not_known(read, known, because):
    seen = coverage_of(read)
    assert seen.known is known
    assert because in seen.because
    assert bool(seen.because) == (known is not Known.WHOLE)


def test_a_node_that_was_just_launched_owes_no_metrics_yet():
    read = silenced(1)
    name, node = next(iter(read.inventory.instances.items()))
    young = replace(node, launched_at=NOON - timedelta(minutes=20))
    instances = {**read.inventory.instances, name: young}
    read = replace(read, inventory=replace(read.inventory, instances=instances))
    assert coverage_of(read) == Coverage()


def test_nodes_of_a_type_that_never_reports_are_named_by_it():
    read = silenced(1)
    name, node = next(iter(read.inventory.instances.items()))
    apart = replace(node, labels=replace(node.labels, instance_type="trn2.48xlarge"))
    instances = {**read.inventory.instances, name: apart}
    typed = replace(read, inventory=replace(read.inventory, instances=instances))
    assert [coverage_of(x).because for x in (typed, read)] == [
        "1 of 4 nodes sent no metrics lately: all of trn2.48xlarge.",
        "1 of 4 nodes sent no metrics lately.",
    ]


def test_of_many_troubles_the_first_two_are_named_and_the_others_counted():
    troubles = tuple(Gap(f"{name} is denied.") for name in "abcd")
    because = coverage_of(replace(reading(), gaps=troubles)).because
    named = [f"{name} is denied" in because for name in "abcd"]
    assert (named, "2 more gaps" in because) == ([True, True, False, False], True)


def test_a_volume_is_detached_since_its_last_metric_and_one_never_measured_since_it_was_seen_so():
    day = timedelta(days=1)
    volume = Volume(Labels(resource="vol-1"), 500, "gp3", "available", NOON - 9 * day)
    values = np.full((1, 4, 1), np.nan, np.float32)
    values[0, :2] = 1.0
    frame = Frame("volume", (volume.labels,), NOON - 4 * HOUR, HOUR, ("ebs_read_bytes",), values)
    assert detached_since(volume, frame) == NOON - 2 * HOUR
    assert detached_since(replace(volume, attached_to="i-1"), frame) is None
    assert detached_since(replace(volume, state="in-use"), frame) is None
    seen = replace(volume, detached_at=NOON - 10 * day)
    assert detached_since(seen, None) == NOON - 9 * day
    assert detached_since(replace(seen, detached_at=NOON - day), None) == NOON - day


def test_an_hour_is_given_to_a_node_and_three_days_to_a_bill():
    read, second = silenced(1), timedelta(seconds=1)
    name, node = next(iter(read.inventory.instances.items()))

    def seen(**parts):
        instances = {**read.inventory.instances, name: replace(node, **parts)}
        return coverage_of(replace(read, inventory=replace(read.inventory, instances=instances)))

    assert seen(launched_at=NOON - HOUR) == Coverage()
    assert seen(launched_at=NOON - HOUR - second).known is Known.PARTLY
    assert seen(state="stopped") == Coverage()

    through = NOON - timedelta(days=3)
    assert bill_coverage(through, NOON) == Coverage()
    assert bill_coverage(through - second, NOON).known is Known.PARTLY
    assert bill_coverage(through - second, NOON, NOON - second) == Coverage()


@pytest.mark.parametrize(
    ("state", "known"),
    [
        (State(), Known.UNKNOWN),
        (State(ticked_at=NOON - 2 * HOUR, seen=Coverage()), Known.UNKNOWN),
        (State(ticked_at=NOON, seen=Coverage()), Known.WHOLE),
        (State(ticked_at=NOON, seen=Coverage(Known.PARTLY, "A gap.")), Known.PARTLY),
    ],
    ids=["never looked", "stopped", "looks", "reads a part"],
)
def test_what_the_watch_does_not_look_at_is_not_known(state, known):
    assert state.coverage(NOON).known is known
