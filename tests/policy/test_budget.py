"""A budget of messages: how it is read, what floors send, and what a promise counts."""

import itertools
import math
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from bot.answers.about import digest
from bot.answers.config.preview import promised_card
from bot.cards.card import Card, Tone
from bot.errors import WrongInput
from bot.model.alert import Peak
from bot.model.causes import Cause, Severity
from bot.model.window import Window
from bot.policy.schema import default_policy
from bot.watch.budget import (
    BEYOND,
    FLOORED,
    HELD,
    WEEK,
    Bids,
    Budget,
    followed,
    frontier,
    hold,
    messages_of,
    promised_of,
    read_budget,
    usd_within_a_week,
    week_at,
    week_of,
    worth_of,
)
from tests.builders import NOON, alert, anomaly, waste

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
TWO_WEEKS = Window(NOON, NOON + 2 * WEEK)


def idle(name, per_hour, so_far=None, opened=NOON, cluster=None, hours=1):
    found = anomaly(Cause.IDLE, cluster=cluster or name, at=opened)
    spent = waste(per_hour=str(per_hour), so_far=str(so_far or per_hour))
    made = alert(found, name=name, opened=opened, closed=opened + hours * HOUR, waste=spent)
    return replace(made, peak=Peak(found, Decimal(per_hour), Decimal(per_hour)))


def seen(*alerts):
    return frontier(alerts, TWO_WEEKS, default_policy())


def silent(name, opened=NOON, severity=Severity.WARNING):
    """Return an alert without dollars; a critical one is urgent."""
    made = idle(name, 1, opened=opened)
    found = replace(made.anomaly, severity=severity)
    return replace(made, anomaly=found, waste=None, peak=None)


FIVE_USD = (2, 5, 20, 60, 300)
FIVE_ALERTS = [idle(f"a{n}", usd, so_far=10 * usd) for n, usd in enumerate(FIVE_USD)]


def test_what_costs_nothing_is_caught_whole():
    tried = seen(silent("a"))
    assert [tried.caught(point) for point in tried.points] == [1.0] * len(tried.points)


@pytest.mark.parametrize(
    ("words", "budget"),
    [
        ("at most 2 messages a week", Budget(2)),
        ('"at most 2 messages a week" and "at least 90 % of wasted dollars"', Budget(2, 0.9)),
        ("no more than 1 alert per day, and catch at least 75.5%", Budget(7, 0.755)),
        ("90 percent of the waste", Budget(0, 0.9)),
        ("3 alerts a day", Budget(21)),
        ("100% of the waste", Budget(0, 1.0)),
        ("1 message a week", Budget(1)),
        ("8 alerts a month", Budget(1)),  # a promise counts whole messages
    ],
)
def test_a_budget_is_read_as_people_write_it(words, budget):
    assert read_budget(words) == budget


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("few messages", "'few' is not part of a budget"),
        ("at most 2 messages a week for vision", "'for vision' is not part"),
        ("at most", "No number was given"),
        ("at least 120%", "at most 100 %"),
        ("0 messages a week", "turns rules off"),
        ("1 message a month", "at least one message a week"),
    ],
)
def test_what_is_not_understood_is_named(words, wrong):
    with pytest.raises(WrongInput, match=wrong):
        read_budget(words)


def test_each_floor_sends_what_wastes_more_at_its_peak():
    points = seen(*FIVE_ALERTS).points
    assert [(point.messages, point.usd) for point in points] == [
        (0, 0),
        (1, 3000),
        (2, 3600),
        (3, 3800),
        (4, 3850),
        (5, 3870),
    ]
    assert all(a.usd_per_hour > b.usd_per_hour for a, b in itertools.pairwise(points))


def test_a_floor_sends_what_is_worth_it_exactly_and_floors_are_tried_from_the_highest():
    found = seen(*FIVE_ALERTS)
    assert found.floors == sorted(found.floors, reverse=True)
    sent = [found.at(Decimal(x)).messages for x in ("20", "20.01")]
    assert sent == [3, 2]
    assert seen().caught(seen().at(Decimal(0))) == 1


