"""Choose which nodes are looked at closer."""

from dataclasses import replace

from bot.model.causes import Cause
from bot.watch.tick import drill_targets
from tests.builders import alert, anomaly, waste


def of(cause, *things, **more):
    return replace(alert(replace(anomaly(cause), things=things)), **more)


def test_the_worst_two_of_each_cause_that_cores_can_explain():
    starved = of(Cause.STARVED, "i-1", "i-2", "i-3")
    others = [
        of(Cause.IDLE, "i-4"),
        of(Cause.HUNG, "i-5", muted_by="silence:1"),
        alert(replace(anomaly(Cause.STARVED, kind="run"), things=("i-6",))),
    ]
    assert drill_targets([starved, *others]) == ("i-1", "i-2")


def test_the_nodes_of_the_dearest_stand_first():
    cheap, dear = (of(Cause.STARVED, f"i-{usd}", waste=waste(usd)) for usd in ("1", "2"))
    assert drill_targets([cheap, dear]) == ("i-2", "i-1")


def test_a_node_of_two_alerts_is_named_once():
    assert sorted(
        drill_targets([of(Cause.STARVED, "i-1", "i-2"), of(Cause.ODD, "i-2", "i-9")])
    ) == ["i-1", "i-2", "i-9"]
