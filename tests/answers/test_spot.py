"""Where spot is cheapest: prices by the time they stood, the loss of a reclaim, caps, and moving the data."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from bot.costs.spot import SpotJob, lost_share, offer, quantile, ranked, zones
from bot.model.fleet import Market
from bot.model.price import Basis, Interruption, PlacementScore, Price
from bot.model.window import Window

NOW = datetime(2026, 11, 20, tzinfo=UTC)
DAY = Window(NOW - timedelta(days=10), NOW)


def change(days: float, usd: str, zone: str = "us-east-2c"):
    at = NOW - timedelta(days=days)
    price = Price(
        "trn1.32xlarge", Decimal(usd), Market.SPOT, Basis.SPOT, zone[:-1], at.date(), "a test", zone
    )
    return at, price


def on_demand(usd: str = "21.50"):
    return Price(
        "trn1.32xlarge",
        Decimal(usd),
        Market.ON_DEMAND,
        Basis.LISTED,
        "us-east-2",
        date(2026, 11, 1),
        "a test",
    )


def band(said: str, region: str = "us-east-2"):
    return Interruption("trn1.32xlarge", region, said, 0.7, NOW)


def test_prices_are_weighted_by_the_time_they_stood():
    # 2.00 stood 9 days (it began before the window), 12.00 stood 12 hours, 4.00 the last 12.
    (found,) = zones([change(30, "2.00"), change(1, "12.00"), change(0.5, "4.00")], DAY)
    assert found.median == Decimal("2.00")
    assert found.p95 == Decimal("4.00")
    assert found.highest == Decimal("12.00")
    assert found.mean == Decimal("2.6000")  # (9 x 2 + 0.5 x 12 + 0.5 x 4) / 10
    assert found.last.usd_per_hour == Decimal("4.00")
    assert found.changes == 2


def test_the_95th_percentile_leaves_a_twentieth_of_the_time_above():
    held = [(Decimal(n), timedelta(hours=1)) for n in range(1, 101)]
    assert quantile(held, 0.95) == 95
    assert quantile(held, 0.5) == 50


def test_a_cap_is_crossed_each_time_the_price_rises_above_it():
    (found,) = zones(
        [
            change(10, "2"),
            change(8, "5"),
            change(7, "2"),
            change(3, "6"),
            change(2, "5"),
            change(1, "2"),
        ],
        DAY,
    )
    crossed = found.over(Decimal("4"))
    assert (crossed.times, crossed.share) == (2, pytest.approx(3 / 10))
    highest = found.over(Decimal("6"))
    assert (highest.times, highest.share) == (0, 0)
    assert found.changes == 6, "the change at the first instant of the window is one of it"


def test_zones_without_a_price_in_the_window_are_left_out():
    assert zones([change(-1, "2")], DAY) == ()
    assert [x.zone for x in zones([change(20, "2"), change(5, "3", "us-west-2a")], DAY)] == [
        "us-east-2c",
        "us-west-2a",
    ]


def test_the_work_that_is_lost_grows_with_nodes_and_checkpoint_interval():
    hourly, rare = SpotJob(nodes=10), SpotJob(nodes=10, checkpoint=timedelta(hours=4))
    # 10 nodes x 5 % a month / 730 h, each reclaim loses 30 + 15 minutes.
    assert lost_share("<5%", hourly) == (pytest.approx(10 * 0.05 / 730 * 0.75), False)
    assert lost_share("<5%", rare)[0] == pytest.approx(10 * 0.05 / 730 * 2.25)
    assert lost_share(">20%", hourly)[1], "an open band is at least its lower end"
    assert lost_share("often", hourly) == (None, False)


def test_the_ranking_holds_lost_work_and_moving_the_data():
    job = SpotJob(
        nodes=100,
        hours=Decimal(100),
        checkpoint=timedelta(hours=12),
        data_gb=Decimal(10_000),
        home="us-west-2",
    )
    cheap, home = zones([change(20, "10.00"), change(20, "10.40", "us-west-2a")], DAY)
    bands = [band(">20%"), band("<5%", "us-west-2")]
    away, here = (offer(x, job, bands, (), on_demand(), Decimal("0.02")) for x in (cheap, home))
    assert away.compute == Decimal("100000.00")
    assert (away.transfer, here.transfer) == (Decimal("200.00"), Decimal(0))
    lost = 100 * 0.20 / 730 * 6.25
    assert away.expected == (100_000 * (1 + Decimal(str(lost))) + 200).quantize(Decimal("0.01"))
    assert ranked([away, here])[0] is here, "the cheaper hour costs more once re-runs are counted"
    assert away.off == 1 - Decimal("10.0000") / Decimal("21.50")


def test_zones_that_cost_the_same_stand_by_name_and_have_the_best_score_of_their_region():
    places = zones([change(20, "10", "us-east-2b"), change(20, "10", "us-east-2a")], DAY)
    scores = [PlacementScore(("trn1.32xlarge",), "us-east-2", f"use2-az{n}", n, NOW) for n in (3, 9, 1)]  # fmt: skip
    elsewhere = PlacementScore(("trn1.32xlarge",), "us-west-2", "usw2-az1", 10, NOW)
    job = SpotJob(data_gb=Decimal(10_000))
    offers = [
        offer(x, job, [band("<5%")], [*scores, elsewhere], None, Decimal("0.02"))
        for x in reversed(places)
    ]
    assert [x.zone.zone for x in ranked(offers)] == ["us-east-2a", "us-east-2b"]
    assert {x.score and x.score.score for x in offers} == {9}
    assert {x.transfer for x in offers} == {0}, "its data may lie anywhere"


def test_a_zone_whose_reclaims_nobody_states_stands_last():
    known, unknown = zones([change(20, "10.00"), change(20, "5.00", "us-west-2a")], DAY)
    offers = [
        offer(x, SpotJob(), [band("<5%")], (), None, Decimal("0.02")) for x in (known, unknown)
    ]
    assert ranked(offers)[0].zone is known
    assert offers[1].lost_share is None
    assert offers[1].off is None
