"""Choose which nodes are looked at closer."""

from dataclasses import replace

from bot.model.causes import Cause
from bot.watch.tick import drill_targets
from tests.builders import alert, anomaly


def of(cause, *things, **more):
    return replace(alert(replace(anomaly(cause), things=things)), **more)


def test_the_worst_two_of_each_cause_that_cores_can_explain():
    starved = of(Cause.STARVED, "i-1", "i-2", "i-3")
    others = [of(Cause.IDLE, "i-4"), of(Cause.HUNG, "i-5", muted_by="silence:1")]
    assert drill_targets([starved, *others]) == ("i-1", "i-2")


def test_a_node_of_two_alerts_is_named_once():
    assert sorted(
        drill_targets([of(Cause.STARVED, "i-1", "i-2"), of(Cause.ODD, "i-2", "i-9")])
    ) == ["i-1", "i-2", "i-9"]
