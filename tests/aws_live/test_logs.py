"""Compilers' lines of a log group set the state exactly; without the permission nothing breaks."""

from datetime import timedelta

import pytest

from adapters.aws.config import ReadingConfig
from adapters.aws.live.doctor import examine
from adapters.aws.live.record import record
from adapters.aws.logs.logbook import read_log_group
from adapters.aws.recording.recording import open_recording
from bot.errors import WrongInput
from bot.model.run import Mark
from tests.aws_live.conftest import FIVE, TYPES, open_tiny

CALL = "2026-11-17 01:00:00.000297:  27  INFO ||NEURON_CC_WRAPPER||: Call compiler with cmd: neuronx-cc compile {}.hlo_module.pb"
DONE = "2026-11-17 01:30:00.000297:  27  INFO ||NEURON_CC_WRAPPER||: Compilation Successfully Completed for model.{}.hlo_module.pb"
MODULE = "MODULE_16518787498567201059+d41d8cd9"


@pytest.fixture
def node(world, tiny):
    """Return an instance of the world, and put a compile of 30 minutes into the log of its node."""
    name = open_tiny(tiny).read(next(world.ticks(3, 3))).frame("node").things[0].instance
    begun = world.extent.start + timedelta(hours=2)
    for message, minutes in ((CALL, 0), ("epoch 1, loss 0.19 {}", 1), (DONE, 30)):
        stream = f"train/{name}"
        world.standin.logs.put(
            "jobs", stream, (begun + timedelta(minutes=minutes)).timestamp(), message.format(MODULE)
        )
    return name


def test_lines_that_mean_something_are_read_once_they_are_there(world, node):
    live = world.live(logs=["us-west-2:jobs"])
    marks = [live.read(next(world.ticks(hours, hours))).marks for hours in (2, 2.25, 2.5, 2.75)]
    assert [len(x) for x in marks] == [0, 1, 1, 2]
    assert [(x.instance, x.mark, x.module) for x in marks[-1]] == [
        (node, Mark.BEGUN, MODULE),
        (node, Mark.DONE, MODULE),
    ]
    assert not [x for x in live.problems() if "The history of" not in x]
    (asked, *_) = world.standin.logs.asked
    assert '?"Call compiler with cmd:"' in asked["filterPattern"]
    assert asked["endTime"] - asked["startTime"] == (3 * 60 + 5) * 60_000


def test_doctor_counts_the_lines_and_knows_a_group_that_is_not_there(world, node):
    next(world.ticks(3, 3))
    found = {
        x.name.split(" in ")[0]: (x.ok, x.found)
        for x in examine(world.live(logs=["jobs", "nowhere", "eu-north-1:jobs"]))
    }
    assert found["log group jobs"] == (True, "2 compile lines within the last 3 h")
    assert "ResourceNotFoundException" in found["log group nowhere"][1]
    assert found["log group eu-north-1:jobs"] == (
        False,
        "no region of that name is read: us-west-2",
    )


def test_a_group_that_is_too_large_is_given_up_for_this_tick(world, node):
    for n in range(70):
        world.standin.logs.put(
            "jobs", "x", world.extent.start.timestamp() + 9000 + n, "a line of no meaning"
        )
    live = world.live(logs=["jobs"])
    live.read(next(world.ticks(3, 3)))
    assert any("too large to be searched" in x for x in live.problems())


def test_a_recording_keeps_what_the_lines_say_and_none_of_their_text(world, node, tmp_path):
    (now,) = world.ticks(3, 3)
    record(world.live(logs=["jobs"]), tmp_path / "made", now - timedelta(hours=2), now)
    (path,) = (tmp_path / "made/logs").rglob("*.jsonl")
    assert "neuronx-cc compile" not in path.read_text()
    again = open_recording(tmp_path / "made", ReadingConfig(FIVE, TYPES)).read(now)
    assert [(x.instance, x.mark, x.module) for x in again.marks] == [
        (node, Mark.BEGUN, MODULE),
        (node, Mark.DONE, MODULE),
    ]


@pytest.mark.parametrize("text", ["", "us-west-2:", "a b", "a/b:c", "x" * 600])
def test_what_is_no_log_group_is_refused(text):
    with pytest.raises(WrongInput, match="is not a log group"):
        read_log_group(text)
