from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.answers.about.digest import Week, digest_card
from bot.answers.about.summary import Summary, home_card, summary_card
from bot.answers.alerts.alerts import alerts_card
from bot.answers.fleet.card import NodeRow, fleet_card, idle_card
from bot.cards.alert_words import alert_data, money_texts, price_words, remedies
from bot.cards.card import Text, plain
from bot.costs.pricing import BilledHour
from bot.model.alert import Alert, committed_usd_per_hour_of
from bot.model.anomaly import BilledExcess, NodeState
from bot.model.causes import Cause
from bot.model.fleet import Market
from bot.model.money import usd as in_words
from bot.model.notification import Coverage
from bot.model.price import Basis
from bot.model.window import HOUR, Window
from bot.watch.track import Lengths, at_billed_prices, awaits_bill, value, without_moved
from tests.builders import FIVE, NOON, alert, anomaly, instance, inventory, nodes, price, reading

FLEET = inventory(nodes(4))
WEEK = Window(NOON - timedelta(days=7), NOON)
LEFT = Lengths().left(alert(), Decimal(10 * 24 + 12))
"""How long the alert goes on where none of its cause has ended: it is ten minutes old."""


def money_words(valued: Alert) -> str:
    return " ".join(plain(block.spans) for block in money_texts(valued) if isinstance(block, Text))


def test_waste_is_price_times_share_over_things_since_the_onset() -> None:
    waste = value(alert(), None, lambda *_: price("20.00"), NOON).waste
    assert waste is not None
    assert waste.per_hour == Decimal("60.00")
    assert waste.so_far == Decimal("10.000000")
    assert waste.month_end == Decimal(10) + Decimal(60) * LEFT.mean
    assert waste.month_end_low < waste.month_end < waste.month_end_high


@pytest.mark.parametrize(
    ("basis", "low", "high"),
    [
        (Basis.BILLED, "57.00", "63.00"),
        (Basis.LISTED, "54.00", "66.00"),
        (Basis.FALLBACK, "45.00", "75.00"),
    ],
)
def test_the_range_lies_as_far_above_as_below_by_how_unsure_the_price_is(
    basis: Basis, low: str, high: str
) -> None:
    found = alert(anomaly(usual=None))
    waste = value(found, None, lambda *_: price("20.00", basis=basis), NOON).waste
    assert waste is not None
    assert waste.month_end_low == Decimal(10) + Decimal(low) * LEFT.low
    assert waste.month_end_high == Decimal(10) + Decimal(high) * LEFT.high


def test_the_range_is_as_wide_as_the_usual_is() -> None:
    """At 20 % of a usual 85-95 %, between 13/17 and 15/19 is lost, where the middle is 7/9."""
    waste = value(alert(), None, lambda *_: price("20.00", basis=Basis.BILLED), NOON).waste
    assert waste is not None
    assert waste.month_end_low == pytest.approx(
        10 + 60 * LEFT.low * Decimal("0.95") * 13 * 9 / (17 * 7), abs=Decimal("0.02")
    )
    assert waste.month_end_high == pytest.approx(
        10 + 60 * LEFT.high * Decimal("1.05") * 15 * 9 / (19 * 7), abs=Decimal("0.02")
    )


def test_dollars_of_the_bill_are_as_sure_as_how_long_it_goes_on() -> None:
    found = anomaly(wasted_shares=(), usd_per_hour=Decimal(12))
    waste = value(alert(found), None, lambda *_: None, NOON).waste
    assert waste is not None
    least, most = waste.month_end_low - waste.so_far, waste.month_end_high - waste.so_far
    assert most / least == pytest.approx(LEFT.high / LEFT.low, rel=Decimal("0.01"))


