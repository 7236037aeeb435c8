"""One node for which all others wait is named and priced; what merely looks like it is not."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from builder import Fleet, World, hours, join, only

from bot.cards.alert import notification_card
from bot.model.alert import Alert
from bot.model.causes import Cause
from bot.model.labels import Labels
from bot.model.notification import Notification, Reason
from bot.watch.track import value
from tests.builders import price

ALL = slice(None)


def waiting(n=16, busy=1.06, slower=2.0, **more):
    """Return a job in which the last node works on while the others rest for half of each step, for eleven hours."""
    fleet = Fleet(n).scale(
        hours(30), hours(41), ALL, neuron_execution_latency=slower, efa=0.5, network_in=0.5
    )
    fleet.scale(hours(30), hours(41), slice(0, n - 1), neuroncore_utilization=0.5)
    return fleet.scale(hours(30), hours(41), slice(n - 1, n), neuroncore_utilization=busy).set(
        hours(30), hours(41), slice(n - 1, n), **more
    )


def test_the_card_says_what_the_run_costs_less_without_it():
    found = only(World(waiting()).at(hours(31)))
    alert = value(
        Alert("a", found, hours(31), hours(31)), None, lambda thing: price("21.50"), hours(31)
    )
    assert alert.waste.per_hour == pytest.approx(
        Decimal(15) * Decimal("21.50") / 2, rel=Decimal("0.05")
    )
    card = notification_card(Notification("n", "c", Reason.FIRST, hours(31), (alert,)))
    (line,) = [block for block in card.blocks if "Without" in str(block)]
    assert "i-llama015" in str(line)
    assert "an hour" in str(line)


def test_another_job_of_the_cluster_that_goes_on_is_no_straggler():
    """Both are tagged, and hold the same memory."""
    slow = Fleet(6, job="a").scale(
        hours(30), hours(34), neuroncore_utilization=0.5, neuron_execution_latency=2.0, efa=0.5
    )
    other = replace(Fleet(1, job="b", seed=2), cluster="llama")
    other.ids = ["i-other"]
    other.scale(hours(30), hours(34), neuron_execution_latency=2.0, efa=0.5)
    world = World(slow, other)
    assert world.whole.things == join(slow.frame(), other.frame()).things
    assert only(world.at(hours(31))).cause is not Cause.STRAGGLER


def test_the_node_that_all_wait_for_is_not_odd_beside():
    """It works as ever, in a combination that it never showed: its executions slowed with the others'."""
    fleet = Fleet(8, days=12)
    late = (hours(240), hours(264))
    fleet.scale(*late, ALL, neuron_execution_latency=2.0, efa=0.5, network_in=0.5)
    fleet.scale(*late, slice(0, 7), neuroncore_utilization=0.5)
    alerts = World(fleet).run(hours(239), hours(262))
    assert [alert.cause for alert in alerts] == [Cause.STRAGGLER]
    assert alerts[0].anomaly.suspect == "i-llama007"


def beside(other_nodes, **by):
    """Return a job whose node 5 holds up five, and another that holds the same memory."""
    other = replace(Fleet(other_nodes, seed=2), cluster="llama")
    other.ids = [f"i-other{i}" for i in range(other_nodes)]
    return waiting(6), other.scale(hours(30), hours(41), **by)


def test_a_straggler_is_named_beside_another_job_that_no_tag_tells_apart():
    found = only(World(*beside(5)).at(hours(31)))
    assert (found.cause, found.suspect) == (Cause.STRAGGLER, "i-llama005")


def test_a_run_that_claims_nodes_by_their_names_tells_a_job_as_a_tag_does():
    """The other job waits for its network: two nodes look as busy as the slow one."""
    fleets = beside(2, neuron_execution_latency=2.0, efa=0.5)
    for fleet, job in zip(fleets, ("vit", "bert"), strict=True):
        fleet.names = {i: f"{job}-{i}" for i in range(fleet.nodes)}
    frame = fleets[0].frame()
    runs = tuple(Labels(cluster="llama", job=job) for job in ("vit", "bert"))
    steps = np.full((2, frame.n_steps, 1), np.nan, dtype=np.float32)
    run = replace(frame, kind="run", things=runs, metrics=("run_step_count",), values=steps)
    causes = [World(*fleets, frames=x).at(hours(31)).anomalies for x in ({}, {"run": run})]
    assert [[x.suspect for x in found] for found in causes] == [[""], ["i-llama005"]]