def test_down_the_floors_as_many_messages_are_counted_as_at_each_floor_alone():
    pairs = [(n * 7 % 11, n % 3) for n in range(24)]
    alerts = [
        idle(f"a{i}", worth, opened=NOON + hour * HOUR, cluster=f"c{hour}", hours=1 + i % 4)
        for i, (worth, hour) in enumerate(pairs)
    ]
    found = seen(*alerts, silent("urgent", severity=Severity.CRITICAL))
    fewest = {point.messages: point for point in map(found.at, found.floors)}
    assert found.points == tuple(fewest[messages] for messages in sorted(fewest))


def test_what_was_muted_otherwise_is_tried_on_no_floor():
    snoozed = replace(FIVE_ALERTS[0], muted_by="silence:s1")
    assert [x.id for x in seen(snoozed, *FIVE_ALERTS[1:]).raised] == ["a1", "a2", "a3", "a4"]


def test_a_share_that_is_caught_exactly_is_kept_and_one_out_of_reach_takes_all():
    found = seen(*FIVE_ALERTS)
    share = found.caught(found.points[2])
    assert found.chosen(Budget(least_caught=share)).messages == 2
    assert found.chosen(Budget(least_caught=1.1)).messages == 5
    budget = Budget(least_caught=share)
    assert [found.kept(point, budget) for point in found.points[1:3]] == [False, True]


def test_a_promise_counts_all_messages_but_those_that_are_critical():
    found = seen(*FIVE_ALERTS)
    one, two = (found.points[n] for n in (2, 3))
    assert (found.per_week(one), found.per_week(two)) == (1, 1.5)
    assert [found.kept(point, Budget(1)) for point in (one, two)] == [True, False]
    critical = [silent(f"s{n}", severity=Severity.CRITICAL) for n in range(4)]
    beside = seen(*critical, *FIVE_ALERTS)
    assert beside.critical == 4
    assert [beside.kept(beside.points[n], Budget(1)) for n in (2, 3)] == [True, False]
    assert beside.chosen(Budget(1)).messages == found.chosen(Budget(1)).messages + 4
    assert promised_of([*critical, *FIVE_ALERTS]) == 5


def test_messages_are_counted_in_their_order_and_those_that_touch_share_one():
    first = idle("a", 5, cluster="llama")
    touching, apart = (
        idle("b", 5, opened=NOON + HOUR + timedelta(seconds=n), cluster="llama") for n in (0, 1)
    )
    assert [messages_of([x, first]) for x in (touching, apart)] == [1, 2]
    bridge = idle("c", 5, opened=NOON + HOUR / 2, cluster="llama", hours=2)
    assert messages_of([apart, first, bridge]) == 1


def test_small_things_count_together_where_they_are_at_one_time():
    found = anomaly(Cause.ORPHANED_STORAGE, cluster="llama", at=NOON, things=("vol-1",))
    first = alert(found, name="v1", opened=NOON, closed=NOON + HOUR, waste=waste(per_hour="3"))
    beside = replace(first, id="v2", opened=NOON + HOUR, closed=NOON + 2 * HOUR)
    later = replace(beside, id="v3", opened=NOON + DAY, closed=NOON + DAY + HOUR)
    assert worth_of([first, beside, later]) == {"v1": 6, "v2": 6, "v3": 3}


def test_a_floor_goes_by_the_dearest_hour_that_ever_was():
    found = idle("a", 5)
    dearer = replace(found.peak, most_usd_per_hour=Decimal(9))
    assert worth_of([replace(found, peak=dearer)]) == {"a": 9}


def test_what_carries_no_dollars_no_floor_holds_back():
    assert [point.messages for point in seen(silent("s"), FIVE_ALERTS[0]).points] == [1, 2]


def test_small_things_of_one_cluster_count_together():
    volumes = []
    for n in range(4):
        found = anomaly(Cause.ORPHANED_STORAGE, cluster="llama", at=NOON, things=(f"vol-{n}",))
        made = alert(found, name=f"v{n}", opened=NOON, waste=waste(per_hour="3", so_far="9"))
        volumes.append(replace(made, peak=Peak(found, Decimal(3), Decimal(3))))
    assert set(seen(*volumes).worths.values()) == {Decimal(12)}


def test_a_thing_without_a_price_adds_nothing_to_its_lot():
    first = anomaly(Cause.ORPHANED_STORAGE, cluster="llama", at=NOON, things=("vol-1",))
    priced = alert(first, name="v1", opened=NOON, waste=waste(per_hour="3", so_far="9"))
    found = seen(priced, replace(priced, id="v2", waste=None))
    assert found.worths == {"v1": Decimal(3), "v2": None}


