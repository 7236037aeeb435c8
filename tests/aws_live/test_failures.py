"""Wait no longer than is worth it, and say each change of state once."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import (
    CredentialRetrievalError,
    SSOTokenLoadError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)

from adapters.aws.api.operations import operations
from adapters.aws.api.outcomes import (
    CallState,
    CallStates,
    Standing,
    TimedOut,
    state_of,
    with_timeout,
)
from tests.aws_live.ordeal import Lines

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
LIST = operations()["cloudwatch", "list_metrics"]


def test_an_answer_in_time_is_returned_and_a_failure_raised():
    assert with_timeout(lambda: 7, 5) == 7
    with pytest.raises(KeyError):
        with_timeout(lambda: {}["x"], 5)


def test_a_late_answer_is_not_waited_for():
    with pytest.raises(TimedOut):
        with_timeout(lambda: time.sleep(5), 0.01)


@pytest.mark.parametrize(
    ("told", "lines"),
    [
        ([(0, CallState.WELL)], []),
        (
            [(0, CallState.BROKEN), (5, CallState.BROKEN), (10, CallState.WELL)],
            ["broken", "recovered"],
        ),
        (
            [
                (0, CallState.THROTTLED),
                (0, CallState.WELL),
                (0, CallState.BROKEN),
                (0, CallState.WELL),
            ],
            ["throttled"],
        ),
        (
            [(0, CallState.THROTTLED), (5, CallState.SLOW), (10, CallState.WELL)],
            ["throttled", "recovered"],
        ),
        (
            [(0, CallState.THROTTLED), (5, CallState.DENIED), (10, CallState.WELL)],
            ["throttled", "denied", "recovered"],
        ),
    ],
    ids=["well", "an outage", "some calls of a tick", "passing troubles are one", "another remedy"],
)
def test_each_change_of_state_is_said_once(told, lines):
    now = [NOON]
    states = CallStates(lambda: now[0])
    with Lines() as said:
        for minutes, state in told:
            now[0] = NOON + timedelta(minutes=minutes)
            states.set(Standing(LIST, "here", state, f"It is {state}."))
    assert [word in line for word, line in zip(lines, said.said, strict=True)] == [True] * len(
        lines
    )


def test_what_passes_by_itself_is_lacking_once_it_has_lasted_an_hour():
    now, lacking = [NOON], {}
    states = CallStates(lambda: now[0])
    for minutes in (0, 20, 40, 60, 65):
        now[0] = NOON + timedelta(minutes=minutes)
        states.set(Standing(LIST, "here", CallState.BROKEN, "It broke"))
        lacking[minutes] = states.lacking()
    (sentence,) = lacking.pop(65)
    assert "is broken (It broke)" in sentence
    assert lacking == {0: (), 20: (), 40: (), 60: ()}


@pytest.mark.parametrize(
    "error",
    [
        CredentialRetrievalError(provider="custom-process", error_msg="it ended with 1"),
        UnauthorizedSSOTokenError(),
        SSOTokenLoadError(error_msg="no token"),
        TokenRetrievalError(provider="sso", error_msg="Token has expired and refresh failed"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_provider_of_credentials_that_fails_is_a_matter_of_credentials(error):
    assert state_of(error) is CallState.EXPIRED
