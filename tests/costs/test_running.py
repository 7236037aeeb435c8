"""The nodes that ran, priced day by day."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np

from bot.costs.nowcast import running_cost
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
    kinds = running_cost(reading(*instances, **more), price(market), timedelta(days=3))
    assert set(kinds) <= {("BoxUsage:trn1.32xlarge", "")}
    return {f"{day:%d}": usd for found in kinds.values() for day, usd in found.items()}


def test_a_node_costs_its_hours_of_each_whole_day():
    began = datetime(2026, 11, 18, 18, tzinfo=UTC)
    assert days(node("i-1", START), node("i-2", began)) == {"17": 240, "18": 300, "19": 480}


def test_a_node_that_ended_costs_until_then():
    assert days(node("i-1", START, datetime(2026, 11, 18, 6, tzinfo=UTC))) == {
        "17": 240,
        "18": 60,
        "19": 0,
    }


def test_a_node_that_only_metrics_tell_of_ran_from_its_first_to_its_last():
    hours = int((datetime(2026, 11, 18, tzinfo=UTC) - START) / HOUR)
    assert days(unknown=[("i-9", hours, hours + 30)]) == {"17": 0, "18": 240, "19": 60}


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
    assert running_cost(Reading(NOW, {}, Inventory()), price(), timedelta(days=3)) == {}
