"""Wait no longer than is worth it, and say each change of state once."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from adapters.aws.live.operations import operations
from adapters.aws.live.patience import Late, in_time
from adapters.aws.live.trouble import State, States
from tests.aws_live.ordeal import Lines

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
LIST = operations()["cloudwatch", "list_metrics"]


def test_an_answer_in_time_is_returned_and_a_failure_raised():
    assert in_time(lambda: 7, 5) == 7
    with pytest.raises(KeyError):
        in_time(lambda: {}["x"], 5)


def test_a_late_answer_is_not_waited_for():
    with pytest.raises(Late):
        in_time(lambda: time.sleep(5), 0.01)


@pytest.mark.parametrize(
    ("told", "lines"),
    [
        ([(0, State.WELL)], []),
        ([(0, State.BROKEN), (5, State.BROKEN), (10, State.WELL)], ["broken", "recovered"]),
        ([(0, State.THROTTLED), (0, State.WELL), (0, State.BROKEN), (0, State.WELL)], ["throttled"]),
        ([(0, State.THROTTLED), (5, State.SLOW), (10, State.WELL)], ["throttled", "recovered"]),
        ([(0, State.THROTTLED), (5, State.DENIED), (10, State.WELL)], ["throttled", "denied", "recovered"]),
    ],
    ids=["well", "an outage", "some calls of a tick", "passing troubles are one", "another remedy"],
)
def test_each_change_of_state_is_said_once(told, lines):
    now = [NOON]
    states = States(lambda: now[0])
    with Lines() as said:
        for minutes, state in told:
            now[0] = NOON + timedelta(minutes=minutes)
            states.set(LIST, "here", state, f"It is {state}.")
    assert [word in line for word, line in zip(lines, said.said, strict=True)] == [True] * len(lines)
