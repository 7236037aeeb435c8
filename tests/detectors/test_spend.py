"""The bill: judged by whole, settled days."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest
from builder import START, Fleet, World, only

from bot.model.alert import Alert
from bot.model.causes import Cause
from bot.model.fleet import Reservation
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


def test_a_steady_bill_is_calm():
    assert judged(("AmazonS3", "Requests-Tier1", usual(103))).anomalies == ()


def test_a_jump_is_told_with_what_it_costs_an_hour():
    jump = only(judged(("AmazonS3", "Requests-Tier1", usual(340))))
    assert (jump.cause, jump.things) == (Cause.SPEND_JUMP, ("Requests-Tier1",))
    assert jump.usd_per_hour == pytest.approx(Decimal(10), abs=Decimal("0.3"))
    assert jump.scope == Labels(account="1", region="us-west-2", service="AmazonS3")
    assert "on Nov 2, usually" in jump.why


@pytest.mark.parametrize(
    ("usage", "usd", "cause"),
    [
        ("USW2-BoxUsage:p5.48xlarge", [0.0] * 19 + [1300.0], Cause.SPEND_NEW),
        ("USW2-NatGateway-Bytes", usual(900, 4.0), Cause.TRANSFER_ROUTE),
        ("EC2SP:trn1.1yrNoUpfront", usual(900, 90.0), Cause.COMMITMENT_UNUSED),
    ],
)
def test_what_grew_says_what_it_is(usage, usd, cause):
    assert only(judged(("AmazonEC2", usage, np.array(usd)))).cause is cause


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        ("USW2-NatGateway-Bytes", "gateway endpoint"),
        ("USW2-DataTransfer-Regional-Bytes", "one zone"),
        ("USW2-USE1-AWS-Out-Bytes", "copy of the data in the region"),
    ],
)
def test_each_costly_route_has_its_advice(usage, words):
    """Bytes between zones do not pass a NAT gateway."""
    (advice,) = only(judged(("AmazonEC2", usage, usual(900, 4.0)))).suggestions
    assert words in advice


def test_a_few_dollars_are_not_told():
    assert judged(("AmazonS3", "Requests-Tier1", usual(18, 3.0))).anomalies == ()


def test_weekends_that_always_cost_less_make_no_monday_jump():
    days = [FIRST + i * DAY for i in range(20)]
    assert (
        judged(
            ("AmazonEC2", "Serving", np.array([40.0 if d.weekday() >= 5 else 100.0 for d in days]))
        ).anomalies
        == ()
    )


def test_a_fee_at_the_start_of_the_month_is_none():
    series = usual(100)
    series[-2] = 900  # 2026-11-01
    assert judged(("AWSSupport", "Support", series)).anomalies == ()


def test_money_that_changes_its_line_is_none():
    old, new = usual(0.0), np.zeros(20)
    new[-1] = 100
    assert (
        judged(("AmazonS3", "TimedStorage", old), ("AmazonS3", "TimedStorage-INT", new)).anomalies
        == ()
    )


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
def test_a_new_cluster_in_use_is_no_jump_where_nothing_was_before(busy, told):
    now = START + 9 * DAY
    lines = [(HOURS_OF, {"cluster": "llama"}, 10000.0, 99), (HOURS_OF, {"cluster": "lab"}, 2060.0, 3),
             ("USW2-EBS:VolumeUsage.gp3", {"cluster": "lab"}, 20.0, 3)]  # fmt: skip
    world = World(Fleet(2, days=10), joined_at(5, busy), frames={"spend": tagged_bill(now, *lines)})
    assert (Cause.SPEND_JUMP in [a.cause for a in world.at(now).anomalies]) is told


@pytest.mark.parametrize(("busy", "told"), [(True, False), (False, True)])
def test_a_project_that_grew_by_a_new_cluster_in_use_is_no_jump(busy, told):
    now = START + 9 * DAY
    vega = {"project": "vega"}
    lines = [(HOURS_OF, {"cluster": "llama"}, 10000.0, 99), (HOURS_OF, {"cluster": "old", **vega}, 700.0, 99),
             (HOURS_OF, {"cluster": "lab", **vega}, 2060.0, 3)]  # fmt: skip
    world = World(Fleet(2, days=10), joined_at(5, busy), frames={"spend": tagged_bill(now, *lines)})
    assert (Cause.SPEND_JUMP in [a.cause for a in world.at(now).anomalies]) is told


@pytest.mark.parametrize(
    ("busy", "growth", "told"),
    [(True, 400.0, False), (True, 1300.0, True), (False, 400.0, True)],
    ids=["no jump alone", "a jump alone", "nothing explains it"],
)
def test_beside_a_new_cluster_in_use_only_the_remainder_of_a_growth_is_judged(busy, growth, told):
    now, vega = START + 9 * DAY, {"project": "vega"}
    lines = [(HOURS_OF, {"cluster": "llama"}, 20000.0, 99), (HOURS_OF, {"cluster": "lab", **vega}, 2060.0, 3),
             (HOURS_OF, {"cluster": "old", **vega}, 3000.0, 99)]  # fmt: skip
    frame = tagged_bill(now, *lines)
    frame.values[2, -4:-1, 0] += growth
    world = World(Fleet(20, days=10), joined_at(5, busy), frames={"spend": frame})
    assert (Cause.SPEND_JUMP in [a.cause for a in world.at(now).anomalies]) is told


@pytest.mark.parametrize(("busy", "told"), [(True, False), (False, True)])
def test_a_new_type_is_not_new_spend_while_every_node_of_it_works(busy, told):
    now = START + 9 * DAY
    lines = [(HOURS_OF, {}, 1000.0, 99), ("USW2-BoxUsage:trn1n.32xlarge", {}, 2060.0, 3)]
    world = World(
        Fleet(2, days=10),
        joined_at(5, busy, "trn1n.32xlarge"),
        frames={"spend": tagged_bill(now, *lines)},
    )
    assert (Cause.SPEND_NEW in [a.cause for a in world.at(now).anomalies]) is told


@pytest.mark.parametrize(("usd", "told"), [(120.0, False), (900.0, True)])
def test_storage_that_comes_along_with_a_new_cluster_in_use_is_no_jump(usd, told):
    now = START + 9 * DAY
    lines = [(HOURS_OF, {"cluster": "llama"}, 1000.0, 99), (HOURS_OF, {"cluster": "lab"}, 2060.0, 3),
             ("TimedStorage-ByteHrs", {}, 150.0, 99), ("TimedStorage-ByteHrs", {"cluster": "lab"}, usd, 3)]  # fmt: skip
    world = World(Fleet(2, days=10), joined_at(5), frames={"spend": tagged_bill(now, *lines)})
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


def test_requests_that_grow_far_more_than_the_nodes_in_use_are_a_jump():
    now = START + 9 * DAY
    lines = [(HOURS_OF, {"cluster": "llama"}, 10000.0, 99), ("Requests-Tier2", {"cluster": "llama"}, 5.0, 99),
             ("Requests-Tier2", {"cluster": "llama", "team": "x"}, 0.0, 99)]  # fmt: skip
    frame = tagged_bill(now, *lines)
    frame.values[0, -4:-1, 0], frame.values[1, -4:-1, 0] = 14000.0, 105.0
    fleet = Fleet(8, days=10).stop(START, START + 5 * DAY, slice(5, 8))
    jumps = [
        a
        for a in World(fleet, frames={"spend": frame}).at(now).anomalies
        if a.cause is Cause.SPEND_JUMP
    ]
    assert [one.things for one in jumps] == [("Requests-Tier2",)]


def test_nodes_that_end_do_not_hide_bytes_that_leave_their_route():
    ended = usual(100.0, 5000.0)
    found = judged(
        ("AmazonEC2", HOURS_OF, ended), ("AmazonEC2", "USW2-NatGateway-Bytes", usual(600, 30.0))
    )
    assert only(found).cause is Cause.TRANSFER_ROUTE


def test_spot_hours_that_are_billed_on_demand_are_a_jump_and_nothing_new():
    spot, demand = usual(0.0, 1300.0), np.zeros(20)
    demand[-1] = 5000
    found = judged(
        ("AmazonEC2", "USW2-SpotUsage:trn1.32xlarge", spot), ("AmazonEC2", HOURS_OF, demand)
    )
    assert only(found).cause is Cause.SPEND_JUMP


@pytest.mark.parametrize(("watched", "told"), [(True, False), (False, True)])
def test_an_unused_reservation_is_not_told_again_from_the_late_bill_after_it_ended(watched, told):
    grown = np.zeros(20)
    grown[-1] = 3000
    world = World(
        Fleet(2, days=2.5),
        frames={"spend": bill(("AmazonEC2", "USW2-UnusedBox:trn1.32xlarge", grown))},
    )
    labels = Labels(resource="cr-1", instance_type="trn1.32xlarge", region="us-west-2")
    world.more["inventory"] = {"reservations": (Reservation(labels, 8, 8, NOW - 2 * DAY, None),)}
    (first,) = world.at(NOW - 30 * HOUR).anomalies
    world.more["inventory"] = {}
    world._inventories.clear()
    world.known = [
        Alert("a1", first, NOW - 30 * HOUR, NOW - 26 * HOUR, closed=NOW - 25 * HOUR)
    ] * watched
    assert [a.cause for a in world.at(NOW).anomalies] == [Cause.UNUSED_CAPACITY] * told


def test_a_young_bill_is_not_judged():
    frames = {
        "spend": bill(
            ("AmazonS3", "Requests-Tier1", np.array([1.0, 1, 1, 500])), first=NOW - 5 * DAY
        )
    }
    assert World(Fleet(2, days=2.5), frames=frames).at(NOW).anomalies == ()


def tagged(*parts, days=20):
    """Return a spend frame of (team, usage type, USD a day) things in S3 of one account."""
    things = tuple(
        Labels(
            account="1",
            region="us-west-2",
            service="AmazonS3",
            usage_type=u,
            team=t,
            cluster=f"{t}-1",
        )
        for t, u, _ in parts
    )
    values = np.full((len(parts), days + 1, 1), np.nan, np.float32)
    for i, (_, _, usd) in enumerate(parts):
        values[i, :days, 0] = usd
    return Frame("spend", things, NOW - (days + 1) * DAY, DAY, (SPEND_METRIC,), values)


def judged_frames(**frames):
    return World(Fleet(2, days=2.5), frames=frames).at(NOW)


def test_a_jump_names_the_team_that_explains_it():
    teams = [
        (t, "Requests-Tier1", usual(340 if t == "search" else 100))
        for t in ("vision", "search", "agents")
    ]
    jump = only(judged_frames(spend=tagged(*teams)))
    assert (jump.labels.team, jump.labels.cluster) == ("search", "search-1")
    assert (
        "of it: Requests-Tier1 in us-west-2, account 1, cluster search-1, team search." in jump.why
    )
    assert jump.scope == Labels(account="1", region="us-west-2", service="AmazonS3")


def test_many_small_growths_of_one_team_add_up():
    lines = [("search", f"Requests-Tier{i}", usual(27, 10.0)) for i in range(6)]
    calm = [(t, "TimedStorage", usual(300, 300.0)) for t in ("vision", "agents")]
    jump = only(judged_frames(spend=tagged(*lines, *calm)))
    assert (jump.cause, jump.scope) == (Cause.SPEND_JUMP, Labels(cluster="search-1"))
    assert jump.usd_per_hour == pytest.approx(Decimal(4), abs=Decimal("0.6"))


def test_the_five_things_that_grew_most_are_the_evidence():
    lines = [("search", f"Requests-Tier{i}", usual(27 + 20 * i, 10.0)) for i in range(7)]
    jump = only(judged_frames(spend=tagged(*lines)))
    named = [words.split()[0] for words in jump.evidence if "a day more" in words]
    assert named == [f"Requests-Tier{i}" for i in (6, 5, 4, 3, 2)]


def hourly(line, usd):
    """Return a frame of 20 days by the hour that ends at 05:00 after the last settled day."""
    n = 20 * 24 + 5
    values = np.full((1, n, 1), 1.0, np.float32)
    values[0, n - len(usd) :, 0] = usd
    start = NOW - DAY + 5 * HOUR - n * HOUR
    return Frame("spend_hour", (line,), start, HOUR, (SPEND_METRIC,), values)


S3 = Labels(account="1", region="us-west-2", service="AmazonS3", usage_type="Requests-Tier1")
SETTLED = bill(("AmazonS3", "Requests-Tier1", usual(24, 24.0)))


@pytest.mark.parametrize(
    ("usd", "told"),
    [
        ([40, 40, 40], True),
        ([1, 40, 40, 1, 40], False),  # not three hours in a row
        ([5, 5, 5], False),  # $12 more: too little
        ([40, 40, 40, 1, 1], True),  # over, and its day has not settled
    ],
)
def test_a_burst_is_told_before_its_day_has_settled(usd, told):
    found = judged_frames(spend=SETTLED, spend_hour=hourly(S3, usd)).anomalies
    assert [(a.cause, a.scope) for a in found] == [
        (Cause.SPEND_JUMP, S3.only(("account", "region", "service")))
    ] * told


def test_a_burst_says_its_hours_and_usd_an_hour():
    burst = only(judged_frames(spend=SETTLED, spend_hour=hourly(S3, [40, 40, 40])))
    assert "cost $40.00 an hour from Nov 3, 02:00 to 05:00 UTC, usually $1.00" in burst.why
    assert burst.usd_per_hour == pytest.approx(Decimal(39), abs=Decimal("0.1"))
    assert (burst.unit, burst.kind) == ("USD per hour", "spend_hour")


def test_hours_that_always_cost_more_are_no_burst():
    frame = hourly(S3, [1])
    frame.values[0, ::24, 0] = frame.values[0, 1::24, 0] = frame.values[0, 2::24, 0] = 40
    for end in range(3):
        shown = Frame(
            "spend_hour", (S3,), frame.start - end * HOUR, HOUR, (SPEND_METRIC,), frame.values
        )
        assert judged_frames(spend=SETTLED, spend_hour=shown).anomalies == ()


def test_a_nightly_job_that_runs_later_is_no_burst():
    frame = hourly(S3, [1])
    for day in range(19):
        frame.values[0, day * 24 + 10 : day * 24 + 14, 0] = 40
    frame.values[0, 19 * 24 + 16 : 19 * 24 + 20, 0] = 40
    assert judged_frames(spend=SETTLED, spend_hour=frame).anomalies == ()


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


@pytest.mark.parametrize(("busy", "found"), [(True, 0), (False, 1)], ids=["works", "stands"])
def test_the_market_sets_the_price_of_spot_for_nodes_that_work(busy, found):
    """As many nodes as ever, at a price that rose by two fifths."""
    fleet = Fleet(8, days=10)
    if not busy:
        fleet.stop(START + 6 * DAY, START + 10 * DAY)
    now = START + 9 * DAY
    days = (now - FIRST) // DAY
    usd = np.where(np.arange(days) < days - 3, 1400.0, 2000.0)
    labels = Labels(
        account="1",
        region="us-west-2",
        service="AmazonEC2",
        usage_type="USW2-SpotUsage:trn1.32xlarge",
        cluster="llama",
    )
    spend = Frame(
        "spend", (labels,), FIRST, DAY, (SPEND_METRIC,), usd[None, :, None].astype(np.float32)
    )
    anomalies = World(fleet, frames={"spend": spend}).at(now).anomalies
    assert sum(anomaly.cause is Cause.SPEND_JUMP for anomaly in anomalies) == found


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


SPOT_HOURS = "USW2-SpotUsage:trn1.32xlarge"


@pytest.mark.parametrize("repriced", [("spot",), ("spot", "lab")])
def test_a_jump_leaves_out_a_cluster_that_grew_in_the_same_line_with_its_own_use(repriced):
    """One cluster has more nodes at work; those of the others are on demand now and were spot."""
    lines = {(HOURS_OF, "work"): (2000.0, 4200.0)}
    for cluster in repriced:
        lines[HOURS_OF, cluster] = (0.0, 3000.0)
        lines[SPOT_HOURS, cluster] = (600.0, 0.0)
    (jump,) = jumps_of(fleets_of("work", *repriced), lines)
    assert jump.billed
    assert jump.billed.usd == pytest.approx(Decimal(len(repriced) * 2 * (3000 - 600)))
    assert jump.evidence[-1] == "cluster work grew by its busy nodes, which is not counted"


def test_growth_beside_a_cluster_that_grew_with_its_use_is_no_jump_where_it_is_little():
    lines = {(HOURS_OF, "work"): (28.0, 56.0), (HOURS_OF, "lab"): (20.0, 35.0)}
    assert jumps_of(fleets_of("work", "lab"), lines) == []


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
