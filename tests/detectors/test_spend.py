"""The bill: judged by whole, settled days."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from builder import START, Fleet, World, only

from bot.model.causes import Cause
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.model.reading import SPEND_METRIC
from bot.policy.schema import default_policy
from detectors.bill.jumps import usual_day, usual_hours

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
FIRST = datetime(2026, 10, 14, tzinfo=UTC)
NOW = START + 2 * DAY  # 2026-11-04; the day of 11-02 has settled


def bill(*lines, first=FIRST):
    """Return a spend frame of lines (service, usage type, USD a day), the day before NOW not billed yet."""
    things = tuple(
        Labels(account="1", region="us-west-2", service=s, usage_type=u) for s, u, _ in lines
    )
    days = (NOW - first) // DAY
    values = np.full((len(lines), days, 1), np.nan, np.float32)
    for i, (_, _, usd) in enumerate(lines):
        values[i, : days - 1, 0] = usd[-(days - 1) :] if np.ndim(usd) else usd
    return Frame("spend", things, first, DAY, (SPEND_METRIC,), values)


def usual(last, level=100.0, days=20):
    """Return `days` of a steady level with a little noise, the last of which is `last`."""
    series = level + np.random.default_rng(0).normal(0, 0.02 * level, days)
    series[-1] = last
    return series


def judged(*lines):
    return World(Fleet(2, days=2.5), frames={"spend": bill(*lines)}).at(NOW)


@pytest.mark.parametrize(
    ("busy", "days_before", "told"), [(True, 6, False), (True, 1, False), (False, 6, True)]
)
def test_a_scale_up_that_is_used_is_none(busy, days_before, told):
    fleet = Fleet(8, days=10)
    late = START + days_before * DAY
    fleet.stop(START, late, slice(4, 8))
    if not busy:
        fleet.stop(late, START + 10 * DAY, slice(4, 8))
    now = late + 3 * DAY
    days = (now - FIRST) // DAY
    usd = np.where(np.arange(days) < days - 3, 2000.0, 4200.0)
    usd[-1] = np.nan
    things = (
        Labels(
            account="1",
            region="us-west-2",
            service="AmazonEC2",
            usage_type="USW2-BoxUsage:trn1.32xlarge",
        ),
    )
    frame = Frame(
        "spend", things, FIRST, DAY, (SPEND_METRIC,), usd[None, :, None].astype(np.float32)
    )
    found = World(fleet, frames={"spend": frame}).at(now).anomalies
    assert (Cause.SPEND_JUMP in [a.cause for a in found]) is told


def joined_at(day, busy=True, instance_type="trn1.32xlarge"):
    """Return a cluster `lab` of team ads whose 4 nodes first report on a day, and work unless told otherwise."""
    late = Fleet(4, days=10, cluster="lab", instance_type=instance_type).silence(
        START, START + day * DAY
    )
    return late if busy else late.stop(START + day * DAY, START + 10 * DAY)


def tagged_bill(now, *lines):
    """Return a bill by days up to the day before `now` of (usage type, tags, USD a day, days of it until the end)."""
    days = (now - FIRST) // DAY
    values = np.full((len(lines), days, 1), np.nan, np.float32)
    things = []
    for i, (usage, tags, usd, lasts) in enumerate(lines):
        service = "AmazonS3" if "Storage" in usage or "Requests" in usage else "AmazonEC2"
        things.append(
            Labels(account="1", region="us-west-2", service=service, usage_type=usage, **tags)
        )
        values[i, :-1, 0] = np.where(np.arange(days - 1) >= days - 1 - lasts, usd, 0)
    return Frame("spend", tuple(things), FIRST, DAY, (SPEND_METRIC,), values)


HOURS_OF = "USW2-BoxUsage:trn1.32xlarge"


@pytest.mark.parametrize(("busy", "told"), [(True, False), (False, True)])
def test_a_project_that_grew_by_a_new_cluster_in_use_is_no_jump(busy, told):
    now = START + 9 * DAY
    vega = {"project": "vega"}
    lines = [(HOURS_OF, {"cluster": "llama"}, 10000.0, 99), (HOURS_OF, {"cluster": "old", **vega}, 700.0, 99),
             (HOURS_OF, {"cluster": "lab", **vega}, 2060.0, 3)]  # fmt: skip
    world = World(Fleet(2, days=10), joined_at(5, busy), frames={"spend": tagged_bill(now, *lines)})
    assert (Cause.SPEND_JUMP in [a.cause for a in world.at(now).anomalies]) is told


def test_how_much_may_come_along_is_a_setting():
    now = START + 9 * DAY
    lines = [(HOURS_OF, {"cluster": "llama"}, 1000.0, 99), (HOURS_OF, {"cluster": "lab"}, 2060.0, 3),
             ("TimedStorage-ByteHrs", {}, 150.0, 99), ("TimedStorage-ByteHrs", {"cluster": "lab"}, 120.0, 3)]  # fmt: skip
    for share, told in ((0.1, False), (0.02, True)):
        policy = Policy({**default_policy().values, "spend_jump.along": share})
        world = World(
            Fleet(2, days=10),
            joined_at(5),
            frames={"spend": tagged_bill(now, *lines)},
            policy=policy,
        )
        assert (Cause.SPEND_JUMP in [a.cause for a in world.at(now).anomalies]) is told


def test_nodes_that_end_do_not_hide_bytes_that_leave_their_route():
    ended = usual(100.0, 5000.0)
    found = judged(
        ("AmazonEC2", HOURS_OF, ended), ("AmazonEC2", "USW2-NatGateway-Bytes", usual(600, 30.0))
    )
    assert only(found).cause is Cause.TRANSFER_ROUTE


def judged_frames(**frames):
    return World(Fleet(2, days=2.5), frames=frames).at(NOW)


def hourly(line, usd):
    """Return a frame of 20 days by the hour that ends at 05:00 after the last settled day."""
    n = 20 * 24 + 5
    values = np.full((1, n, 1), 1.0, np.float32)
    values[0, n - len(usd) :, 0] = usd
    start = NOW - DAY + 5 * HOUR - n * HOUR
    return Frame("spend_hour", (line,), start, HOUR, (SPEND_METRIC,), values)


S3 = Labels(account="1", region="us-west-2", service="AmazonS3", usage_type="Requests-Tier1")
SETTLED = bill(("AmazonS3", "Requests-Tier1", usual(24, 24.0)))


def test_a_burst_and_the_day_it_makes_are_one_alert():
    burst = only(judged_frames(spend=SETTLED, spend_hour=hourly(S3, [40] * 10)))
    day = only(judged(("AmazonS3", "Requests-Tier1", usual(424, 24.0))))
    both = only(
        judged_frames(
            spend=bill(("AmazonS3", "Requests-Tier1", usual(424, 24.0))),
            spend_hour=hourly(S3, [40] * 10),
        )
    )
    assert burst.key == day.key == both.key
    assert "on Nov 2, usually" in both.why


def test_the_first_of_a_month_ends_nothing():
    frame = bill(("AmazonS3", "Requests-Tier1", usual(900)))  # 2026-11-02
    earlier = Frame(
        "spend", frame.things, FIRST - 2 * DAY, DAY, (SPEND_METRIC,), frame.values
    )  # 10-31
    first = Frame("spend", frame.things, FIRST - DAY, DAY, (SPEND_METRIC,), frame.values.copy())
    first.values[0, -3:-1, 0] = 900, 40  # 10-31 again, and 11-01
    assert only(judged_frames(spend=earlier)).key == only(judged_frames(spend=first)).key


def test_a_bill_that_jumps_each_week_on_its_day_is_usual_on_that_day_alone():
    weekly = np.where(np.arange(36) % 7 == 0, 500.0, 100.0)
    weekly += np.arange(36) % 3
    _, on_its_day = usual_day(weekly, 35)
    _, the_day_before = usual_day(weekly, 34)
    assert on_its_day >= 500
    assert the_day_before < 200


def test_what_nodes_do_in_another_cluster_explains_no_growth_of_this_one():
    """Four nodes of one cluster stopped working as four of another began; the bill of the latter grew."""
    calm, grown = Fleet(8, days=10, cluster="calm"), Fleet(8, days=10, cluster="grown", seed=2)
    late = START + 6 * DAY
    calm.stop(late, START + 10 * DAY, slice(4, 8))
    grown.stop(START, late, slice(4, 8))
    now = START + 9 * DAY
    days = (now - FIRST) // DAY
    steady = np.full(days, 4200.0)
    usd = np.where(np.arange(days) < days - 3, 2000.0, 4200.0)
    things = tuple(
        Labels(
            account="1",
            region="us-west-2",
            service="AmazonEC2",
            usage_type="USW2-BoxUsage:trn1.32xlarge",
            cluster=cluster,
        )
        for cluster in ("calm", "grown")
    )
    values = np.stack([steady, usd])[:, :, None].astype(np.float32)
    spend = Frame("spend", things, FIRST, DAY, (SPEND_METRIC,), values)
    anomalies = World(calm, grown, frames={"spend": spend}).at(now).anomalies
    assert Cause.SPEND_JUMP not in {anomaly.cause for anomaly in anomalies}


def jumps_of(fleets, lines):
    """Return the jumps of a bill by line and cluster, USD a day before and in the newest three."""
    now = START + 9 * DAY
    on = np.arange((now - FIRST) // DAY) >= (now - FIRST) // DAY - 3
    place = Labels(account="1", region="us-west-2", service="AmazonEC2")
    things = tuple(place.merge(Labels(usage_type=u, cluster=c)) for u, c in lines)
    values = np.stack([np.where(on, after, before) for before, after in lines.values()])
    values = values[:, :, None].astype(np.float32)
    values[:, -1] = np.nan
    spend = Frame("spend", things, FIRST, DAY, (SPEND_METRIC,), values)
    found = World(*fleets, frames={"spend": spend}).at(now).anomalies
    return [x for x in found if x.cause is Cause.SPEND_JUMP]


def fleets_of(*clusters):
    """Return fleets of which the first works on twice as many nodes since the sixth day."""
    fleets = [Fleet(8, days=10, cluster=x, seed=i) for i, x in enumerate(clusters)]
    fleets[0].stop(START, START + 6 * DAY, slice(4, 8))
    return fleets


def test_no_cluster_explains_by_its_use_what_no_cluster_is_named_for():
    lines = {(HOURS_OF, ""): (2000.0, 4200.0), (HOURS_OF, "lab"): (2000.0, 5000.0)}
    (jump,) = jumps_of(fleets_of("work", "lab"), lines)
    assert "busy nodes" not in " ".join(jump.evidence)


@pytest.mark.parametrize(("odd_days", "usual"), [(1, 1.0), (2, 40.0)])
def test_one_odd_day_does_not_make_its_hour_usual(odd_days, usual):
    values = np.ones((1, 9 * 24))
    values[0, 54 : 54 + 24 * odd_days : 24] = 40
    _, high = usual_hours(values, np.array([8 * 24 + 6]))
    assert high.tolist() == [[usual]]
