"""A notice warns once a job, names nodes and the checkpoint's age, and never of nodes that are none of ours."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import numpy as np
import pytest
from builder import START, STEP, Fleet, World, hours, only

from bot.cards.alert import notification_card
from bot.model.alert import Alert
from bot.model.causes import Cause
from bot.model.fleet import Notice, NoticeKind
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.notification import Notification, Reason
from bot.policy.schema import default_policy
from bot.watch.track import value
from tests.builders import price

AT = hours(30) - timedelta(minutes=3)
PLACE = Labels(region="us-west-2", account="111122223333")


def notice(*nodes, kind=NoticeKind.INTERRUPTION, at=AT, due=timedelta(minutes=2), **more):
    number = more.pop("id", f"{kind}-{at:%H%M}-{'-'.join(nodes)}")
    return Notice(number, kind, at, PLACE, nodes, due=None if due is None else at + due, **more)


def runs(*jobs, days=2, age=1260.0, cluster="llama"):
    """Return the frame of runs whose newest checkpoint is always as old as it is every 40 minutes at its oldest."""
    steps = int(timedelta(days=days) / STEP)
    ages = np.tile(np.linspace(0, 2100, 8), steps)[:steps]
    ages[round((hours(30) - START) / STEP) - 1] = age
    values = np.stack([np.stack([np.arange(steps) * 100.0, ages], axis=1)] * len(jobs)).astype(
        np.float32
    )
    things = tuple(Labels(cluster=cluster, job=job) for job in jobs)
    return Frame(
        "run", things, START, STEP, ("run_step_count", "run_checkpoint_age_seconds"), values
    )


class Noticed(World):
    """Read fleets, and the notices that were said by then."""

    def reading(self, now):
        told = tuple(x for x in self.more.get("notices", ()) if x.at <= now)
        return replace(super().reading(now), notices=told)


def world(*notices, frames=None, fleet=None, **more):
    return Noticed(
        fleet or Fleet(nodes=4),
        notices=notices,
        frames={"run": runs("pretrain")} if frames is None else frames,
        **more,
    )


def told(made, now):
    return [a for a in made.at(now).anomalies if a.cause is Cause.INTERRUPTION_NOTICE]


def test_dollars_at_risk_are_the_price_of_all_nodes_of_the_job_times_the_age():
    made = world(notice("i-llama001", at=hours(30) - timedelta(minutes=1)))
    anomaly = only(made.at(hours(30)))
    assert anomaly.why.startswith("AWS takes back i-llama001 at 06:01 UTC")
    assert anomaly.at_risk.hours == pytest.approx(1260 / 3600)
    alert = value(
        Alert("a1", anomaly, hours(30), hours(30)), None, lambda _: price("21.50"), hours(30)
    )
    assert alert.at_risk_usd == Decimal("30.10")
    assert alert.waste is None
    card = notification_card(Notification("n1", "c", Reason.FIRST, hours(30), (alert,)))
    words = str(card.blocks)
    assert "$30.10" in words
    assert "21 min ago" in words
    assert card.data["at_risk_usd"] == Decimal("30.10")


def test_a_notice_that_is_delivered_twice_is_one_alert_of_one_node():
    again = notice("i-llama001", id="another delivery under another id")
    assert only(world(notice("i-llama001"), again).at(hours(30))).things == ("i-llama001",)


def test_what_comes_late_and_out_of_order_says_the_same():
    first, second = notice("i-llama000", at=AT - timedelta(minutes=1)), notice("i-llama001")
    one, other = (only(world(*order).at(hours(30))) for order in ((first, second), (second, first)))
    assert one == other


def test_it_can_be_switched_off():
    policy = default_policy()
    off = replace(policy, values={**policy.values, "interruption_notice.on": False})
    assert told(world(notice("i-llama001"), policy=off), hours(30)) == []


@pytest.mark.parametrize(
    ("node", "workers"), [(1, []), (2, [("i-llama000", "i-llama002", "i-llama003")])]
)
def test_a_node_launched_since_the_run_began_is_not_of_it(node, workers):
    made = world(notice(f"i-llama00{node}"), fleet=Fleet(nodes=4, launched={1: hours(28)}))
    assert [x.at_risk.things for x in told(made, hours(30))] == workers


@pytest.mark.parametrize(("kind", "news"), [(NoticeKind.INTERRUPTION, 0), (NoticeKind.HEALTH, 1)])
def test_a_node_of_no_run_loses_nothing_when_spot_capacity_is_taken_back(kind, news):
    assert len(told(world(notice("i-llama001", kind=kind), frames={}), hours(30))) == news


def test_a_spot_node_whose_tag_names_a_job_is_told_though_no_run_is_known():
    tagged = world(notice("i-llama001"), frames={}, fleet=Fleet(4, job="pretrain"))
    assert len(told(tagged, hours(30))) == 1


def test_a_node_of_which_nothing_was_read_before_the_start_of_a_run_may_be_of_it():
    """One worked on meanwhile, for something else."""
    fleet = Fleet(4).silence(hours(18), hours(20), slice(0, 1))
    fleet.stop(hours(19), hours(20), slice(1, 3))
    run = runs("pretrain")
    run.values[0, fleet.cut(hours(20), hours(48))[1], 0] -= 10_000
    (found,) = told(world(notice("i-llama001"), frames={"run": run}, fleet=fleet), hours(30))
    assert found.at_risk.things == ("i-llama000", "i-llama001", "i-llama002")


def test_a_node_that_aws_works_on_as_announced_is_not_silent():
    planned = notice(
        "i-llama001", kind=NoticeKind.MAINTENANCE, at=hours(6), due=timedelta(hours=24)
    )
    made = world(planned, fleet=Fleet(nodes=4).silence(hours(30), hours(34), nodes=1))
    at = (made.at(hours(hour)) for hour in (30.5, 31.5))
    assert [Cause.NO_DATA in {x.cause for x in found.anomalies} for found in at] == [False, True]
