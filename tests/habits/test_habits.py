"""Jobs with habits of their own bring no alert by them, and what goes wrong in them is found."""

from __future__ import annotations

import pytest

from tests.habits.world import World, grade


@pytest.mark.parametrize(
    "kinds",
    [
        ("rl", "trials", "shared"),
        pytest.param(("pretrain", "arrays", "stages", "block", "standby"), marks=pytest.mark.slow),
        pytest.param(("elastic", "hyperpod", "lossy", "notebooks"), marks=pytest.mark.slow),
    ],
)
def test_what_a_job_always_does_is_not_told(kinds: tuple[str, ...]) -> None:
    alerts = World(1, days=5, kinds=kinds).alerts()
    assert [(alert.cause.value, alert.anomaly.why) for alert in alerts] == []


def test_what_goes_wrong_is_told_by_its_cause() -> None:
    world = World(2, days=6, kinds=("pretrain", "lossy"), planted=True)
    graded = grade(world, world.alerts())
    assert len(world.incidents) >= 4
    assert graded.missed == []
    assert [(x.cause.value, x.anomaly.why) for x in (*graded.wrong, *graded.false)] == []
