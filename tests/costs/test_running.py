"""The nodes that ran, priced day by day."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest

from bot.costs.running import Running, running_cost
from bot.model.fleet import Instance, Inventory, Market, Reservation
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.price import Basis, Price
from bot.model.reading import Reading

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
START = NOW - timedelta(days=10)


def node(name, start, end=None, kind="trn1.32xlarge"):
    labels = Labels(instance=name, instance_type=kind, region="us-west-2")
    return Instance(labels, start, "terminated" if end else "running", ended_at=end)


def price(market=Market.ON_DEMAND):
    return lambda instance: Price(
        instance.labels.instance_type,
        Decimal(10),
        market,
        Basis.BILLED,
        "us-west-2",
        date(2026, 11, 18),
        "",
    )


def reading(*instances, unknown=(), reservations=()):
    """Return a reading of ten days by the hour; `unknown` are nodes that only metrics tell of, each for its hours."""
    things = tuple(
        Labels(instance=name, instance_type="trn1.32xlarge", region="us-west-2")
        for name, _, _ in unknown
    )
    values = np.full((len(things), 240, 1), np.nan, np.float32)
    for row, (_, first, last) in enumerate(unknown):
        values[row, first:last] = 0.5
    frame = Frame("node", things, START, HOUR, ("neuroncore_utilization_ratio",), values)
    inventory = Inventory(instances={x.id: x for x in instances}, reservations=tuple(reservations))
    return Reading(NOW, {"node": frame}, inventory)


def days(*instances, market=Market.ON_DEMAND, **more):
    """Return USD by whole day, and the hours of today."""
    found = running_cost(reading(*instances, **more), price(market), timedelta(days=3))
    assert set(found.hours) <= {("BoxUsage:trn1.32xlarge", "")}
    assert found.now == NOW
    return {
        f"{found.start + n * HOUR:%d}": usd[n : n + 24].sum()
        for usd in found.hours.values()
        for n in range(0, len(usd), 24)
    }


def test_a_node_costs_its_hours_of_each_whole_day():
    began = datetime(2026, 11, 18, 18, tzinfo=UTC)
    assert days(node("i-1", START), node("i-2", began)) == {
        "17": 240,
        "18": 300,
        "19": 480,
        "20": 240,
    }


def test_a_node_that_ended_costs_until_then():
    assert days(node("i-1", START, datetime(2026, 11, 18, 6, tzinfo=UTC))) == {
        "17": 240,
        "18": 60,
        "19": 0,
        "20": 0,
    }


def test_a_node_that_only_metrics_tell_of_ran_from_its_first_to_its_last():
    hours = int((datetime(2026, 11, 18, tzinfo=UTC) - START) / HOUR)
    assert days(unknown=[("i-9", hours, hours + 30)]) == {"17": 0, "18": 240, "19": 60, "20": 0}


def test_what_is_paid_whether_nodes_run_or_not_is_left_out():
    assert days(node("i-1", START), market=Market.SAVINGS_PLAN) == {}
    held = Reservation(
        Labels(resource="cr-1", instance_type="trn1.32xlarge", region="us-west-2"),
        8,
        0,
        START,
        None,
    )
    assert days(node("i-1", START), reservations=[held]) == {}


def test_nothing_is_known_without_metrics():
    assert running_cost(Reading(NOW, {}, Inventory()), price(), timedelta(days=3)) is None


NODES = ("BoxUsage:trn1.32xlarge", "llama")


@pytest.mark.parametrize(
    ("hours", "today"),
    [
        ([10] * 24 * 4 + [10] * 6 + [20] * 6, 6 * 10 + 18 * 20),
        (([0] * 8 + [10] * 10 + [0] * 6) * 4 + [0] * 8 + [20] * 4, 10 * 20),
        (([0] * 8 + [10] * 10 + [0] * 6) * 4 + [0] * 8 + [0] * 4, 0),
        ([0] * 24 * 4 + [0] * 6 + [20] * 6, 18 * 20),
    ],
    ids=["flat", "office", "office closed", "new"],
)
def test_today_ends_as_the_nodes_of_now_go_on_by_the_usual_course_of_a_day(hours, today):
    start = NOW - timedelta(days=4, hours=12)
    running = Running(start, NOW, {NODES: np.array(hours, float)})
    whole = start + timedelta(days=3)
    billed = {whole.date() - timedelta(days=1): Decimal(sum(hours[48:72]))}
    (since,) = running.since(whole, whole, {NODES: billed}).values()
    assert since == pytest.approx([sum(hours[72:96]), today])


def test_nodes_that_the_bill_denies_are_not_followed():
    running = Running(NOW - timedelta(hours=60), NOW, {NODES: np.full(60, 10.0)})
    whole = NOW - timedelta(hours=12)
    for usd, followed in ((239, True), (270, False), (0, False)):
        lines = {NODES: {whole.date() - timedelta(days=1): Decimal(usd)}}
        assert bool(running.since(whole, whole, lines)) is followed