def test_the_hours_kept_by_price_make_the_dollars() -> None:
    """Prices change from day to day and from thing to thing, and shares from tick to tick: the hours kept tell them apart."""
    usd = dict(zip(alert().anomaly.things, ("20.00", "13.55"), strict=False))
    known = value(alert(), None, lambda thing: price(usd.get(thing, "7.7777")), NOON)
    for tick in range(1, 9):
        at = NOON + tick * timedelta(hours=3)
        shares = tuple(
            round(0.1 * (tick % 4) + share / 3, 6) for share in known.anomaly.wasted_shares
        )
        seen = replace(
            known,
            seen=at,
            anomaly=replace(known.anomaly, wasted_shares=shares, shares_since=shares[::-1]),
        )
        usd = {thing: str(Decimal(each) + tick // 4) for thing, each in usd.items()}
        known = value(seen, known, lambda thing, usd=usd: price(usd.get(thing, "7.7777")), at)
    assert known.waste
    assert len(known.waste.hours) > 2
    assert sum(x.hours * x.usd_per_hour for x in known.waste.hours) == pytest.approx(
        known.waste.so_far, abs=Decimal("0.0001")
    )
    assert sum(x.share * x.usd_per_hour for x in known.waste.hours) == pytest.approx(
        known.waste.per_hour, abs=Decimal("0.005")
    )


def test_of_dollars_whose_hours_were_not_kept_none_are_kept_later() -> None:
    first = value(alert(), None, lambda *_: price("20.00"), NOON)
    assert first.waste
    unkept, hour = replace(first, waste=replace(first.waste, hours=())), NOON + timedelta(hours=1)
    later = value(replace(unkept, seen=hour), unkept, lambda *_: price("20.00"), hour)
    assert later.waste
    assert later.waste.so_far > first.waste.so_far
    assert later.waste.hours == ()


def test_so_far_grows_by_the_hours_since_it_was_seen_and_a_repeated_tick_adds_nothing() -> None:
    first = value(alert(), None, lambda *_: price("20.00"), NOON)
    hour = NOON + timedelta(hours=1)
    later = value(replace(first, seen=hour), first, lambda *_: price("20.00"), hour)
    again = value(later, later, lambda *_: price("20.00"), hour)
    assert later.waste is not None
    assert later.waste.so_far == Decimal("70.000000")
    assert again.waste == later.waste


def test_so_far_adds_what_was_lost_since_and_an_hour_costs_what_is_lost_now() -> None:
    """An evaluation that ended a minute ago says little of the quarter of an hour before."""
    first = value(alert(anomaly(shares_since=(0.5,) * 4)), None, lambda *_: price("20.00"), NOON)
    hour = NOON + timedelta(hours=1)
    found = replace(first.anomaly, shares_since=(0.25,) * 4)
    later = value(replace(first, anomaly=found, seen=hour), first, lambda *_: price("20.00"), hour)
    assert first.waste is not None
    assert later.waste is not None
    assert first.waste.so_far == pytest.approx(Decimal(20) * 4 / 2 / 6, abs=Decimal("0.00001"))
    assert later.waste.so_far - first.waste.so_far == Decimal(20)
    assert later.waste.per_hour == first.waste.per_hour == Decimal("60.00")


def test_an_alert_not_seen_this_tick_costs_nothing_more() -> None:
    first = value(alert(), None, lambda *_: price(), NOON)
    quiet = value(first, first, lambda *_: price(), NOON + timedelta(minutes=10))
    over = value(
        replace(first, closed=NOON + timedelta(minutes=15)),
        first,
        lambda *_: price(),
        NOON + timedelta(minutes=15),
    )
    assert quiet.waste == first.waste
    assert over.waste is not None
    assert over.waste.month_end == over.waste.so_far


def test_dollars_since_the_last_hour_that_the_bill_showed_are_taken_back_when_a_late_bill_ends_an_alert() -> (
    None
):
    billed = BilledExcess(NOON + timedelta(hours=20), Decimal(240), Decimal(11), Decimal(13))
    told = alert(anomaly(wasted_shares=(), usd_per_hour=Decimal(12), billed=billed))
    day = NOON + timedelta(hours=24)
    later = value(
        replace(told, seen=day), value(told, None, lambda *_: None, NOON), lambda *_: None, day
    )
    over = value(
        replace(later, closed=day), later, lambda *_: None, day + timedelta(minutes=15)
    ).waste
    assert later.waste is not None
    assert over is not None
    assert (later.waste.so_far, over.so_far) == (Decimal(240 + 12 * 4), Decimal(240))
    assert over.month_end == over.so_far


def test_what_a_commitment_bills_either_way_is_told_apart() -> None:
    """Of three nodes at $20 an hour a plan pays nine tenths: stopping them saves six dollars."""
    quote = replace(
        price("20.00", market=Market.SAVINGS_PLAN, basis=Basis.BILLED),
        on_demand_share=Decimal("0.1"),
        lapses=date(2027, 3, 1),
    )
    valued = value(alert(anomaly(Cause.IDLE)), None, lambda *_: quote, NOON)
    assert valued.waste is not None
    assert (valued.waste.per_hour, valued.waste.committed_per_hour) == (Decimal(60), Decimal(54))
    words = money_words(valued)
    assert "$54.00 of the $60.00 an hour is committed until Mar 1, 2027" in words
    assert "stopping saves $6.00 an hour" in words
    assert "let the commitment lapse" in remedies(valued)[0]

    plain_price = value(alert(anomaly(Cause.IDLE)), None, lambda *_: price("20.00"), NOON)
    assert "committed" not in money_words(plain_price)
    assert remedies(plain_price) == plain_price.anomaly.suggestions


@given(
    st.lists(
        st.tuples(st.integers(1, 99_999_999), st.integers(0, 10_000)), min_size=1, max_size=30
    ),
    st.integers(1, 9),
)
@settings(max_examples=12, deadline=None)
def test_each_answer_tells_what_is_wasted_to_the_same_cent(
    nodes: list[tuple[int, int]], incidents: int
) -> None:
    """Of as many nodes as there are, at prices of six digits, in one alert or in several."""
    prices = {
        f"i-{n}": replace(
            price(str(Decimal(usd).scaleb(-6)), basis=Basis.BILLED),
            on_demand_share=Decimal(share) / 10_000,
        )
        for n, (usd, share) in enumerate(nodes)
    }
    names = tuple(prices)
    parts = [names[first::incidents] for first in range(min(incidents, len(names)))]
    valued = [
        value(
            alert(anomaly(Cause.IDLE, things=part, wasted_shares=(1.0,) * len(part)), name=part[0]),
            None,
            prices.__getitem__,
            NOON,
        )
        for part in parts
    ]
    rows = [NodeRow(instance(name), NodeState.IDLE, 0.0, quote) for name, quote in prices.items()]
    week, summary = Week(WEEK, (), valued), Summary(NOON, valued, Coverage())
    cards = [
        fleet_card(rows, "", reading()),
        idle_card(rows, "", reading()),
        alerts_card(valued, None, Coverage()),
        home_card(summary, None),
        summary_card(summary),
        digest_card(week),
    ]

    told = [
        card.data["usd_per_hour"]
        if "usd_per_hour" in card.data
        else card.data["open"]["usd_per_hour"]
        for card in cards
    ]
    assert set(told) == {sum((row.usd_per_hour for row in rows), Decimal(0))}
    assert all(in_words(told[0]) in card.title for card in cards)
    committed = sum((row.committed_usd_per_hour for row in rows), Decimal(0))
    assert committed_usd_per_hour_of(valued) == committed
    for one in cards[3].data["dearest"]:
        listed = next(row for row in cards[2].data["alerts"] if row["id"] == one["id"])
        assert listed["waste_usd"]["per_hour"] == one["waste_usd"]["per_hour"]


@pytest.mark.parametrize(
    ("on_demand", "said"),
    [("0", ", all of it committed"), ("0.25", ", $15.00 of it committed"), ("1", ".")],
)
def test_the_summary_says_what_of_the_waste_is_committed(on_demand: str, said: str) -> None:
    quote = replace(price("20.00", basis=Basis.BILLED), on_demand_share=Decimal(on_demand))
    idle = alert(anomaly(Cause.IDLE, things=("i-1",), wasted_shares=(1.0,)), name="i-1")
    valued = value(idle, None, {"i-1": quote}.__getitem__, NOON)
    card = summary_card(Summary(NOON, (valued,), Coverage()))
    assert f"$20.00 an hour now, in 1 open alert{said}" in str(card.blocks)


def test_causes_of_money_bring_their_own_dollars() -> None:
    found = anomaly(wasted_shares=(), usd_per_hour=Decimal("12.345"))
    waste = value(alert(found), None, lambda *_: None, NOON).waste
    assert waste is not None
    assert (waste.per_hour, waste.basis) == (Decimal("12.345"), "the bill")


def test_without_a_price_there_are_no_dollars() -> None:
    assert value(alert(), None, lambda *_: None, NOON).waste is None


def test_the_least_sure_price_names_the_basis() -> None:
    prices = iter([price(basis=Basis.BILLED), price(basis=Basis.FALLBACK), price(), price()])
    waste = value(alert(), None, lambda *_: next(prices), NOON).waste
    assert waste is not None
    assert waste.basis == "dated fallback"


def test_dollars_hold_from_a_hundred_to_ten_million() -> None:
    for usd in ("100", "10000.01", "9999999.99"):
        waste = value(
            alert(anomaly(n=1, wasted_shares=(1.0,))), None, lambda *_, usd=usd: price(usd), NOON
        ).waste
        assert waste is not None
        assert waste.per_hour == Decimal(usd).quantize(Decimal("0.01"))


def test_what_lies_between_an_end_and_the_next_onset_is_not_counted() -> None:
    first = value(alert(), None, lambda *_: price("20.00"), NOON)
    ended, hour = replace(first, closed=NOON + timedelta(minutes=15)), NOON + timedelta(hours=1)
    again = value(
        replace(first, seen=hour),
        ended,
        lambda *_: price("20.00"),
        hour,
        hour - timedelta(minutes=30),
    )
    assert again.waste is not None
    assert again.waste.so_far == Decimal("40.000000")


def test_an_onset_counts_anew_only_for_what_had_ended() -> None:
    first, hour = value(alert(), None, lambda *_: price("20.00"), NOON), NOON + timedelta(hours=1)
    onset = hour - timedelta(minutes=30)
    again = value(replace(first, seen=hour), first, lambda *_: price("20.00"), hour, onset)
    assert again.waste
    assert again.waste.so_far == Decimal(70)


def test_hours_from_before_a_price_was_known_are_counted_once_it_is() -> None:
    unpriced, hour = value(alert(), None, lambda *_: None, NOON), NOON + timedelta(hours=1)
    later = value(replace(unpriced, seen=hour), unpriced, lambda *_: price("20.00"), hour)
    assert later.waste
    assert later.waste.so_far == Decimal(70)


@pytest.mark.parametrize(("prices", "kept"), [(200, 200), (201, 0)])
def test_the_hours_of_up_to_two_hundred_prices_are_kept(prices: int, kept: int) -> None:
    found = anomaly(n=prices, wasted_shares=(0.5,) * prices)
    usd = {thing: f"{i + 1}.00" for i, thing in enumerate(found.things)}
    waste = value(alert(found), None, lambda thing: price(usd[thing]), NOON).waste
    assert waste
    assert len(waste.hours) == kept


def test_dollars_of_the_bill_have_no_hours_by_price() -> None:
    found = anomaly(usd_per_hour=Decimal(12))
    waste = value(alert(found), None, lambda *_: price("20.00"), NOON).waste
    assert waste
    assert (waste.per_hour, waste.hours) == (12, ())


def test_what_the_bill_saw_end_costs_up_to_there() -> None:
    until = NOON + timedelta(hours=2)
    billed = BilledExcess(NOON, Decimal(240), Decimal(11), Decimal(13), until)
    found = alert(anomaly(wasted_shares=(), usd_per_hour=Decimal(12), billed=billed))
    day = NOON + timedelta(hours=24)
    waste = value(replace(found, seen=day), None, lambda *_: None, day).waste
    assert waste
    assert (waste.so_far, waste.month_end) == (Decimal(264), Decimal(264))


def test_of_commitments_the_last_end_is_told() -> None:
    ends = dict(zip(nodes(2), (date(2027, 3, 1), date(2027, 1, 1)), strict=True))
    found = alert(anomaly(n=2, wasted_shares=(1.0, 1.0)))
    for days in (ends, dict(zip(ends, reversed(ends.values()), strict=True))):
        waste = value(found, None, lambda x, d=days: replace(price(), lapses=d[x]), NOON).waste
        assert waste
        assert waste.lapses == date(2027, 3, 1)


def test_at_the_low_end_of_the_usual_the_range_is_no_wider_than_the_price() -> None:
    found = alert(anomaly(value=0.85))
    waste = value(found, None, lambda *_: price("20.00"), NOON).waste
    assert waste
    assert waste.month_end_low == Decimal(10) + 54 * LEFT.low


def test_only_what_has_ended_at_an_estimate_of_hours_to_come_awaits_the_bill() -> None:
    fires = value(alert(), None, lambda *_: price("20.00"), NOON)
    ended = replace(fires, closed=NOON + FIVE)
    lost = replace(ended, anomaly=replace(ended.anomaly, lost_hours=(1.0,) * 4))
    assert [awaits_bill(x) for x in (fires, ended, lost, alert(closed=NOON))] == [
        False,
        True,
        False,
        False,
    ]


def test_what_was_lost_before_it_was_told_counts_at_once_and_never_grows() -> None:
    found = anomaly(wasted_shares=(0.0,) * 4, lost_hours=(0.5, 0.5, 1.0, 0.0))
    first = value(alert(found), None, lambda *_: price("20.00"), NOON)
    hour = NOON + timedelta(hours=1)
    later = value(replace(first, seen=hour), first, lambda *_: price("20.00"), hour)
    assert first.waste is not None
    assert later.waste is not None
    assert (first.waste.per_hour, first.waste.so_far, first.waste.month_end) == (
        0,
        Decimal(40),
        Decimal(40),
    )
    assert later.waste.so_far == Decimal(40)


@pytest.mark.parametrize("cause", [Cause.LONG_COMPILE, Cause.COLD_CACHE])
def test_a_compile_has_no_month_end_as_it_passes_by_itself(cause: Cause) -> None:
    """Drawn out from noon of the 20th, $60 an hour for 252 hours came to $15,130 by month end."""
    valued = value(alert(replace(anomaly(), cause=cause)), None, lambda *_: price("20.00"), NOON)
    waste = valued.waste
    assert waste is not None
    assert (waste.per_hour, waste.month_end_low, waste.month_end, waste.month_end_high) == (
        60,
        10,
        10,
        10,
    )
    assert "month end" not in money_words(valued)


def test_what_goes_on_says_its_month_end() -> None:
    valued = value(alert(), None, lambda *_: price("20.00"), NOON)
    assert "about $371 by month end" in money_words(valued)


def test_an_ended_alert_costs_what_the_bill_shows_of_its_hours() -> None:
    """Spot by its estimate, half of its time on demand by the bill; one hour was billed in part."""
    found = anomaly(Cause.IDLE, n=2, wasted_shares=(1.0, 1.0))
    found = replace(found, window=replace(found.window, start=NOON - timedelta(hours=4)))
    (name, beside), at = found.things, NOON + timedelta(days=2)
    ended = replace(value(alert(found), None, lambda *_: price("3.00"), NOON), closed=NOON)
    assert ended.waste
    assert awaits_bill(ended)

    def billed(*prices: int) -> dict[str, dict[datetime, BilledHour]]:
        first, half = NOON - timedelta(hours=5), {NOON - timedelta(hours=1): 0.5}
        times = [first + timedelta(hours=i) for i in range(len(prices))]
        hours = {x: half.get(x, 1.0) for x in times}
        lines = zip(times, prices, strict=True)
        by_hour = {x: BilledHour(Decimal(usd) * Decimal(hours[x]), hours[x]) for x, usd in lines}
        return {name: by_hour, beside: by_hour}

    assert at_billed_prices(ended, billed(99, 10, 10, 20), at) == ended
    exact = at_billed_prices(ended, billed(99, 10, 10, 20, 20, 99), at)
    unmetered = {NOON - timedelta(hours=4): BilledHour(Decimal(7), 0.0)}
    lines = billed(99, 10, 10, 20, 20, 99)
    assert at_billed_prices(ended, {**lines, beside: lines[beside] | unmetered}, at).waste
    assert exact.waste
    assert exact.waste.so_far == exact.waste.month_end == 2 * 4 * 15
    assert [(x.usd_per_hour, x.hours) for x in exact.waste.hours] == [(15, 8)]
    assert price_words(exact) == "Billed: by the lines of these hours, as of Nov 22, 2026"
    assert not awaits_bill(exact)
    some = replace(exact, waste=replace(exact.waste, unpriced=1))
    assert price_words(
        replace(some, waste=replace(some.waste, billed=False, basis="billed, own hours"))
    ).startswith("Estimated at the billed price (each node's own) of ")
    assert price_words(some).endswith("; 1 of 2 nodes left out, as no price is known for them")
    # Where nothing is wasted there are no dollars to name a price of.
    nothing = replace(exact.waste, per_hour=Decimal(0), so_far=Decimal(0))
    assert price_words(replace(exact, waste=nothing)) == ""


@pytest.mark.parametrize("cause", [Cause.UNUSED_CAPACITY, Cause.ORPHANED_STORAGE])
def test_what_is_no_node_keeps_its_price_at_its_end(cause: Cause) -> None:
    """Four empty places of a reservation were billed as four hours in each: the price fell to one's."""
    valued = value(alert(replace(anomaly(), cause=cause)), None, lambda *_: price("86.00"), NOON)
    assert not awaits_bill(replace(valued, closed=NOON))


def test_hours_of_nodes_that_move_to_another_alert_are_counted_there_alone() -> None:
    """Six nodes allocated and unused for two hours; four of them have hung for the last of these."""
    found = anomaly(Cause.ALLOCATED_UNUSED, n=6, wasted_shares=(1.0,) * 6)
    found = replace(found, window=Window(NOON - 2 * HOUR, NOON))
    unused = value(alert(found), None, lambda _: price("20.00"), NOON)
    assert unused.waste
    assert unused.waste.so_far == 6 * 2 * 20

    moved, stayed = found.things[:4], found.things[4:]
    hung = replace(found, cause=Cause.HUNG, things=moved, window=Window(NOON - HOUR, NOON + FIVE))
    rest = without_moved(unused, stayed, [alert(hung)], lambda _: price("20.00"))
    assert rest.waste
    assert rest.waste.so_far == 6 * 2 * 20 - 4 * 1 * 20
    assert [x.usd_per_hour * x.hours for x in rest.waste.hours] == [rest.waste.so_far]
    for same in ((found.things, [alert(hung)]), (stayed, [])):
        assert without_moved(unused, *same, lambda _: price("20.00")) == unused


def test_what_is_over_wastes_nothing_now() -> None:
    valued = value(alert(), None, lambda *_: price("20.00"), NOON)
    over = replace(valued, seen=NOON + FIVE, closed=NOON + 4 * FIVE)
    assert money_words(valued).startswith("Wasting $60.00 an hour · $10.00 so far")
    assert money_words(over) == "Wasted $10.00 in 15 min."
    assert alert_data(over)["waste_usd"]["per_hour"] == 0


def test_things_without_a_price_are_counted_and_named() -> None:
    """Nodes that no inventory knows cost something too: dollars that leave them out say so."""
    known = nodes(4)[:3]
    found = alert(anomaly(wasted_shares=(1.0,) * 4))
    valued = value(found, None, lambda thing: price("20.00") if thing in known else None, NOON)
    assert valued.waste is not None
    assert (valued.waste.per_hour, valued.waste.unpriced) == (Decimal("60.00"), 1)
    assert "1 of 4 nodes left out, as no price is known for them" in price_words(valued)


def test_a_card_says_through_when_the_bill_shows_it_and_that_later_hours_are_an_estimate() -> None:
    billed = BilledExcess(NOON, Decimal(240), Decimal(11), Decimal(13))
    told = value(
        alert(anomaly(wasted_shares=(), usd_per_hour=Decimal(12), billed=billed)),
        None,
        lambda *_: None,
        NOON,
    )
    assert price_words(told) == "Billed through Nov 20, 12:00 UTC, later hours are an estimate"
    over = replace(told, anomaly=replace(told.anomaly, billed=replace(billed, until=NOON)))
    for alert_over in (over, replace(told, closed=NOON)):
        assert price_words(alert_over) == "Billed through Nov 20, 12:00 UTC"