def test_alerts_of_one_group_that_overlap_are_one_message():
    first, second = idle("a", 5, cluster="llama", hours=3), idle("b", 5, opened=NOON + HOUR, cluster="llama")  # fmt: skip
    later = idle("c", 5, opened=NOON + DAY, cluster="llama")
    assert messages_of([later, second, first]) == 2
    assert (
        messages_of([first, replace(second, anomaly=idle("d", 5, cluster="vision").anomaly)]) == 2
    )


def test_a_promise_follows_what_is_left_of_each_week():
    coming = list(enumerate(reversed(FIVE_USD)))
    found = seen(*(idle(f"a{n}", usd, 10 * usd, NOON + n * DAY) for n, usd in coming))
    # The first goes out; the message that is left waits for one as dear, which does not come.
    chosen = found.chosen(Budget(2))
    assert (chosen.messages, chosen.usd) == (1, 3000)
    assert found.chosen(Budget(8)).messages == 5


def bids(*worths):
    return Bids(tuple(map(float, worths)))


def test_a_message_is_worth_less_the_less_of_a_week_is_to_come_and_the_more_are_left():
    week = bids(10, 20, 40, 80)
    by_hours = [week.floor(1, hours) for hours in (168, 84, 24, 1, 0)]
    assert by_hours == sorted(by_hours, reverse=True)
    assert by_hours[-1] == 0
    by_left = [week.floor(left, 168) for left in range(5)]
    assert by_left == sorted(by_left, reverse=True)
    assert by_left[0] == BEYOND * 80


def test_a_last_message_is_worth_what_the_week_is_likely_to_bring():
    # One worth of 50 that comes with a chance of 1 - e**-0.5 in a week: no other choice is to make.
    expected = 50 * (1 - math.exp(-0.5))
    assert float(bids(50).floor(1, 168)) == pytest.approx(expected, rel=0.01)


def test_what_has_no_dollars_counts_for_the_least_that_has_and_only_urgent_alerts_stand_apart():
    urgent = silent("u", opened=NOON + 9 * HOUR, severity=Severity.CRITICAL)
    learnt = Bids.of([silent("s"), urgent, idle("a", 20), idle("b", 5)])
    day = 24
    assert (sorted(learnt.worths), learnt.least) == ([5 * day, 5 * day, 20 * day], 5 * day)

    # One that is sent however small counts for its own dollars where these are more.
    errors = replace(idle("e", 8), anomaly=anomaly(Cause.EXECUTION_ERRORS, cluster="e"))
    assert sorted(Bids.of([errors, idle("b", Decimal("0.5"))]).worths) == [12, 8 * 3]
    assert worth_of([errors, silent("s")], Decimal(5)) == {"e": 8, "s": 5}
    assert worth_of([errors, urgent, silent("s")]) == {"e": None, "u": None, "s": None}
    assert worth_of([urgent], Decimal(5)) == {"u": None}


def test_a_week_of_alerts_without_dollars_keeps_its_promise_and_the_dearest_are_sent():
    quiet = [silent(f"s{n}", opened=NOON + n * DAY) for n in range(5)]
    coming = ((0, 1), (1, 50), (2, 1), (3, 1), (4, 60), (5, 1))
    found = seen(*quiet, *(idle(f"a{n}", usd, opened=NOON + n * DAY) for n, usd in coming))
    point = found.following(2)
    assert (point.messages, point.usd) == (2, 110)


def test_nothing_learnt_sends_what_comes_until_the_week_is_used_up():
    assert bids().floor(1, 168) == 0
    assert bids().floor(0, 1) == Decimal("Infinity")
    assert bids(0, 0).floor(0, 1) == Decimal("Infinity"), "nothing is twice as dear as nothing"


def firing(name, per_hour, opened=NOON, **more):
    return replace(idle(name, per_hour, opened=opened), closed=None, **more)


THIS_WEEK = Window(NOON, NOON + WEEK)


def held(alerts, recent=(), most=1, now=NOON + HOUR):
    return {x.id: x.muted_by for x in hold(alerts, recent, most, THIS_WEEK, now)}


def test_the_dearest_of_a_tick_takes_the_message_that_is_left():
    assert held([firing("a", 5), firing("b", 50)]) == {"a": HELD, "b": ""}


