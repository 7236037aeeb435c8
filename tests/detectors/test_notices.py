"""A notice warns once a job, names nodes and the checkpoint's age, and never of nodes that are none of ours."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import numpy as np
import pytest
from builder import START, STEP, Fleet, World, hours, only

from bot.cards.alert import notification_card
from bot.model.alert import Alert
from bot.model.causes import Cause, Severity
from bot.model.fleet import Market, Notice, NoticeKind, Reservation
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


def test_a_spot_interruption_is_told_in_the_next_tick_with_job_age_and_work_at_risk():
    made = world(notice("i-llama001"))
    assert told(made, hours(30) - STEP) == []
    anomaly = only(made.at(hours(30)))
    assert (anomaly.cause, anomaly.severity, anomaly.things) == (
        Cause.INTERRUPTION_NOTICE,
        Severity.WARNING,
        ("i-llama001",),
    )
    assert "AWS took back i-llama001 at 05:59 UTC" in anomaly.why
    assert "the newest checkpoint of pretrain is" in anomaly.why
    assert anomaly.labels.job == "pretrain"
    assert anomaly.at_risk.things == ("i-llama000", "i-llama001", "i-llama002", "i-llama003")
    assert anomaly.suggestions[0].startswith("Save a checkpoint now")


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


def test_many_interruptions_of_one_job_are_one_alert():
    made = world(*(notice(f"i-llama00{i}", at=AT + timedelta(seconds=20 * i)) for i in range(3)))
    anomaly = only(made.at(hours(30)))
    assert len(anomaly.things) == 3
    assert len(anomaly.at_risk.things) == 4


def test_what_comes_late_and_out_of_order_says_the_same():
    first, second = notice("i-llama000", at=AT - timedelta(minutes=1)), notice("i-llama001")
    one, other = (only(world(*order).at(hours(30))) for order in ((first, second), (second, first)))
    assert one == other


def test_a_node_that_is_none_of_ours_is_not_told():
    assert told(world(notice("i-webserver")), hours(30)) == []


def test_a_node_that_has_gone_meanwhile_is_told_and_its_alert_ends():
    fleet = Fleet(nodes=4)
    fleet.ended[1] = hours(30)
    fleet.silence(AT + timedelta(minutes=3), hours(48), slice(1, 2))
    made = world(notice("i-llama001"), fleet=fleet)
    alerts = [
        a for a in made.run(hours(29.5), hours(32)) if a.anomaly.cause is Cause.INTERRUPTION_NOTICE
    ]
    assert len(alerts) == 1
    assert alerts[0].closed - alerts[0].opened <= timedelta(minutes=50)


def test_a_notice_of_yesterday_is_not_news():
    assert told(world(notice("i-llama001", at=hours(6))), hours(30)) == []


def test_a_rebalance_recommendation_is_told_as_a_risk():
    anomaly = only(world(notice("i-llama001", kind=NoticeKind.REBALANCE, due=None)).at(hours(30)))
    assert anomaly.why.startswith("AWS says that it is likely to take back i-llama001;")


def test_the_interruption_speaks_where_a_rebalance_recommendation_came_before():
    before = notice("i-llama002", kind=NoticeKind.REBALANCE, at=AT - timedelta(minutes=1), due=None)
    anomaly = only(world(before, notice("i-llama001")).at(hours(30)))
    assert anomaly.why.startswith("AWS took back i-llama001 at")
    assert anomaly.things == ("i-llama001", "i-llama002")


def test_a_planned_event_is_told_only_as_it_comes_near():
    plan = notice(
        "i-llama001",
        kind=NoticeKind.RETIREMENT,
        at=hours(1),
        due=timedelta(days=10),
        subject="AWS_EC2_R_1",
    )
    assert told(world(plan), hours(30)) == []
    policy = default_policy()
    near = replace(
        policy, values={**policy.values, "interruption_notice.ahead": timedelta(days=14)}
    )
    anomaly = only(world(plan, policy=near).at(hours(30)))
    assert "AWS retires the hardware of i-llama001 at Nov 12, 01:00 UTC" in anomaly.why
    assert anomaly.scope.resource == "AWS_EC2_R_1"


def test_nodes_of_a_capacity_block_that_ends_are_found_by_type_and_zone():
    fleet = Fleet(nodes=2, zones=("us-west-2d",))
    block = Reservation(
        Labels(resource="cr-1", instance_type="trn1.32xlarge", zone="us-west-2d", region="us-west-2"),
        2, 0, START, hours(31), Market.CAPACITY_BLOCK,
    )  # fmt: skip
    end = notice(
        kind=NoticeKind.BLOCK_END, due=timedelta(minutes=10), reservation="cr-1", subject="cr-1"
    )
    made = world(end, fleet=fleet, inventory={"reservations": (block,)})
    inventory = made.inventory(hours(30))
    blocked = {k: replace(x, market=Market.CAPACITY_BLOCK) for k, x in inventory.instances.items()}
    made._inventories = {key: replace(inventory, instances=blocked) for key in made._inventories}
    (anomaly,) = told(made, hours(30))
    assert anomaly.things == ("i-llama000", "i-llama001")
    assert anomaly.why.startswith(
        "The Capacity Block ends: AWS terminates i-llama000 and i-llama001 from 06:07 UTC on;"
    )


def test_without_a_checkpoint_age_it_says_so_and_no_dollars():
    anomaly = only(world(notice("i-llama001"), frames={}).at(hours(30)))
    assert "the age of the newest checkpoint is not known" in anomaly.why
    assert anomaly.at_risk is None


def test_of_two_runs_without_job_tags_none_is_guessed():
    anomaly = only(world(notice("i-llama001"), frames={"run": runs("a", "b")}).at(hours(30)))
    assert anomaly.at_risk is None


def test_it_can_be_switched_off():
    policy = default_policy()
    off = replace(policy, values={**policy.values, "interruption_notice.on": False})
    assert told(world(notice("i-llama001"), policy=off), hours(30)) == []
