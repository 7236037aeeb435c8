"""One fault of a large job, seen as a dozen symptoms: one first message, and what came with it is marked, not dropped."""

import numpy as np
import pytest
from crew import DAY, START, Crew
from minutes import Fleet

from bot.model.causes import Cause
from bot.model.notification import Reason

HIT = int(2.2 * DAY)
"""The minute in which the fault begins."""


def firsts(seen):
    return [notice for notice in seen.notifications if notice.reason is Reason.FIRST]


def causes(notice):
    return {alert.cause for alert in notice.alerts}


def marks(seen):
    return {alert.cause: alert.muted_by for alert in seen.alerts.values()}


def errors(crew, start, length, nodes):
    crew.at["errors"][nodes, start : start + length] += crew.rng.poisson(
        3, (len(crew.ids[nodes]), length)
    )
    return crew


def stalled(crew, start, length, nodes):
    """Executions stop, the runtime holds its memory."""
    return crew.put(start, length, nodes, util=0, high=0, tx=0, inward=0).scale(
        start, length, nodes, latency=np.nan
    )


def seen_of(*crews, runs=True):
    """Return what a watch sees that began a quarter of a day before the fault."""
    return Fleet(crews, runs=runs, watched_from=HIT - DAY // 4).replay()


@pytest.fixture(scope="module")
def storm():
    crew = Crew(nodes=24, days=2.6).pauses().starve(HIT, 360, 0.2)
    errors(crew, HIT + 30, 120, slice(0, 3))
    crew.gone(HIT + 50, 60, slice(3, 6))
    stalled(crew, HIT + 60, 120, slice(6, 9))
    crew.at["ecc"][9:12, HIT + 70 : HIT + 130] += 1
    return seen_of(crew)


def test_a_storm_is_one_first_message(storm):
    (first,) = firsts(storm)
    assert causes(first) == {Cause.STARVED}


def test_what_comes_with_a_storm_is_marked_and_its_message_lists_it(storm):
    (first,) = firsts(storm)
    key = next(iter(first.alerts)).key
    came = {Cause.EXECUTION_ERRORS, Cause.NO_DATA, Cause.HUNG, Cause.HARDWARE_FAULT}
    found = marks(storm)
    assert {found[cause] for cause in came} == {f"inhibit:{key}"}
    assert came < causes(storm.notifications[-1])
    assert storm.notifications[-1].reason is Reason.OVER


def test_the_nodes_of_a_storm_are_counted_through_their_symptoms(storm):
    (starved,) = [alert for alert in storm.alerts.values() if alert.cause is Cause.STARVED]
    assert len(starved.anomaly.things) == 24
    assert float(starved.waste.so_far) == pytest.approx(24 * 20 * 6 * 0.75, rel=0.08)


def test_a_symptom_that_comes_first_gives_its_message_to_the_storm():
    crew = Crew(nodes=24, days=2.4).pauses()
    stalled(crew, HIT, 180, slice(None)).gone(HIT - 4, 50, slice(0, 4))
    seen = seen_of(crew)
    (first,) = firsts(seen)
    assert causes(first) == {Cause.NO_DATA}
    (more,) = [notice for notice in seen.notifications if notice.reason is Reason.MORE]
    assert causes(more) == {Cause.NO_DATA, Cause.HUNG}


def test_what_stops_before_the_storm_is_seen_is_part_of_it():
    """Silent and stalled nodes are told in the minutes in which the drop is not wide yet."""
    crew = Crew(nodes=24, days=2.6).pauses().starve(HIT, 360, 0.2)
    stalled(crew, HIT + 25, 120, slice(6, 9)).gone(HIT + 10, 50, slice(3, 6))
    seen = seen_of(crew)
    assert len(firsts(seen)) == 1
    assert {Cause.NO_DATA, Cause.HUNG} <= marks(seen).keys()


def test_nodes_of_another_job_do_not_wait_for_a_broken_device():
    """Their own incident ends with their job, just after the device of another job broke."""
    sick = Crew(nodes=4, days=2.5, job="a", own=True).pauses()
    sick.at["ecc"][1, HIT : HIT + 200] += 1
    sick.scale(HIT, 200, util=0.5, high=0.6)
    other = Crew(nodes=8, days=2.5, job="b", seed=2, own=True).pauses(every=55)
    other.starve(HIT + 20, 120, 0.2)
    seen = seen_of(sick, other, runs=False)
    (fault,) = [a for a in seen.alerts.values() if a.cause is Cause.HARDWARE_FAULT]
    things = set(fault.anomaly.things) | set(fault.peak.anomaly.things)
    assert things <= set(sick.ids)
    assert marks(seen)[Cause.STARVED] == ""


def test_a_second_incident_on_other_nodes_of_the_cluster_is_told():
    one = Crew(nodes=24, days=2.4, job="a").pauses().starve(HIT, 240, 0.2)
    other = Crew(nodes=8, days=2.4, job="b", seed=2).pauses(every=55)
    errors(other, HIT + 40, 120, slice(0, 3))
    seen = seen_of(one, other, runs=False)
    assert [causes(notice) for notice in firsts(seen)] == [
        {Cause.STARVED},
        {Cause.EXECUTION_ERRORS},
    ]


def test_errors_of_a_few_slow_nodes_are_a_story_of_their_own():
    """Nothing is wide about four nodes of sixteen: errors on one of them may be why."""
    crew = Crew(nodes=16, days=2.4, own=True).starve(HIT, 240, 0.2, slice(0, 4))
    errors(crew, HIT + 40, 120, slice(0, 1))
    assert marks(seen_of(crew, runs=False))[Cause.EXECUTION_ERRORS] == ""


def test_a_fault_with_events_now_and_then_is_one_story():
    """About every four minutes an event, on average: their number within any half an hour swings about the limit."""
    crew = Crew(nodes=4, days=2.5, seed=5).pauses()
    crew.at["ecc"][1, HIT : HIT + 360] += crew.rng.poisson(0.33, 360)
    errors(crew, HIT + 200, 20, slice(1, 2))
    crew.scale(HIT, 360, util=0.6, high=0.7)
    seen = seen_of(crew)
    assert [causes(notice) for notice in firsts(seen)] == [{Cause.HARDWARE_FAULT}]
    assert [
        alert.muted_by
        for alert in seen.alerts.values()
        if alert.cause is not Cause.HARDWARE_FAULT and not alert.muted_by
    ] == []


def test_a_node_under_repair_is_not_told_again_as_idle():
    crew = Crew(nodes=8, days=2.9, own=True).pauses()
    crew.at["ecc"][2, HIT : HIT + 60] += 1
    crew.off(HIT + 60, 600, slice(2, 3)).ramp(HIT + 660, slice(2, 3))
    seen = seen_of(crew, runs=False)
    (alert,) = seen.alerts.values()
    assert alert.cause is Cause.HARDWARE_FAULT
    assert HIT + 660 < (alert.closed - START).total_seconds() / 60 < HIT + 760
    assert alert.anomaly.why.endswith("ago; work is seen there again.")


def test_peers_of_a_node_under_repair_speak_for_themselves():
    crew = Crew(nodes=8, days=2.9, own=True).pauses()
    crew.at["ecc"][2, HIT : HIT + 60] += 1
    crew.off(HIT + 60, 800, slice(2, 3)).starve(HIT + 300, 200, 0.2, slice(4, 6))
    assert set(marks(seen_of(crew, runs=False))) == {Cause.HARDWARE_FAULT, Cause.STARVED}


def test_a_drop_that_is_over_ends_though_checkpoints_go_on():
    """Every twenty minutes a pause, over two points: they are no drop that goes on."""
    crew = Crew(nodes=8, days=3.2).pauses(every=40).starve(HIT, 180, 0.2)
    for minute in range(HIT + 185, HIT + 900, 20):
        crew.scale(minute, 3, util=0.03, high=0.1, tx=0.02)
    seen = seen_of(crew, runs=False)
    (alert,) = [one for one in seen.alerts.values() if one.cause is Cause.STARVED]
    assert (alert.closed - START).total_seconds() / 60 < HIT + 180 + 60
