"""Stories of a bill: lines that grow by the day and by the hour, fees, budgets, and what AWS finds itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal

import numpy as np
from builder import START, Fleet, World, hours
from stories import NAN, policy, story

from bot.model.fleet import Reservation
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.model.reading import BILLED_METRIC, SPEND_METRIC
from bot.model.spend import Commitment, CommitmentPlan, Finding
from bot.policy.schema import default_policy

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
CALM = policy(odd__on=False)
FIRST = datetime(2026, 10, 14, tzinfo=START.tzinfo)
HOURS_OF = "USW2-BoxUsage:trn1.32xlarge"
SPOT_HOURS = "USW2-SpotUsage:trn1.32xlarge"
PLAN = "EC2SP:trn1.1yrNoUpfront"


def thing(usage: str, service: str = "AmazonEC2", **labels: str) -> Labels:
    place = Labels(account="1", region="us-west-2", service=service, usage_type=usage)
    return place.merge(Labels(**labels))


S3 = thing("Requests-Tier1", "AmazonS3")
NAT = thing("USW2-NatGateway-Bytes")
FEE = thing(PLAN, "ComputeSavingsPlans")
Lines = Mapping[Labels, Sequence[float] | float]


def by_day(
    lines: Lines, until: datetime, first: datetime = FIRST, fees: Lines | None = None
) -> Frame:
    """Return USD a day of some lines: a number is each day's, a row is that of the newest days after the first number.

    The day before `until` has not settled. `fees` are what was billed.
    """
    days = (until - first) // DAY
    values = np.full((len(lines), days, 2), NAN, np.float32)
    for column, part in enumerate((lines, fees or {})):
        for row, usd in enumerate(part.values()):
            series = np.atleast_1d(np.asarray(usd, dtype=np.float32))[-days + 1 :]
            values[row, : days - 1, column] = series[0]
            values[row, days - 1 - len(series) : days - 1, column] = series
    return Frame("spend", tuple(lines), first, DAY, (SPEND_METRIC, BILLED_METRIC), values)


def by_hour(lines: Lines, until: datetime, days: int = 20) -> Frame:
    """Return USD an hour of some lines up to a time, as `by_day`."""
    n = days * 24 + until.hour
    values = np.zeros((len(lines), n, 1), np.float32)
    for row, usd in enumerate(lines.values()):
        series = np.atleast_1d(np.asarray(usd, dtype=np.float32))
        values[row, :, 0] = series[0]
        values[row, max(0, n - len(series)) :, 0] = series[-n:]
    return Frame("spend_hour", tuple(lines), until - n * HOUR, HOUR, (SPEND_METRIC,), values)


class Billed(World):
    """Read fleets and a bill that comes late: each look sees what the function gives for it."""

    def reading(self, now: datetime):
        found = super().reading(now)
        frames = {**found.frames, **self.more["bill"](now)}
        return replace(found, frames=frames, **self.more.get("said", {}))


NOW = START + 2 * DAY
"""2026-11-04; the day of 11-02 has settled."""


def billed(
    days: Lines,
    by_hours: Lines | None = None,
    *fleets: Fleet,
    until: datetime = NOW,
    settled_hours: int = 5,
    rules: Policy = CALM,
    **more: object,
) -> World:
    """Return a world whose bill is the same at each look."""
    frames = {"spend": by_day(days, until, fees=more.pop("fees", None))}
    if by_hours:
        frames["spend_hour"] = by_hour(by_hours, until - DAY + settled_hours * HOUR)
    fleets = fleets or (Fleet(2, days=2.5),)
    return Billed(*fleets, bill=lambda _: frames, policy=rules, **more)


def noisy(last: Sequence[float], level: float = 100.0, days: int = 20) -> np.ndarray:
    """Return days of a steady level with a little noise, the newest of which are given."""
    series = level + np.random.default_rng(0).normal(0, 0.02 * level, days)
    series[len(series) - len(last) :] = last
    return series


@story("bill", 48, 49)
def one_line_costs_three_times_as_much_on_its_newest_day():
    return billed({S3: noisy([340.0])})


@story("bill", 48)
def one_line_has_cost_more_for_three_days():
    return billed({S3: [24.0] * 17 + [264.0, 384.0, 144.0]})


@story("bill", 48)
def one_line_has_cost_far_more_on_a_day_and_more_since():
    return billed({S3: [24.0] * 17 + [1024.0, 74.0, 84.0]})


@story("bill", 48, 96)
def an_alert_that_is_as_old_as_what_is_known_of_the_bill_counts_its_newest_days_alone():
    world, usd = billed({}, None, Fleet(2, days=6.5)), [24.0] * 17 + [264.0] * 3 + [400.0] * 2
    world.more["bill"] = lambda now: {
        "spend": by_day({S3: usd[: (now - FIRST) // DAY - 1]}, now, now - 12 * DAY)
    }
    return world


@story("bill", 48, 72, 96)
def a_line_costs_more_again_after_a_calm_day():
    world, usd = billed({}, None, Fleet(2, days=4.5)), [24.0] * 19 + [264.0, 30.0, 400.0]
    world.more["bill"] = lambda now: {"spend": by_day({S3: usd[: (now - FIRST) // DAY - 1]}, now)}
    return world


@story("bill", 48)
def one_line_of_a_service_grew_two_days_after_another():
    later = thing("Requests-Tier2", "AmazonS3")
    return billed({S3: [24.0] * 17 + [264.0] * 3, later: [24.0] * 19 + [264.0]})


@story("bill", 48)
def a_bill_that_names_nothing_but_what_was_used():
    return billed({Labels(usage_type="Requests-Tier1"): noisy([340.0])})


@story("bill", 48, 96, 288)
def a_line_that_cost_more_for_a_day_does_so_again_ten_days_later():
    """What it cost in between, and the first time, is none of the second alert."""
    world = billed({}, None, Fleet(2, days=12.5))
    usd = [100.0] * 19 + [340.0] + [110.0] * 9 + [340.0]
    world.more["bill"] = lambda now: {"spend": by_day({S3: usd[: (now - FIRST) // DAY - 1]}, now)}
    return world


@story("bill", 48)
def a_few_dollars_and_a_line_that_grew_by_a_quarter():
    return billed({S3: noisy([18.0], 3.0), NAT: noisy([1250.0], 1000.0)})


@story("bill", 48)
def lines_of_a_dollar_a_day_and_of_twelve():
    return billed({S3: noisy([30.0], 1.0), NAT: noisy([64.0], 12.0)})


@story("bill", 48)
def a_type_that_was_never_billed_before():
    return billed(
        {
            thing("USW2-BoxUsage:p5.48xlarge"): [0.0] * 19 + [1300.0],
            thing("New", "AmazonSQS"): [0.0] * 19 + [15.0],
        }
    )


@story("bill", 48)
def bytes_take_each_costly_route():
    regional, out = thing("USW2-DataTransfer-Regional-Bytes"), thing("USW2-USE1-AWS-Out-Bytes")
    return billed({NAT: noisy([900.0], 4.0), regional: noisy([80.0], 4.0), out: noisy([70.0], 4.0)})


@story("bill", 48)
def the_fee_of_a_plan_and_an_empty_reservation_grow():
    reserved = thing("USW2-HeavyUsage:trn1.32xlarge")
    empty = thing("USW2-UnusedBox:trn1.32xlarge")
    return billed(
        {FEE: noisy([900.0], 90.0), reserved: noisy([700.0], 70.0), empty: noisy([900.0], 10.0)}
    )


@story("bill", 48)
def weekends_and_the_first_of_a_month_are_no_jumps():
    days = [FIRST + i * DAY for i in range(20)]
    weekends = [40.0 if day.weekday() >= 5 else 100.0 for day in days]
    support = noisy([900.0, 100.0])
    return billed({thing("Serving"): weekends, thing("Support", "AWSSupport"): support})


@story("bill", 48)
def a_bill_of_eleven_days_knows_its_weekends():
    first = NOW - 12 * DAY
    usd = [40.0 if (first + i * DAY).weekday() >= 5 else 100.0 for i in range(10)]
    frames = {"spend": by_day({S3: [*usd, 340.0]}, NOW, first)}
    return Billed(Fleet(2, days=2.5), bill=lambda _: frames, policy=CALM)


@story("bill", 48)
def money_changes_its_line():
    before, after = thing("TimedStorage", "AmazonS3"), thing("TimedStorage-INT", "AmazonS3")
    spot, demand = thing(SPOT_HOURS), thing(HOURS_OF)
    return billed(
        {
            before: noisy([0.0]),
            after: [0.0] * 19 + [100.0],
            spot: noisy([0.0], 1300.0),
            demand: [0.0] * 19 + [5000.0],
        }
    )


@story("bill", 48)
def more_than_half_of_a_growth_came_from_another_line_and_less_of_another():
    lines = {}
    for account, remaining in (("1", 45.0), ("2", 60.0)):
        lines[thing("TimedStorage", "AmazonS3", account=account)] = [100.0] * 19 + [remaining]
        lines[thing("TimedStorage-INT", "AmazonS3", account=account)] = [0.0] * 19 + [100.0]
    return billed(lines)


@story("bill", 48)
def a_young_bill_is_not_judged():
    lines = {S3: [1.0, 1, 1, 500]}
    return Billed(Fleet(2, days=2.5), bill=lambda _: {"spend": by_day(lines, NOW, NOW - 5 * DAY)})


@story("bill", 48)
def a_jump_names_the_team_that_explains_it():
    teams = ("vision", "search", "agents")
    return billed(
        {
            replace(S3, team=x, cluster=f"{x}-1"): noisy([340.0 if x == "search" else 100.0])
            for x in teams
        }
    )


@story("bill", 48)
def a_jump_that_two_teams_and_three_regions_share():
    places = [
        (team, region)
        for team in ("vision", "search")
        for region in ("us-west-2", "us-east-1", "eu-north-1")
    ]
    return billed(
        {replace(S3, team=team, region=region): noisy([300.0]) for team, region in places}
    )


@story("bill", 48)
def of_two_tags_the_one_whose_share_moved_farther_is_named_first():
    growths = {("a", "p"): 1300.0, ("a", "q"): 360.0, ("b", "p"): 300.0, ("a", "r"): 20.0}
    usual = {("b", "p"): 2000.0, ("c", "p"): 1000.0}
    places = dict.fromkeys([*growths, *usual])
    return billed(
        {
            replace(S3, cluster=x, team=y): [usual.get((x, y), 0.0)] * 19
            + [usual.get((x, y), 0.0) + growths.get((x, y), 10.0)]
            for x, y in places
        }
    )


def tagged(
    usual: Mapping[tuple[str, str], float], growth: Mapping[tuple[str, str], float]
) -> World:
    """Return one line of clusters and teams, with USD a day of each and by how many it grew."""
    lines = {}
    for cluster, team in dict.fromkeys([*usual, *growth]):
        before, more = usual.get((cluster, team), 0.0), growth.get((cluster, team), 0.0)
        lines[replace(S3, cluster=cluster, team=team)] = [before] * 19 + [before + more]
    return billed(lines)


@story("bill", 48)
def a_team_that_is_new_explains_more_than_a_cluster_that_cost_much_before():
    usual = {("a", "q"): 500.0, ("c", "r"): 500.0}
    return tagged(usual, {("a", "p"): 700.0, ("a", "q"): 200.0, ("b", "p"): 100.0})


@story("bill", 48)
def a_cluster_that_holds_nearly_all_of_a_growth_explains_more_than_its_team():
    usual = {("a", "p"): 100.0, ("c", "r"): 900.0}
    return tagged(usual, {("a", "p"): 750.0, ("a", "q"): 200.0, ("b", "p"): 50.0})


@story("bill", 48)
def a_bill_that_begins_later_than_what_is_read_of_it():
    return billed({S3: [NAN] * 6 + [100.0] * 13 + [340.0]})


@story("bill", 48)
def one_of_thirty_clusters_grows_and_the_others_shrink():
    lines = {replace(S3, cluster=f"tune-{i:02d}"): noisy([1.0], 3.0) for i in range(30)}
    return billed(lines | {replace(S3, cluster="sweep"): noisy([160.0], 3.0)})


@story("bill", 48)
def many_small_growths_of_one_team_add_up():
    calm = {
        replace(S3, usage_type="TimedStorage", team=x): noisy([300.0], 300.0)
        for x in ("vision", "agents")
    }
    small = {
        thing(f"Requests-Tier{i}", "AmazonS3", team="search", cluster="search-1"): noisy(
            [27.0], 10.0
        )
        for i in range(6)
    }
    return billed({**calm, **small})


@story("bill", 48)
def a_service_grew_and_a_team_that_has_little_of_it_and_as_much_elsewhere():
    teams = ["search"] * 3 + ["vision"] * 5
    lines = [thing(f"Requests-Tier{i}", "AmazonS3", team=team) for i, team in enumerate(teams)]
    services = {"Notifications": "AmazonSNS", "Messages": "AmazonSQS", "Scans": "AmazonAthena"}
    lines += [thing(usage, services[usage], team="search") for usage in services]
    return billed({line: [10.0, 27.0] for line in lines})


@story("bill", 48)
def seven_things_grew():
    return billed(
        {
            thing(f"Requests-Tier{i}", "AmazonS3", team="search"): noisy([27.0 + 20 * i], 10.0)
            for i in range(7)
        }
    )


@story("bill", 24, 48, 72)
def a_team_has_limits_of_its_own():
    rules = replace(CALM, overrides=((Labels(team="search"), "spend_jump.least", 500.0),))
    return billed({replace(S3, team=x): noisy([340.0]) for x in ("vision", "search")}, rules=rules)


# Growth that the use of nodes explains.


def scaled_up(busy: bool, joined_after: float = 6) -> Fleet:
    """Return eight nodes of which four join on a day, and work or not."""
    fleet, late = Fleet(8, days=10), START + joined_after * DAY
    fleet.stop(START, late, slice(4, 8))
    return fleet if busy else fleet.stop(late, START + 10 * DAY, slice(4, 8))


GROWN = [2000.0] * 20 + [4200.0] * 3
USED = START + 9 * DAY


@story("use", 216)
def a_scale_up_that_is_used():
    return billed({thing(HOURS_OF): GROWN}, None, scaled_up(busy=True), until=USED)


@story("use", 216)
def a_scale_up_that_is_not_used():
    return billed({thing(HOURS_OF): GROWN}, None, scaled_up(busy=False), until=USED)


def in_shifts(hours_a_day: float) -> World:
    """Return four nodes that came at more than twice the price, and work for some hours of a day."""
    fleet = scaled_up(busy=True)
    for day in range(6, 10):
        begins = START + day * DAY
        fleet.stop(begins + hours_a_day * HOUR, begins + DAY, slice(4, 8))
    return billed({thing(HOURS_OF): since_three_days(6200, 2000)}, None, fleet, until=USED)


@story("use", 216)
def nodes_that_work_for_more_than_half_of_a_day_are_used_all_day():
    return in_shifts(14)


@story("use", 216)
def nodes_that_work_for_less_than_half_of_a_day_are_used_for_these_hours():
    return in_shifts(10)


def for_some_hours(busy: bool) -> World:
    """Return four nodes that came four hours before the newest hour that is billed."""
    fleet = scaled_up(busy, joined_after=8 + 1 / 24)
    hourly = {thing(HOURS_OF): [86.0] + [172.0] * 4}
    return billed({thing(HOURS_OF): 2064.0}, hourly, fleet, until=USED)


@story("use", 216)
def a_scale_up_of_some_hours_that_is_used():
    return for_some_hours(busy=True)


@story("use", 216)
def a_scale_up_of_some_hours_that_is_not_used():
    return for_some_hours(busy=False)


@story("use", 216)
def for_some_hours_one_cluster_grew_by_its_use_and_another_by_its_price():
    ours, theirs = thing(HOURS_OF, cluster="llama"), thing(HOURS_OF, cluster="lab")
    hourly = {ours: [86.0] + [172.0] * 4, theirs: [20.0] + [170.0] * 4}
    fleets = scaled_up(busy=True, joined_after=8 + 1 / 24), Fleet(2, days=10, cluster="lab")
    return billed({ours: 2064.0, theirs: 480.0}, hourly, *fleets, until=USED)


@story("use", 216)
def as_many_spot_nodes_at_a_higher_price_work():
    return billed(
        {thing(SPOT_HOURS, cluster="llama"): [1400.0] * 20 + [2000.0] * 3},
        None,
        Fleet(8, days=10),
        until=USED,
    )


@story("use", 216)
def as_many_spot_nodes_at_a_higher_price_of_which_half_work():
    fleet = Fleet(8, days=10).stop(START, START + 10 * DAY, slice(4, 8))
    lines = {thing(SPOT_HOURS, cluster="llama"): [1400.0] * 20 + [2000.0] * 3}
    return billed(lines, None, fleet, until=USED)


@story("use", 216)
def as_many_spot_nodes_at_a_higher_price_stand():
    fleet = Fleet(8, days=10).stop(START + 6 * DAY, START + 10 * DAY)
    return billed(
        {thing(SPOT_HOURS, cluster="llama"): [1400.0] * 20 + [2000.0] * 3}, None, fleet, until=USED
    )


def joined(day: float, busy: bool = True, instance_type: str = "trn1.32xlarge") -> Fleet:
    """Return a cluster `lab` whose 4 nodes first report on a day, and work or not."""
    late = Fleet(4, days=10, cluster="lab", instance_type=instance_type)
    late.silence(START, START + day * DAY)
    return late if busy else late.stop(START + day * DAY, START + 10 * DAY)


def since_three_days(usd: float, before: float = 0.0) -> list[float]:
    return [before] * 20 + [usd] * 3


@story("use", 216)
def a_new_cluster_in_use_costs_and_its_storage_comes_along():
    lines = {
        thing(HOURS_OF, cluster="llama"): 10_000.0,
        thing(HOURS_OF, cluster="lab"): since_three_days(2060),
    }
    lines[thing("USW2-EBS:VolumeUsage.gp3", cluster="lab")] = since_three_days(20)
    return billed(lines, None, Fleet(2, days=10), joined(5), until=USED)


@story("use", 216)
def a_new_cluster_in_use_is_far_dearer_than_nodes_elsewhere():
    lines = {
        thing(HOURS_OF, cluster="llama"): 1000.0,
        thing(HOURS_OF, cluster="lab"): since_three_days(6000),
    }
    return billed(lines, None, Fleet(2, days=10), joined(5), until=USED)


@story("use", 216)
def a_new_cluster_that_nobody_uses():
    lines = {
        thing(HOURS_OF, cluster="llama"): 10_000.0,
        thing(HOURS_OF, cluster="lab"): since_three_days(2060),
    }
    return billed(lines, None, Fleet(2, days=10), joined(5, busy=False), until=USED)


@story("use", 216)
def a_project_grew_by_a_new_cluster_in_use_and_a_little_more():
    lines = {
        thing(HOURS_OF, cluster="llama"): 20_000.0,
        thing(HOURS_OF, cluster="lab", project="vega"): since_three_days(2060),
    }
    lines[thing(HOURS_OF, cluster="old", project="vega")] = since_three_days(3400, 3000)
    return billed(lines, None, Fleet(20, days=10), joined(5), until=USED)


@story("use", 216)
def a_project_grew_by_a_new_cluster_in_use_and_much_more():
    lines = {
        thing(HOURS_OF, cluster="llama"): 20_000.0,
        thing(HOURS_OF, cluster="lab", project="vega"): since_three_days(2060),
    }
    lines[thing(HOURS_OF, cluster="old", project="vega")] = since_three_days(4300, 3000)
    return billed(lines, None, Fleet(20, days=10), joined(5), until=USED)


@story("use", 216)
def a_new_type_works_on_every_node():
    lines = {thing(HOURS_OF): 1000.0, thing("USW2-BoxUsage:trn1n.32xlarge"): since_three_days(2060)}
    return billed(lines, None, Fleet(2, days=10), joined(5, True, "trn1n.32xlarge"), until=USED)


@story("use", 216)
def a_new_type_stands_on_every_node():
    lines = {thing(HOURS_OF): 1000.0, thing("USW2-BoxUsage:trn1n.32xlarge"): since_three_days(2060)}
    return billed(lines, None, Fleet(2, days=10), joined(5, False, "trn1n.32xlarge"), until=USED)


def storage(usd: float) -> World:
    """Return a new cluster in use whose storage costs so much a day."""
    lines = {
        thing(HOURS_OF, cluster="llama"): 1000.0,
        thing(HOURS_OF, cluster="lab"): since_three_days(2060),
    }
    lines[thing("TimedStorage-ByteHrs", "AmazonS3")] = 150.0
    lines[thing("TimedStorage-ByteHrs", "AmazonS3", cluster="lab")] = since_three_days(usd)
    return billed(lines, None, Fleet(2, days=10), joined(5), until=USED)


@story("use", 216)
def storage_of_a_twentieth_of_the_nodes_price_comes_along():
    return storage(120)


@story("use", 216)
def storage_of_nearly_half_of_the_nodes_price_does_not():
    return storage(900)


@story("use", 216)
def storage_comes_along_with_nodes_that_came_on_two_days():
    lines = {
        thing(HOURS_OF, cluster="llama"): 1000.0,
        thing(HOURS_OF, cluster="lab"): [0.0] * 20 + [700.0, 2060.0],
    }
    lines[thing("USW2-EBS:VolumeUsage.gp3", cluster="lab")] = [0.0] * 20 + [50.0, 150.0]
    return billed(lines, None, Fleet(2, days=10), joined(6), until=USED)


@story("use", 216)
def storage_that_was_there_before_its_nodes_grows():
    volumes = thing("USW2-EBS:VolumeUsage.gp3", cluster="lab")
    return billed({volumes: since_three_days(90, 50)}, None, joined(5), until=USED)


@story("use", 216)
def requests_grow_with_the_nodes_and_others_far_more():
    lines = {thing(HOURS_OF, cluster="llama"): since_three_days(14_000, 10_000)}
    lines[thing("Requests-Tier1", "AmazonS3", cluster="llama")] = since_three_days(150, 100)
    lines[thing("Requests-Tier2", "AmazonS3", cluster="llama")] = since_three_days(105, 5)
    fleet = Fleet(8, days=10).stop(START, START + 5 * DAY, slice(5, 8))
    return billed(lines, None, fleet, until=USED)


@story("use", 216)
def many_small_growths_are_more_than_what_comes_along_with_new_nodes_in_use():
    lines = {
        thing(HOURS_OF, cluster="llama"): 1000.0,
        thing(HOURS_OF, cluster="lab"): since_three_days(2060),
    }
    for i in range(30):
        lines[thing(f"Requests-Tier{i}", "AmazonS3", cluster="lab")] = since_three_days(35, 20)
    return billed(lines, None, Fleet(2, days=10), joined(5), until=USED)


@story("use", 216)
def one_cluster_grew_by_its_use_and_two_by_their_price():
    lines = {thing(HOURS_OF, cluster="work"): since_three_days(4200, 2000)}
    for cluster in ("spot", "lab"):
        lines[thing(HOURS_OF, cluster=cluster)] = since_three_days(3000)
        lines[thing(SPOT_HOURS, cluster=cluster)] = since_three_days(0, 600)
    fleets = [Fleet(8, days=10, cluster=x, seed=i) for i, x in enumerate(("work", "spot", "lab"))]
    fleets[0].stop(START, START + 6 * DAY, slice(4, 8))
    return billed(lines, None, *fleets, until=USED)


@story("use", 216)
def growth_beside_a_cluster_in_use_is_little():
    lines = {
        thing(HOURS_OF, cluster="work"): since_three_days(56, 28),
        thing(HOURS_OF, cluster="lab"): since_three_days(35, 20),
    }
    fleets = [Fleet(8, days=10, cluster=x, seed=i) for i, x in enumerate(("work", "lab"))]
    fleets[0].stop(START, START + 6 * DAY, slice(4, 8))
    return billed(lines, None, *fleets, until=USED)


@story("use", 216)
def a_whole_account_grew_with_its_busier_nodes():
    lines = {
        thing(f"Requests-Tier{i}", "AmazonS3", cluster="llama"): since_three_days(21, 10.5)
        for i in range(8)
    }
    return billed(lines, None, scaled_up(busy=True), until=USED)


# Hours that no settled day holds yet.


def burst(*usd: float, settled: float | Sequence[float] = 24.0, **more: object) -> World:
    """Return a line that costs a dollar an hour, and its newest hours."""
    return billed({S3: settled}, {S3: [1.0, *usd]}, **more)


@story("bursts", 48)
def three_hours_cost_forty_times_as_much():
    return burst(40, 40, 40)


@story("bursts", 48)
def three_hours_were_dear_and_are_over():
    return burst(41, 41, 41, 1, 1, 1)


@story("bursts", 48)
def a_burst_of_nineteen_hours_is_over():
    return burst(*[41] * 19, 1, 1, 1, 1)


@story("bursts", 48)
def an_hour_costs_less_than_a_dollar_more_for_longer_than_a_day():
    return burst(*[1.95] * 25)


@story("bursts", 48)
def an_hour_cost_less_than_a_dollar_more_for_longer_than_a_day():
    return burst(*[1.95] * 25, 1, 1, 1, 1)


@story("bursts", 48)
def nothing_is_billed_for_longer_than_rows_may_be_late():
    return burst(*[41] * 8, *[0] * 27, settled_hours=40)


@story("bursts", 7 * 24)
def a_weekend_costs_more_than_working_days_do():
    until = START + 7 * DAY
    through = until - DAY + 5 * HOUR
    times = [through - i * HOUR for i in range(20 * 24, 0, -1)]
    usd = [10.0 if time.weekday() >= 5 else 90.0 for time in times]
    usd[-22:] = [150.0] * 22
    days = [240.0 if (until - i * DAY).weekday() >= 5 else 2160.0 for i in range(21, 1, -1)]
    return billed({S3: days}, {S3: usd}, Fleet(2, days=7.5), until=until)


@story("bursts", 48)
def one_line_of_a_service_grew_by_the_day_and_another_by_the_hour():
    later = thing("Requests-Tier2", "AmazonS3")
    days = {S3: noisy([340.0]), later: 24.0}
    return billed(days, {S3: [4.0] + [14.0] * 29, later: [1.0, 41, 41, 41]})


@story("bursts", 48)
def two_lines_of_a_service_are_dear_at_hours_of_their_own():
    later = thing("Requests-Tier2", "AmazonS3")
    lines = {S3: [1.0, 41, 41, 41, 1, 1], later: [1.0, 41, 41, 41, 41]}
    return billed(dict.fromkeys(lines, 24.0), lines)


@story("bursts", 48)
def three_hours_of_a_line_that_was_never_billed_are_over():
    return billed({S3: 0.0}, {S3: [0.0, 41, 41, 41, 0, 0, 0]})


@story("bursts", 48)
def a_line_that_was_never_billed_began_before_the_hours_that_are_looked_at():
    return billed({S3: noisy([400.0, 960.0], 0.0)}, {S3: [0.0, *[40.0] * 45, *[0.0] * 4]})


@story("bursts", 48)
def three_dear_hours_are_not_in_a_row():
    return burst(1, 40, 40, 1, 40)


@story("bursts", 48)
def three_hours_cost_too_little_more():
    return burst(5, 5, 5)


@story("bursts", 48)
def two_rises_of_a_day_cost_too_little_each():
    return burst(6, 6, 6, 1, 1, 1, 6, 6, 6)


@story("bursts", 48)
def a_line_that_cost_something_a_week_ago_costs_far_more_for_hours():
    days, hourly = [0.0] * 13 + [24.0] + [0.0] * 6, [0.0] + [1.0] * 24 + [0.0] * 144 + [41.0] * 5
    return billed({S3: days}, {S3: hourly})


@story("bursts", 48)
def hours_that_were_never_billed_are_held_against_the_days():
    return billed({S3: 480.0}, {S3: [0.0] + [60.0] * 5})


@story("bursts", 48)
def the_first_hour_cost_far_more_than_the_newest():
    return burst(101, 11, 11, 11)


@story("bursts", 48)
def a_burst_of_a_day_began_low_and_is_lower_by_night():
    return burst(8, *[101] * 12, *[51] * 12)


@story("bursts", 48)
def a_burst_and_the_day_that_it_makes():
    return burst(*[40] * 10, settled=noisy([424.0], 24.0))


@story("bursts", 48)
def a_burst_goes_on_for_longer_than_a_day_after_the_day_that_settled():
    return burst(*[40] * 45, settled=noisy([424.0], 24.0), settled_hours=40)


@story("bursts", 48)
def nights_cost_more_and_noon_is_calm():
    nights = [41, 41, 41, *[1] * 21, 41, 41, 41, *[1] * 5]
    return burst(*nights, settled=noisy([144.0], 24.0))


@story("bursts", 48)
def a_nightly_job_runs_six_hours_later():
    night = [1.0] * 10 + [40.0] * 4 + [1.0] * 10
    return burst(*(night * 18), *[1.0] * 16, *[40.0] * 4, *[1.0] * 9)


@story("bursts", 48)
def hours_that_always_cost_more_are_no_burst():
    return burst(*([40.0, 40.0, 40.0] + [1.0] * 21) * 20, 40.0, 40.0, 40.0, 1.0, 1.0)


@story("bursts", 48)
def hours_that_were_dear_on_two_days_of_the_last_week_are_dearer():
    """One line did so yesterday and six days ago, the other six days ago and eight."""
    calm, dear = [1.0] * 24, [1.0] * 5 + [20.0] * 4 + [1.0] * 15
    newest = [1.0] * 5 + [40.0] * 4
    lines = {
        S3: [*calm * 2, *dear, *calm * 4, *dear, *newest],
        NAT: [*dear, *calm, *dear, *calm * 5, *newest],
    }
    return billed(dict.fromkeys(lines, 24.0), lines, settled_hours=9)


@story("bursts", 48)
def the_newest_rows_have_not_arrived():
    return burst(*[41] * 8, 0, 0, 0)


@story("bursts", 48)
def a_burst_reaches_the_end_of_a_settled_day():
    return burst(*[4.0] * 11, settled_hours=0)


@story("bursts", 48)
def nodes_of_a_burst_but_one_are_gone_though_the_bill_does_not_show_it_yet():
    through = NOW - DAY + 5 * HOUR
    fleet = Fleet(8, days=2.5).silence(NOW - 2 * DAY, through - 4 * HOUR, slice(4, 8))
    fleet.stop(through - 4 * HOUR, NOW + DAY / 2, slice(4, 8))
    fleet.silence(through + 3 * HOUR, NOW + DAY / 2, slice(5, 8))
    return billed({thing(HOURS_OF): 2064.0}, {thing(HOURS_OF): [86.0] + [172.0] * 4}, fleet)


@story("bursts", 48)
def the_only_node_of_a_burst_is_gone():
    through, node = NOW - DAY + 5 * HOUR, slice(3, 4)
    fleet = Fleet(4, days=2.5).silence(START, through - 4 * HOUR, node)
    fleet.stop(through - 4 * HOUR, through + 3 * HOUR, node)
    fleet.silence(through + 3 * HOUR, NOW + DAY / 2, node)
    return billed({thing(HOURS_OF): 1548.0}, {thing(HOURS_OF): [64.5] + [86.0] * 4}, fleet)


@story("bursts", 48)
def nodes_of_a_burst_are_gone_and_the_bill_shows_it():
    begun, over = NOW - DAY + HOUR, NOW - DAY + 5 * HOUR
    fleet = Fleet(8, days=2.5).silence(START, begun, slice(4, 8)).stop(begun, over, slice(4, 8))
    fleet.silence(over, NOW + DAY / 2, slice(4, 8))
    hourly = [86.0] + [172.0] * 4 + [86.0] * 4
    return billed({thing(HOURS_OF): 2064.0}, {thing(HOURS_OF): hourly}, fleet, settled_hours=9)


@story("bursts", 48)
def hours_changed_from_spot_to_on_demand():
    spot, demand = thing(SPOT_HOURS, cluster="sweep"), thing(HOURS_OF, cluster="sweep")
    days = {spot: [1440.0] * 19 + [0.0], demand: [0.0] * 19 + [4800.0]}
    return billed(days, {spot: [60.0] + [0.0] * 29, demand: [0.0] + [200.0] * 29})


@story("bursts", 48)
def one_team_grew_on_the_line_of_two():
    ours, theirs = replace(S3, team="search"), replace(S3, team="vision")
    return billed(
        {theirs: 240.0, ours: 24.0}, {theirs: [10.0] + [4.0] * 5, ours: [1.0] + [41.0] * 5}
    )


@story("bursts", 24, 29, 34, 48, 53, 72, 80)
def a_burst_is_followed_as_its_days_settle():
    """Each look sees the hours up to nineteen hours before it, and the days that had settled."""
    begun = START + 1 * DAY - 15 * HOUR

    def seen(now: datetime) -> Mapping[str, Frame]:
        through = (now - 19 * HOUR).replace(minute=0)
        n = max(1, (through - FIRST) // HOUR)
        usd = np.where(FIRST + np.arange(n) * HOUR < begun, 1.0, 0.0)
        usd += np.where(
            (FIRST + np.arange(n) * HOUR >= begun)
            & (FIRST + np.arange(n) * HOUR < begun + 30 * HOUR),
            41.0,
            0.0,
        )
        usd += np.where(FIRST + np.arange(n) * HOUR >= begun + 30 * HOUR, 1.0, 0.0)
        days = usd[: n // 24 * 24].reshape(-1, 24).sum(axis=1)
        by_days = Frame(
            "spend", (S3,), FIRST, DAY, (SPEND_METRIC,), days[None, :, None].astype(np.float32)
        )
        hourly = Frame(
            "spend_hour", (S3,), FIRST, HOUR, (SPEND_METRIC,), usd[None, :, None].astype(np.float32)
        )
        return {"spend": by_days, "spend_hour": hourly}

    return Billed(Fleet(2, days=4), bill=seen, policy=CALM)


# Commitments, budgets, and the provider's own words.


def fees(
    unused: Sequence[float] | float, fee: Sequence[float] | float = 100.0, **more: object
) -> World:
    return billed({FEE: unused}, fees={FEE: fee}, **more)


@story("commitments", 48)
def a_plan_is_used_by_half():
    return fees(45.0)


@story("commitments", 48)
def the_hours_of_a_plan_show_that_half_of_it_is_unused():
    lines = {S3: 24.0, FEE: 48.0}
    return billed(lines, {S3: 1.0, FEE: [2.0] * 40 + [3.0] * 5}, fees={S3: 24.0, FEE: 100.0})


@story("commitments", 48)
def a_plan_is_used_by_half_since_five_days():
    return fees([5.0] * 15 + [45.0] * 5)


@story("commitments", 48)
def a_plan_is_unused_since_the_nodes_of_one_team_are_gone():
    gone, others = thing(HOURS_OF, team="serving"), thing(HOURS_OF, team="search")
    return billed({FEE: [1.0, 300.0], gone: [310.0, 20.0], others: [900.0, 760.0]})


@story("commitments", 48)
def a_plan_is_unused_and_the_nodes_that_are_gone_explain_a_third_of_it():
    return billed({FEE: [1.0, 300.0], thing(HOURS_OF): [310.0, 210.0], S3: [350.0, 50.0]})


@story("commitments", 48)
def far_more_of_a_plan_is_unused_on_mondays():
    unused = [950.0 if (FIRST + i * DAY).weekday() == 0 else 200.0 for i in range(20)]
    return fees(unused, 1000.0)


@story("commitments", 48)
def a_plan_is_used_again_on_the_newest_day():
    return fees([45.0] * 19 + [10.0])


@story("commitments", 48)
def a_plan_whose_unused_part_is_more_than_its_fee():
    return fees(110.0)


@story("commitments", 48)
def a_plan_ended_and_its_hours_are_on_demand():
    nodes = thing(HOURS_OF)
    return billed(
        {FEE: 0.0, nodes: [900.0] * 18 + [1600.0] * 2},
        fees={FEE: [100.0] * 18 + [0.0] * 2, nodes: 900.0},
    )


@story("commitments", 48)
def hours_cost_more_while_a_plan_goes_on():
    nodes = thing(HOURS_OF)
    return billed({FEE: 0.0, nodes: [900.0, 1600.0]}, fees={FEE: 100.0, nodes: 900.0})


@story("commitments", 48)
def hours_cost_more_ten_days_after_a_plan_ended():
    nodes, fee = thing(HOURS_OF), [100.0] * 10 + [0.0] * 10
    return billed({FEE: 0.0, nodes: [900.0, 1600.0]}, fees={FEE: fee, nodes: 900.0})


@story("commitments", 48)
def a_fee_that_nobody_uses_is_told_from_its_hours_until_its_nodes_are_back():
    through = NOW - DAY + 5 * HOUR
    fleet = Fleet(8, days=2.5).silence(through - 8 * HOUR, through + 6 * HOUR)
    return billed({FEE: 0.01}, {FEE: [0.0] + [476.0] * 8}, fleet)


@story("commitments", 18, 30, 31)
def an_unused_reservation_is_not_told_again_from_the_late_bill():
    grown = thing("USW2-UnusedBox:trn1.32xlarge")
    labels = Labels(resource="cr-1", instance_type="trn1.32xlarge", region="us-west-2")
    fleet = Fleet(2, days=2.5).silence(hours(29), hours(60), slice(0, 1))
    world = billed({grown: [0.0] * 19 + [3000.0]}, None, fleet)
    plain = world.inventory

    def ended(now: datetime):
        there = Reservation(labels, 8, 8, START - DAY, None)
        return replace(plain(now), reservations=(there,) if now < hours(24) else ())

    world.inventory = ended
    return world


@story("commitments", 12, 16, 20, 32, 54, 55)
def the_bill_tells_of_another_empty_place_than_the_reservations_that_were_unused():
    """One had ended before, one is of another type, one in another region. A node rests, too."""
    places = {
        Labels(resource="cr-1", instance_type="trn1.32xlarge", region="us-west-2"): 14,
        Labels(resource="cr-2", instance_type="trn2.48xlarge", region="us-west-2"): 40,
        Labels(resource="cr-3", instance_type="trn1.32xlarge", region="us-east-1"): 40,
    }
    empty = thing("USW2-UnusedBox:trn1.32xlarge")
    fleet = Fleet(2, days=3).stop(hours(53), hours(60), slice(0, 1))
    world = billed({empty: [0.0] * 20 + [3000.0]}, None, fleet, until=NOW + DAY)
    plain = world.inventory

    def listed(now: datetime):
        unused = [
            Reservation(x, 8, 8, START - DAY, None) for x, end in places.items() if now < hours(end)
        ]
        return replace(plain(now), reservations=tuple(unused))

    world.inventory = listed
    return world


@story("commitments", 48)
def aws_states_the_use_of_commitments():
    newest = Commitment(
        CommitmentPlan.SAVINGS_PLANS, date(2026, 11, 2), Decimal(240), Decimal(60), Decimal("0.5")
    )
    before = replace(newest, day=date(2026, 11, 1), unused=Decimal(20), coverage=None)
    return fees(45.0, said={"commitments": (newest, before)})


FOUND = Finding(
    "a-1", date(2026, 11, 2), date(2026, 11, 2), Decimal(240), Decimal(340), Decimal(100), (S3,)
)


@story("commitments", 48)
def what_aws_finds_too_is_evidence():
    return billed({S3: noisy([340.0])}, said={"findings": (FOUND,)})


@story("commitments", 48)
def what_aws_alone_finds_is_told_in_its_words():
    long = replace(
        FOUND,
        id="a-2",
        first=date(2026, 11, 1),
        causes=(thing("", "AmazonSQS", region="us-east-1"),),
    )
    old = replace(
        FOUND, id="a-3", first=date(2026, 10, 1), last=date(2026, 10, 20), impact=Decimal(9000)
    )
    dismissed, small = (
        replace(FOUND, id="a-4", dismissed=True),
        replace(FOUND, id="a-5", impact=Decimal(9)),
    )
    return billed({S3: noisy([103.0])}, said={"findings": (FOUND, long, old, dismissed, small)})


@story("commitments", 48)
def what_aws_finds_in_a_whole_account_is_named_by_its_finding():
    whole = replace(FOUND, causes=(Labels(account="2"),))
    return billed({S3: noisy([103.0])}, said={"findings": (whole,)})


@story("commitments", 48)
def what_aws_finds_has_five_root_causes():
    causes = tuple(thing(f"Requests-Tier{i}", "AmazonSQS") for i in range(5))
    return billed({S3: noisy([103.0])}, said={"findings": (replace(FOUND, causes=causes),)})


@story("commitments", 48)
def what_aws_finds_elsewhere_is_another():
    elsewhere = replace(FOUND, causes=(replace(S3, region="us-east-1"),))
    earlier = replace(
        FOUND, id="a-2", first=date(2026, 10, 31), last=date(2026, 11, 1), impact=Decimal(500)
    )
    return billed({S3: noisy([340.0])}, said={"findings": (elsewhere, earlier)})


@story("commitments", 46)
def what_aws_found_two_days_before_is_another():
    before = replace(FOUND, first=date(2026, 10, 31), last=date(2026, 10, 31))
    return billed({S3: noisy([340.0])}, said={"findings": (before,)})


MID = datetime(2026, 11, 16, tzinfo=START.tzinfo)
"""The day of 11-14 has settled: sixteen days are left."""


def burnt(
    everything: int = 0,
    until: datetime = MID,
    teams: Mapping[str, Sequence[float] | float] | None = None,
    **budgets: int,
) -> World:
    """Return teams with budgets of a month, and USD a day of each."""
    values = {"spend_jump.on": False, "budget_burn.month_usd": Decimal(everything), "odd.on": False}
    scoped = tuple(
        (Labels(team=team), "budget_burn.month_usd", Decimal(usd)) for team, usd in budgets.items()
    )
    rules = replace(
        default_policy(), values={**default_policy().values, **values}, overrides=scoped
    )
    lines = {thing("Serving", team=team): usd for team, usd in (teams or {}).items()}
    frames = {"spend": by_day(lines, until, until - 40 * DAY)}
    return Billed(Fleet(2, days=16), bill=lambda _: frames, policy=rules)


@story("budgets", 14 * 24, 14 * 24 + 6)
def a_budget_is_used_up_six_days_early():
    return burnt(search=3000, teams={"search": 125.0, "vision": 900.0})


@story("budgets", 14 * 24)
def a_budget_fits_and_one_is_a_little_over():
    return burnt(search=3000, vision=3000, teams={"search": 100.0, "vision": 105.0})


@story("budgets", 14 * 24)
def a_day_at_many_times_what_the_rest_allows():
    return burnt(
        search=3000,
        vision=3000,
        teams={"search": [68.0] * 13 + [400.0], "vision": [40.0] * 13 + [300.0]},
    )


@story("budgets", 14 * 24)
def a_budget_is_used_up_though_it_burns_slowly():
    return burnt(search=1000, teams={"search": [100.0] * 10 + [5.0] * 4})


@story("budgets", 14 * 24)
def a_budget_burns_too_fast_until_its_newest_day():
    return burnt(search=3000, teams={"search": [100.0] * 32 + [150.0] * 6 + [40.0]})


@story("budgets", 14 * 24)
def a_budget_is_used_up_within_three_days():
    return burnt(search=1000, teams={"search": [50.0] * 10 + [65.0] * 4})


@story("budgets", 14 * 24)
def everything_and_a_team_have_budgets():
    return burnt(4000, search=3000, vision=90_000, teams={"search": 125.0, "vision": 50.0})


@story("budgets", 48)
def the_fees_of_a_first_day_are_spent_but_no_pace():
    usd = [100.0] * 37 + [1000.0, 100.0]
    return burnt(search=4400, vision=3000, until=NOW, teams={"search": usd, "vision": usd})


@story("budgets", 14 * 24, 15 * 24)
def a_quiet_weekend_does_not_end_it():
    world = burnt(search=3000)
    quiet = thing("Serving", team="search")

    def seen(now: datetime) -> Mapping[str, Frame]:
        usd = [130.0] * 39 if now == MID else [130.0] * 38 + [20.0]
        return {"spend": by_day({quiet: usd}, now, now - 40 * DAY)}

    world.more["bill"] = seen
    return world


@story("budgets", 29 * 24)
def a_new_month_begins_at_the_old_pace():
    return burnt(search=3000, until=START + 29 * DAY, teams={"search": 125.0})


@story("budgets", 14 * 24)
def a_fee_of_one_day_is_not_forecast_again():
    world = burnt(search=3000)
    lines = {
        thing("Serving", team="search"): 80.0,
        thing("Fee", team="search"): [0.0] * 29 + [900.0] + [0.0] * 9,
    }
    world.more["bill"] = lambda _: {"spend": by_day(lines, MID, MID - 40 * DAY)}
    return world


# What a bill is held against arrives later, or is not there.


@story("use", 216, 217, 218)
def the_history_of_the_nodes_arrives_after_the_bill():
    """At first nobody knows that half of the nodes are new: their use explains nothing."""
    world = billed({thing(HOURS_OF): GROWN}, None, scaled_up(busy=True), until=USED)
    plain = world.reading

    def reading(now: datetime):
        found = plain(now)
        nodes = (
            found.frames["node"]
            if now > USED + HOUR
            else found.frames["node"].since(USED - 2 * DAY)
        )
        return replace(found, frames={**found.frames, "node": nodes})

    world.reading = reading
    return world


@story("bill", 48)
def new_things_of_little_cost_and_an_empty_place_that_a_reservation_tells():
    box, new = thing("USW2-UnusedBox:trn1.32xlarge"), thing("New", "AmazonSQS")
    place = Labels(resource="cr-1", instance_type="trn2.48xlarge", region="us-west-2")
    full = Reservation(place, 8, 0, START - DAY, None)
    rules = replace(CALM, values={**CALM.values, "spend_new.least": 500.0})
    lines = {box: noisy([900.0], 10.0), new: [0.0] * 19 + [300.0]}
    return billed(lines, rules=rules, inventory={"reservations": (full,)})


@story("bill", 48)
def a_line_and_a_team_are_not_to_be_told_of():
    quiet = (
        (Labels(team="search"), "spend_jump.on", False),
        (Labels(cluster="search-1"), "spend_jump.on", False),
    )
    small = {
        thing(f"Requests-Tier{i}", "AmazonS3", team="search", cluster="search-1"): noisy(
            [27.0], 10.0
        )
        for i in range(6)
    }
    rules, ours = replace(CALM, overrides=quiet), replace(S3, team="search")
    return billed({ours: noisy([340.0]), **small}, {ours: [4.0, 41, 41, 41]}, rules=rules)


@story("bill", 48)
def hours_of_two_days_and_a_bill_of_a_week():
    days = {S3: [24.0, 24.0, 24.0, 24.0, 24.0, 24.0, 24.0, 99.0]}
    frames = {
        "spend": by_day(days, NOW, NOW - 9 * DAY),
        "spend_hour": by_hour({S3: [1.0, 40.0, 40.0, 40.0]}, NOW - 19 * HOUR, 2),
    }
    return Billed(Fleet(2, days=2.5), bill=lambda _: frames, policy=CALM)


@story("budgets", 14 * 24)
def charges_that_began_on_the_newest_day_and_three_days_ago_recur():
    world = burnt(search=3000)
    lines = {
        thing("Serving", team="search"): 100.0,
        thing("Training", team="search"): [0.0] * 38 + [90.0],
        thing("Labelling", team="search"): [0.0] * 36 + [15.0, 15.0, 0.0],
    }
    world.more["bill"] = lambda _: {"spend": by_day(lines, MID, MID - 40 * DAY)}
    return world


@story("budgets", 14 * 24)
def a_budget_of_a_team_that_spends_nothing_and_of_a_young_bill():
    world = burnt(search=3000, vision=10)
    lines = {thing("Serving", team="search"): 500.0}
    world.more["bill"] = lambda _: {"spend": by_day(lines, MID, MID - 4 * DAY)}
    return world
