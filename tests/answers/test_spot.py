"""Where spot is cheapest: prices by the time they stood, the loss of a reclaim, caps, and moving the data."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from bot.answers.plan.spot import SpotAnswer, spot_card
from bot.cards.card import Table
from bot.costs.spot import SpotJob, lost_share, offer, quantile, ranked, zones
from bot.knowledge import load_knowledge
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


def answered(*changes, bands=(), listed=None, cap=None, scores=(), **job):
    """Return the answer over some changes of price."""
    asked = SpotJob(**job)
    route = load_knowledge().claims().transfer("inter-region")
    offers = ranked(
        [offer(zone, asked, bands, scores, listed, Decimal("0.02")) for zone in zones(changes, DAY)]
    )
    return SpotAnswer(
        "trn1.32xlarge", DAY, asked, offers, tuple(bands), tuple(scores), route, cap, NOW
    )


EAST, WEST = change(20, "10.00"), change(20, "5.00", "us-west-2a")


@pytest.mark.parametrize(
    ("home", "bands", "moves"),
    [
        ("us-east-2", ("us-east-2", "us-west-2"), True),
        ("us-west-2", ("us-east-2", "us-west-2"), False),
        ("", ("us-east-2", "us-west-2"), False),
        ("eu-north-1", ("us-east-2", "us-west-2"), False),
        # The cheap home stands last, as nobody states its interruptions.
        ("us-west-2", ("us-east-2",), False),
    ],
)
def test_a_move_is_quoted_from_home_and_only_where_it_saves(home, bands, moves):
    job = {"home": home, "data_gb": Decimal(100)}
    answer = answered(EAST, WEST, bands=[band("<5%", region) for region in bands], **job)
    assert bool(answer.move) is moves
    assert ("Advice only." in str(spot_card(answer).blocks)) is moves
    if moves:
        assert answer.move.startswith("From us-east-2c to us-west-2a: ")
        saved = answer.offers[1].expected - answer.offers[0].expected
        assert f"${saved:,.0f} saved" in answer.move


def test_the_caps_that_are_tried_are_those_of_the_best_zone_its_list_price_and_yours():
    bare = answered(EAST, WEST)
    assert bare.caps == {"p95": Decimal("5.00")}
    assert [zone["cap"] for zone in spot_card(bare).data["zones"]] == [None, None]
    full = answered(EAST, WEST, listed=on_demand("21.50"), cap=Decimal(7))
    assert full.caps == {
        "p95": Decimal("5.00"),
        "half of on-demand": Decimal("10.75"),
        "on-demand": Decimal("21.50"),
        "yours": Decimal(7),
    }
    card = spot_card(full)
    assert [zone["cap"]["times"] for zone in card.data["zones"]] == [0, 1]
    *_, tried = (block for block in card.blocks if isinstance(block, Table))
    assert [row[0] for row in tried.rows] == list(full.caps)
    assert ("use the on-demand price, $21.50" in str(card), "on-demand price," in str(bare)) == (
        True,
        False,
    )


def test_what_nobody_states_of_interruptions_and_moving_is_not_said():
    words = [
        str(spot_card(answered(EAST, **some)).blocks)
        for some in (
            {},
            {"bands": [band("<5%")]},
            {"bands": [band(">20%")], "home": "us-west-2", "data_gb": Decimal(1000)},
        )
    ]
    assert ["interruptions not counted" in x for x in words] == [True, False, False]
    assert ["at least" in x for x in words] == [False, False, True]
    assert ["$20.00 to move the data" in x for x in words] == [False, False, True]
    assert ["Moving: " in x for x in words] == [False, False, True]
    assert ["No Spot Advisor band is known here" in x for x in words] == [True, False, False]


def test_bands_alone_stand_with_the_rarest_first_and_then_the_larger_discount():
    said = [
        Interruption("trn1.32xlarge", region, rate, saving, NOW - timedelta(days=days))
        for region, rate, saving, days in (
            ("a", "never heard of", 0.9, 0),
            ("b", ">20%", 0.9, 9),
            ("c", "<5%", 0.5, 9),
            ("d", "<5%", 0.7, 9),
            ("e", "10-15%", 0.9, 9),
        )
    ]
    card = spot_card(answered(bands=said))
    (table,) = (block for block in card.blocks if isinstance(block, Table))
    assert [row[0] for row in table.rows] == ["d", "c", "e", "b", "a"]
    assert "Spot Advisor of Nov 20, 2026" in str(card.blocks), "the newest of them"
    assert card.title.endswith("5 regions, no prices")


def test_of_several_scores_of_a_region_the_best_counts_and_the_newest_dates_them():
    scores = [
        PlacementScore(("trn1.32xlarge",), region, zone, score, NOW - timedelta(hours=age))
        for region, zone, score, age in (
            ("us-east-2", "z1", 3, 5),
            ("us-east-2", "z2", 8, 2),
            ("us-west-2", "z3", 9, 9),
        )
    ]
    card = spot_card(answered(EAST, change(20, "11", "eu-north-1a"), scores=scores))
    assert [zone["score"] for zone in card.data["zones"]] == [8, None]
    assert "placement scores of Nov 19, 22:00" in str(card.blocks)
    assert "placement scores" not in str(spot_card(answered(EAST)).blocks)


def test_a_change_at_the_end_of_the_window_is_not_of_it_and_one_at_its_start_is():
    (found,) = zones([change(10, "2"), change(5, "3"), change(0, "9")], DAY)
    assert (found.last.usd_per_hour, found.changes) == (Decimal(3), 2)
    # A price that another replaces at once never stood.
    (found,) = zones([change(20, "7"), change(12, "2"), change(5, "3")], DAY)
    assert (found.highest, found.changes) == (Decimal(3), 1)