def test_a_message_goes_to_what_wastes_most_until_the_next_week_and_not_to_what_is_dearest_an_hour():
    hang, route = (
        replace(idle(cause.value, usd), anomaly=anomaly(cause, cluster=cause.value))
        for cause, usd in ((Cause.HUNG, 400), (Cause.TRANSFER_ROUTE, 20))
    )
    assert [usd_within_a_week(x) for x in (hang, route)] == [400 * 4, 20 * 168]
    assert held([replace(x, closed=None) for x in (hang, route)]) == {
        "hung": HELD,
        "transfer_route": "",
    }
    lost = replace(hang, anomaly=replace(hang.anomaly, lost_hours={"i-1": 3.0}))
    assert usd_within_a_week(lost) == 400, "nothing more of it is wasted"


def test_what_was_sent_stays_so_and_uses_up_a_message():
    sent, dearer = firing("a", 5, notified=NOON), firing("b", 9)
    assert held([sent, dearer], [sent]) == {"a": "", "b": HELD}
    snoozed = replace(sent, muted_by="silence:s1")
    assert held([snoozed, dearer], [snoozed])["b"] == HELD, "a snooze takes no message back"
    earlier = replace(sent, notified=NOON - DAY)
    assert held([earlier, dearer], [earlier]) == {"a": "", "b": ""}, "of the week before"


def test_what_was_muted_by_something_else_stays_muted_by_it():
    muted = firing("m", 50, muted_by="silence:s1")
    assert held([muted, firing("a", 5)]) == {"m": "silence:s1", "a": ""}


def test_past_the_promise_goes_what_is_far_dearer_than_all_that_was():
    sent = [firing("a", 10, notified=NOON)]
    assert held([*sent, firing("b", 19)], sent)["b"] == HELD
    assert held([*sent, firing("b", 20)], sent)["b"] == ""
    both = [*sent, firing("b", 20, notified=NOON)]
    assert held([*both, firing("c", 900)], both)["c"] == HELD, "once in a week"


def test_a_week_learns_from_two_weeks_before_it_and_not_from_what_was_muted_otherwise():
    now = NOON + HOUR
    waiting = firing("b", 5)

    def marked(opened, **more):
        dear = [idle(f"d{n}", 500, opened=opened, cluster=f"c{n}") for n in range(9)]
        return held([waiting], [replace(x, **more) for x in dear], now=now)["b"]

    assert marked(now - 2 * WEEK, muted_by=FLOORED) == HELD
    assert marked(now - 2 * WEEK - timedelta(seconds=1), muted_by=FLOORED) == ""
    assert marked(now - DAY, muted_by="silence:s1") == ""


def test_a_replay_hears_of_an_alert_within_the_hour_and_once_it_has_begun():
    alerts = [
        idle("a", 9, opened=NOON + HOUR),
        idle("b", 9, opened=NOON + timedelta(minutes=10), hours=0.5),
        replace(idle("c", 9, opened=NOON + 3 * HOUR), closed=NOON + 3 * HOUR),
    ]
    sent = {x.id: x.notified_at - NOON for x in followed(alerts, TWO_WEEKS, 9)}
    assert sent == {"a": HOUR, "b": HOUR, "c": 3 * HOUR}
    over = replace(alerts[2], opened=NOON - HOUR, closed=NOON - HOUR)
    assert followed([over], TWO_WEEKS, 9) == []


def test_an_alert_is_no_measure_of_itself():
    sent, waiting = firing("a", 9, notified=NOON), firing("b", 20)
    assert held([sent, waiting], [sent, replace(waiting, muted_by=HELD)])["b"] == ""


def test_a_loss_that_is_over_is_worth_its_whole():
    lost = replace(anomaly(Cause.IDLE, n=1), lost_hours=(1.0,))
    assert worth_of([replace(idle("a", 2, so_far=70), anomaly=lost, peak=None)]) == {"a": 70}


def test_a_week_begins_on_monday_in_utc():
    monday = NOON.replace(hour=0) - 4 * DAY
    assert monday.weekday() == 0
    for at in (monday, NOON, monday + WEEK - timedelta(seconds=1)):
        assert week_at(at) == Window(monday, monday + WEEK)


