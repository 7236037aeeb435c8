from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import Reading
from bot.policy.schema import default_policy
from bot.watch.tick import learning

NOW, STEP = datetime(2026, 11, 20, 12, tzinfo=UTC), timedelta(minutes=5)
N = 15 * 288


def known(days, **more):
    """A reading of fifteen days of steps, of which only the newest `days` were read."""
    values = np.full((2, N, 1), np.nan, np.float32)
    values[1, N - round(days * 288) :] = 0.5
    things = tuple(Labels(instance=f"i-{i}") for i in range(2))
    return Reading(
        NOW,
        {
            "node": Frame(
                "node", things, NOW - N * STEP, STEP, ("neuroncore_utilization_ratio",), values
            )
        },
        **more,
    )


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (
            0,
            "Learning: 0 of 14 days of history are known; nodes unlike their peers are reported"
            " after 2.",
        ),
        (
            1.5,
            "Learning: 1 of 14 days of history are known; nodes unlike their peers are reported"
            " after 2.",
        ),
        (3, "Learning: 3 of 14 days of history are known."),
        (14.5, ""),
    ],
)
def test_a_young_account_says_how_much_is_learnt_and_what_waits(days, said):
    assert learning(known(days), default_policy()) == said


def test_what_is_still_being_read_is_said_beside():
    reading = replace(known(3), learning="The history of 1 of 2 series is read.")
    assert learning(reading, default_policy()).endswith(
        "are known. The history of 1 of 2 series is read."
    )


def test_a_fleet_without_nodes_learns_nothing():
    assert learning(Reading(NOW), default_policy()) == ""
