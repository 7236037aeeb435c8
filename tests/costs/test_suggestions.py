"""Every suggestion's dollars are derived again by DuckDB, and none is made of a fleet that works."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.costs import capacity
from bot.costs import suggestions as weigh
from bot.costs.capacity import Commitments, OnDemandUse
from bot.model.fleet import Market, Refusal
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.price import Basis, CommitmentOffer, Payment, Price
from bot.model.window import Window

MONDAY = datetime(2026, 11, 2, tzinfo=UTC)
FIVE, HOUR = timedelta(minutes=5), timedelta(hours=1)
PRICE = Decimal("21.50")


def price(usd: Decimal, on_demand: str = "1") -> Price:
    """Return the billed price of an hour, of which a share ends when the node does."""
    return Price(
        "trn1.32xlarge", usd, Market.ON_DEMAND, Basis.BILLED, "us-west-2", MONDAY.date(), "a test",
        on_demand_share=Decimal(on_demand),
    )  # fmt: skip


ON_DEMAND = price(PRICE)


def frame(used: np.ndarray, start: datetime = MONDAY) -> Frame:
    """Return a frame of nodes by hours; nan where a node is not there."""
    steps = np.repeat(used, 12, axis=1).astype(np.float32)[:, :, None]
    things = tuple(Labels(cluster="dev", instance=f"i-{n}") for n in range(len(used)))
    return Frame("node", things, start, FIVE, ("neuroncore_utilization_ratio",), steps)


def office(nodes: int = 3, weeks: int = 2) -> np.ndarray:
    """Return nodes that work from 9 to 18 on workdays and stand idle else."""
    hour = np.arange(weeks * 168)
    working = (hour // 24 % 7 < 5) & (hour % 24 >= 9) & (hour % 24 < 18)
    return np.tile(np.where(working, 0.6, 0.01), (nodes, 1))


def derived_month(used: np.ndarray, start: datetime, prices: list[Decimal]) -> float:
    """Return USD a month of hours of the week that are free in each week, by plain group-bys."""
    rows = [
        (start + hour * HOUR, float(level), float(prices[node]))
        for node, levels in enumerate(used)
        for hour, level in enumerate(levels)
        if not np.isnan(level)
    ]
    if not rows:
        return 0.0
    table = duckdb.connect()
    table.execute("SET TimeZone = 'UTC'")
    table.execute("CREATE TABLE used (t TIMESTAMP, level DOUBLE, usd DOUBLE)")
    times, levels, usd = zip(*rows, strict=True)
    table.execute(
        "INSERT INTO used SELECT unnest($1::TIMESTAMPTZ[])::TIMESTAMP, unnest($2), unnest($3)",
        [list(times), list(levels), list(usd)],
    )
    (total,) = table.execute(
        """
        WITH slot AS (
            SELECT (isodow(t) - 1) * 24 + hour(t) AS slot, count(DISTINCT t) AS weeks,
                max(level) > 0.05::FLOAT AS works
            FROM used GROUP BY 1
        ), free AS (SELECT slot FROM slot WHERE weeks >= 2 AND NOT works),
        begins AS (
            SELECT slot FROM free a WHERE 4 = (
                SELECT count(*) FROM free b WHERE (b.slot - a.slot + 168) % 168 < 4
            )
        ), kept AS (
            SELECT DISTINCT (slot + k) % 168 AS slot FROM begins, range(4) r(k)
        )
        SELECT coalesce(sum(usd), 0) FROM used
        WHERE (isodow(t) - 1) * 24 + hour(t) IN (SELECT slot FROM kept)
            AND EXISTS (SELECT 1 FROM slot WHERE works)
        """
    ).fetchone()
    return total / used.shape[1] * 730


def test_nights_and_weekends_are_suggested_at_their_price() -> None:
    used = office()
    found = weigh.schedule("dev", frame(used), 0.05, [ON_DEMAND] * 3)
    assert found
    assert float(found.usd_per_month) == pytest.approx(
        derived_month(used, MONDAY, [PRICE] * 3), abs=0.01
    )
    assert found.low_usd == found.high_usd == found.usd_per_month
    assert "123 hours of each week (Fri 18:00 to Mon 09:00 UTC among them)" in found.todo

    # A node at the limit itself does not work.
    at_limit = np.where(used < 0.05, 0.05, used)
    assert weigh.schedule("dev", frame(at_limit), 0.05, [ON_DEMAND] * 3) == found


@given(st.integers(0, 2**32 - 1), st.integers(0, 30))
@settings(max_examples=40, deadline=None)
def test_duckdb_derives_every_schedule_again(seed: int, shift: int) -> None:
    rng = np.random.default_rng(seed)
    used = office(int(rng.integers(1, 5)), int(rng.integers(2, 4)))[
        :, : 336 + int(rng.integers(0, 168))
    ]
    used[rng.random(used.shape) < 0.05] = np.nan
    used[:, rng.random(used.shape[1]) < rng.choice([0, 0.003, 0.05])] = 0.9
    prices = [Decimal(str(round(float(p), 4))) for p in rng.uniform(1, 60, len(used))]
    shares = rng.choice(["0", "0.4", "1"], len(used))
    start = MONDAY + shift * HOUR
    found = weigh.schedule(
        "dev", frame(used, start), 0.05, [price(*x) for x in zip(prices, shares, strict=True)]
    )
    saved = [usd * Decimal(share) for usd, share in zip(prices, shares, strict=True)]
    derived = derived_month(used, start, saved)
    assert float(found.usd_per_month if found else 0) == pytest.approx(derived, abs=0.02)
    assert not found or found.low_usd <= found.usd_per_month <= found.high_usd


@pytest.mark.parametrize(
    "used",
    [np.full((3, 336), 0.6), np.full((3, 336), 0.0), office(weeks=1), np.full((2, 336), np.nan)],
    ids=["always busy", "never busy: an alert's", "seen for one week", "not there"],
)
def test_what_is_no_habit_is_no_schedule(used: np.ndarray) -> None:
    assert weigh.schedule("dev", frame(used), 0.05, [ON_DEMAND] * len(used)) is None


def test_stopping_what_a_commitment_pays_saves_the_rest_alone() -> None:
    used = office()
    alone, covered, partly = (
        weigh.schedule("dev", frame(used), 0.05, [price(PRICE, share)] * 3)
        for share in ("1", "0", "0.25")
    )
    assert alone
    assert partly
    assert covered is None
    assert partly.usd_per_month == (alone.usd_per_month / 4).quantize(Decimal("0.01"))
    paid, committed = (dict(partly.steps)[x] for x in
                       ("paid in those hours", "of it committed, billed either way"))  # fmt: skip
    assert dict(alone.steps)["paid in those hours"] == paid
    assert "committed" not in str(alone.steps)
    whole, either_way = (float(x.strip("$").replace(",", "")) for x in (paid, committed))
    assert either_way == pytest.approx(whole * 0.75, abs=0.01)


def test_short_breaks_are_not_worth_a_stop() -> None:
    hour = np.arange(336)
    used = np.where(hour % 24 < 3, 0.0, 0.7)[None, :]
    assert weigh.schedule("dev", frame(used), 0.05, [ON_DEMAND]) is None


OFFER = CommitmentOffer(
    "trn1.32xlarge", "us-west-2", "Compute Savings Plan", 1, Payment.NONE, Decimal("13.70"),
    Decimal(0), date(2026, 11, 1), "AWS Price List",
)  # fmt: skip


def offered(hours: list[float], *offers: CommitmentOffer) -> Commitments:
    window = Window(MONDAY, MONDAY + len(hours) * HOUR)
    price = Price(
        "trn1.32xlarge",
        PRICE,
        Market.ON_DEMAND,
        Basis.LISTED,
        "us-west-2",
        date(2026, 11, 1),
        "AWS",
    )
    use = OnDemandUse(window, tuple(Decimal(str(x)) for x in hours))
    return Commitments("trn1.32xlarge", 1, "us-west-2", offers or (OFFER,), price, use)


@given(st.lists(st.integers(0, 12), min_size=48, max_size=200))
@settings(max_examples=60, deadline=None)
def test_every_commitment_is_derived_again(hours: list[int]) -> None:
    found = capacity.commitment(offered([float(hour) for hour in hours]))
    tried = {
        n: (sum(min(n, hour) for hour in hours) * PRICE - n * len(hours) * OFFER.usd_per_hour)
        for n in range(1, max(hours) + 1)
    }
    best = max(tried, key=lambda n: tried[n], default=0)
    months = Decimal(len(hours)) / 730
    regret = Decimal(-1)
    if best:
        regret = tried[best] - Decimal(sum(min(best, hour) for hour in hours)) / 3 * PRICE
    if found is None:
        assert regret / months < Decimal("0.01")
        return
    assert float(found.usd_per_month) == pytest.approx(float(tried[best] / months), abs=0.01)
    assert float(found.low_usd) == pytest.approx(float(regret / months), abs=0.01)


def test_a_commitment_that_a_third_less_use_would_spoil_is_not_suggested() -> None:
    steady = offered([8.0] * 200)
    dear = CommitmentOffer(**{**vars(OFFER), "usd_per_hour": Decimal("19")})
    assert capacity.commitment(steady)
    assert capacity.commitment(offered([8.0] * 200, dear)) is None
    paid_upfront = CommitmentOffer(**{**vars(OFFER), "payment": Payment.ALL})
    assert capacity.commitment(offered([8.0] * 200, paid_upfront)) is None


def test_an_offer_pays_up_to_the_price_on_demand_and_the_cheapest_stands_first() -> None:
    dear, cheap = (replace(OFFER, plan=plan, usd_per_hour=Decimal(usd)) for plan, usd in (("a", 15), ("b", 14)))  # fmt: skip
    known = offered([8.0] * 48, dear, cheap)
    assert [x.offer for x in known.weighed] == [cheap, dear]
    even, over = (
        capacity.Weighed(replace(OFFER, usd_per_hour=PRICE + cents), 1, known.on_demand, None)
        for cents in (Decimal(0), Decimal("0.01"))
    )
    assert (even.breakeven_hours, over.breakeven_hours) == (OFFER.hours, None)


def test_a_commitment_is_for_a_year_and_saves_though_a_third_of_its_use_goes() -> None:
    three = replace(OFFER, years=3, usd_per_hour=Decimal(1))
    assert capacity.commitment(offered([8.0] * 200, three)) is None
    # At two thirds of the price on demand, a third less use leaves nothing.
    known = offered([8.0] * 200, replace(OFFER, usd_per_hour=Decimal(14)))
    assert known.on_demand
    at_21 = replace(known, on_demand=replace(known.on_demand, usd_per_hour=Decimal(21)))
    assert capacity.commitment(at_21) is None


@pytest.mark.parametrize(
    ("days", "usd", "told"), [(-1, 5, 0), (0, 5, 1), (30, 5, 1), (31, 5, 0), (9, 0, 0)]
)
def test_a_commitment_is_renewed_in_its_last_thirty_days(days: int, usd: int, told: int) -> None:
    ends = MONDAY.date() + timedelta(days=days)
    assert len([*capacity.renewals([(ends, Decimal(usd))], MONDAY)]) == told


def test_nodes_that_grew_in_one_week_alone_go_on_as_they_are() -> None:
    demand = capacity.Demand("q", "trn1.32xlarge", "us-west-2", 5, 0, (1, 1, 2))
    assert demand.coming == (0, 0, 0)
    grows = replace(demand, counts=(1, 2, 4))
    assert grows.coming == (4, 6, 8)
    found = capacity.quota(grows, Decimal(1), MONDAY)
    assert found
    assert (found.low_usd, found.usd_per_month, found.high_usd) == (0, 730, 2190)
    assert capacity.quota(replace(grows, free=6), Decimal(1), MONDAY) is None


def test_where_and_when_a_type_was_had_is_counted_by_place() -> None:
    """Nodes at the limit itself stand idle; of hours alike the first of the day is named."""

    def at(day: int, hour: int) -> datetime:
        return MONDAY + timedelta(days=day, hours=hour)

    refused = [
        (at(0, 3), "b"),
        (at(1, 3), "b"),
        (at(2, 9), "b"),
        (at(3, 21), "c"),
        (at(4, 21), "c"),
    ]
    refusals = [
        Refusal(f"{i}", when, Labels(zone=zone, instance_type="trn1.32xlarge"))
        for i, (when, zone) in enumerate(refused)
    ]
    launches = [("a", at(1, 14)), ("a", at(2, 6)), *(("b", at(n, 23)) for n in range(3))]
    nodes = frame(np.full((1, 7 * 24), 0.25))
    found = capacity.elsewhere(refusals, launches, nodes, 0.25, [PRICE])
    assert found
    assert found.subject == "trn1.32xlarge/b"
    assert " a first" in found.todo
    assert ("06:00 UTC" in found.todo, "03:00 UTC" in found.todo) == (True, True)


WEEK = Window(MONDAY, MONDAY + timedelta(days=7))


def test_a_kept_cache_is_worth_what_compiling_again_cost() -> None:
    found = weigh.cache(Decimal(380), WEEK)
    assert found
    assert float(found.usd_per_month) == pytest.approx(380 / 168 * 730, abs=0.01)
    assert weigh.cache(Decimal(0), WEEK) is None


@given(st.integers(1, 10_000), st.integers(1, 10_000))
def test_no_other_interval_of_checkpoints_costs_less(lost: int, saving: int) -> None:
    """Tried at every factor: what is lost shrinks with it, what saving costs grows."""
    found = weigh.checkpoints("llama", Decimal(lost), Decimal(saving), WEEK)
    factors = np.geomspace(0.05, 200, 4000)
    least = float((lost / factors + saving * factors).min())
    if found is None:
        assert saving >= lost
        return
    assert float(found.usd_per_month) == pytest.approx(
        (lost + saving - least) / 168 * 730, rel=0.01, abs=0.05
    )


@pytest.mark.parametrize(("lost", "saving"), [(0, 50), (50, 0), (50, 50), (20, 50)])
def test_checkpoints_that_cost_more_than_restarts_are_left_alone(lost: int, saving: int) -> None:
    assert weigh.checkpoints("llama", Decimal(lost), Decimal(saving), WEEK) is None


def test_what_ends_within_a_month_is_to_be_renewed() -> None:
    now = MONDAY + 9 * HOUR
    lapsing = [(date(2026, 11, 30), Decimal(240)), (date(2026, 12, 20), Decimal(500)), (date(2026, 10, 1), Decimal(9))]  # fmt: skip
    (found,) = capacity.renewals(lapsing, now)
    assert float(found.usd_per_month) == pytest.approx(240 * 730 / 24)
    assert "Renew what ends on Nov 30" in found.todo


def test_nodes_beside_an_empty_reservation_cost_their_price() -> None:
    found = capacity.reserved_room("trn1.32xlarge", "us-west-2b", 3, 3 * PRICE, MONDAY)
    assert found.usd_per_month == 3 * PRICE * 730
    assert "3 trn1.32xlarge nodes of us-west-2b" in found.todo


def test_volumes_are_worth_the_difference_and_no_dearer_kind_is_suggested() -> None:
    found = weigh.newer_volumes(1000, Decimal("100.00"), Decimal("80.00"), MONDAY)
    assert found is not None
    assert found.usd_per_month == Decimal("20.00")
    assert weigh.newer_volumes(1000, Decimal("80"), Decimal("80"), MONDAY) is None


@given(st.lists(st.integers(1, 10_000), min_size=5, max_size=5))
def test_only_what_grows_in_every_week_is_suggested_by_its_growth(weeks: list[int]) -> None:
    found = weigh.only_grows("EBS:SnapshotUsage", [Decimal(x) for x in weeks], MONDAY)
    grows = sorted(set(weeks)) == weeks and weeks[-1] * 10 >= weeks[0] * 11
    assert (found is not None) is grows
    if found:
        assert float(found.usd_per_month) == pytest.approx(
            (weeks[-1] - weeks[0]) * 730 / 168, abs=0.01
        )
        assert found.high_usd == 2 * found.low_usd


@pytest.mark.parametrize(("last", "suggested"), [(109, False), (110, True)])
def test_growth_of_less_than_a_tenth_is_worth_no_rule(last: int, suggested: bool) -> None:
    weeks = [Decimal(x) for x in (100, 101, 102, 103, last)]
    assert (weigh.only_grows("EBS:SnapshotUsage", weeks, MONDAY) is not None) is suggested


TYPE = "trn1.32xlarge"


def refusals(zone: str, *hours: float) -> list[Refusal]:
    place = Labels(instance_type=TYPE, region="us-west-2", zone=zone)
    return [Refusal(f"{zone}{hour}", MONDAY + hour * HOUR, place) for hour in hours]


def test_idle_nodes_wait_until_the_next_launch_and_surely_for_the_hour_of_the_refusal() -> None:
    launches = [("us-west-2c", MONDAY + hours * HOUR) for hours in (0.5, 4)]
    idle = frame(np.zeros((1, 6)))
    found = capacity.elsewhere(refusals("us-west-2b", 0.5), launches, idle, 0.05, [PRICE])
    assert found
    assert float(found.usd_per_month) == pytest.approx(3.5 / 6 * 730 * 21.5, abs=0.01)
    assert float(found.low_usd) == pytest.approx(0.5 / 6 * 730 * 21.5, abs=0.01)


def test_a_zone_that_refuses_more_than_it_gives_is_not_asked_first() -> None:
    launches = [(zone, MONDAY + 3 * HOUR) for zone in ("us-west-2b", "us-west-2b", "us-west-2c")]
    refused = refusals("us-west-2b", 0, 1, 2)
    found = capacity.elsewhere(refused, launches, frame(np.zeros((1, 6))), 0.05, [PRICE])
    assert found
    assert f"Ask for {TYPE} in us-west-2c first" in found.todo


@pytest.mark.parametrize(("days", "suggested"), [(30, True), (31, False)])
def test_credits_that_last_for_more_than_a_month_are_no_news(days: int, suggested: bool) -> None:
    daily = {date(2026, 10, 31): Decimal(40), date(2026, 11, 1): Decimal(44)}
    found = capacity.credits_end(daily, MONDAY.date() + timedelta(days=days), MONDAY)
    assert (found is not None) is suggested


@pytest.mark.parametrize(("dear", "low"), [("80", "20"), ("100", None), ("130", None)])
def test_another_pool_has_to_cost_less_at_its_dear_times(dear: str, low: str | None) -> None:
    stay = capacity.PoolCost("us-west-2a", Decimal(100), Decimal(150), 0)
    move = capacity.PoolCost("us-west-2b", Decimal(70), Decimal(dear), 0)
    found = capacity.pool(("batch", TYPE), (stay, move), WEEK)
    assert (found and (found.low_usd, found.usd_per_month)) == (low and (Decimal(low), 30))


def test_a_warm_pool_surely_spares_what_is_longer_than_a_step_beyond_the_fastest_start() -> None:
    starts = [(timedelta(minutes=10 if n else 40), Decimal(12)) for n in range(9)]
    starts.append((timedelta(minutes=13), Decimal(12)))
    found = weigh.warm_pool("auto", starts, FIVE, WEEK)
    assert found
    assert float(found.usd_per_month) == pytest.approx(12 * 33 / 60 / 168 * 730, abs=0.01)
    assert float(found.low_usd) == pytest.approx(12 * 25 / 60 / 168 * 730, abs=0.01)
    assert weigh.warm_pool("auto", starts[1:], FIVE, WEEK) is None


def test_the_same_suggestion_has_the_same_id() -> None:
    first = weigh.unused_storage([("vol-1", Decimal(30))], MONDAY, MONDAY)
    later = weigh.unused_storage(
        [("vol-1", Decimal(30)), ("vol-2", Decimal(12))], MONDAY, MONDAY + HOUR
    )
    assert first.id == later.id
    assert later.usd_per_month == 42