def test_the_end_of_a_replay_begins_no_week():
    alerts = [idle("a", 10, opened=NOON + WEEK), idle("b", 15, opened=NOON + 2 * WEEK)]
    assert [x.id for x in followed(alerts, TWO_WEEKS, 1)] == ["a"]


def test_what_shares_a_message_or_is_urgent_or_explains_what_is_urgent_is_never_held_back():
    sent = [firing("a", 10, notified=NOON)]
    joins = replace(firing("j", 1), anomaly=sent[0].anomaly)
    assert held([*sent, joins], sent)["j"] == ""
    urgent, quiet = (
        replace(silent(x.value, severity=x), closed=None)
        for x in (Severity.CRITICAL, Severity.WARNING)
    )
    assert held([*sent, urgent, quiet], sent) == {"a": "", "critical": "", "warning": HELD}
    source = firing("s", 1)
    explained = [replace(x, muted_by=f"inhibit:{source.key}") for x in (quiet, urgent)]
    assert [held([*sent, source, *explained[:n]], sent)["s"] for n in range(3)] == [HELD, HELD, ""]


def test_a_share_alone_takes_the_fewest_messages():
    chosen = seen(*FIVE_ALERTS).chosen(Budget(least_caught=0.9))
    assert chosen.messages == 2


@pytest.mark.parametrize(("n", "words"), [(3, "Critical among them: 3."), (0, "")])
def test_the_card_of_a_promise_names_what_it_does_not_count(n, words):
    critical = [silent(f"c{i}", severity=Severity.CRITICAL) for i in range(n)]
    found = seen(*critical, *FIVE_ALERTS)
    budget = Budget(2)
    card = promised_card(Card("", Tone.INFO, (), {}), found, found.chosen(budget), budget)
    assert words in str(card.blocks)
    assert ("critical" in str(card.blocks)) == bool(n)
    assert card.data["budget"]["kept"]


def test_what_is_critical_uses_up_no_message():
    critical = replace(silent("c", severity=Severity.CRITICAL), closed=None, notified=NOON)
    assert held([critical, firing("a", 5)], [critical]) == {"c": "", "a": ""}


def test_a_week_is_judged_by_what_was_sent():
    muted = replace(idle("m", 1, so_far=100), muted_by=FLOORED)
    snoozed = replace(idle("s", 50, so_far=900), muted_by="silence:s1")
    before = idle("b", 50, opened=NOON - DAY)
    week = week_of([*FIVE_ALERTS[3:], muted, snoozed, before], Window(NOON, NOON + WEEK))
    assert (week.messages, week.critical, week.covered_usd, week.usd) == (2, 0, 3600, 3700)
    assert week.keeps(Budget(2, 0.95))
    critical = [silent(f"c{n}", severity=Severity.CRITICAL) for n in range(3)]
    beside = week_of([*FIVE_ALERTS[3:], *critical], Window(NOON, NOON + WEEK))
    assert (beside.messages, beside.critical, beside.keeps(Budget(2))) == (2, 3, True)
    waited = [replace(x, muted_by=HELD) for x in (silent("q"), muted)]
    assert [x.id for x in week_of(waited, Window(NOON, NOON + WEEK)).held] == ["m", "q"]
    assert week.held == [], "the floor alone held it back"
    assert not week.keeps(Budget(1))
    assert not week.keeps(Budget(2, 0.99))
    sent = replace(snoozed, notified=NOON)
    assert week_of([sent], Window(NOON, NOON + WEEK)).messages == 1
    late = replace(before, notified=NOON)
    assert week_of([late], Window(NOON, NOON + WEEK)).messages == 1


def test_a_digest_lists_what_waited_and_had_no_message():
    window = Window(NOON, NOON + WEEK)
    waited = [replace(x, muted_by=HELD) for x in (silent("q"), idle("m", 1))]
    sent = week_of([*FIVE_ALERTS, *waited], window)
    week = digest.Week(window, (), (), promised=Budget(5), sent=sent)
    words = str(digest.digest_card(week).blocks)
    assert "held back" in words
    assert "kept (5 messages" in words
    beside = week_of([*FIVE_ALERTS, silent("c", severity=Severity.CRITICAL)], window)
    words = str(digest.digest_card(replace(week, sent=beside)).blocks)
    assert "kept (5 messages and 1 critical," in words
    assert "held back" not in str(
        digest.digest_card(replace(week, sent=week_of((), window))).blocks
    )
