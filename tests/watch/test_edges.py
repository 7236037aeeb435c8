"""Which alerts share a message, for whom it is, and from where on: each rule of every cause at its edge."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from bot.costs.pricing import BilledHour
from bot.model.alert import Waste, WastedHours
from bot.model.causes import About, Cause, Severity
from bot.model.labels import Labels
from bot.model.route import Route, Routes
from bot.model.window import Window
from bot.policy.file import policy_of
from bot.policy.schema import default_policy
from bot.watch.mute import counted_with, mute
from bot.watch.notify import UNTOLD, audience, fits, group_key, incident_id, listeners, too_late
from bot.watch.track import alert_id, at_billed_prices, awaits_bill, escalated, recent
from tests.builders import NOON, alert, anomaly, waste
from tests.cases import in_one_run

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
SECOND = timedelta(seconds=1)
ROOM = Labels(account="1", region="us-west-2", cluster="x", job="j", resource="r", team="t")


def about(cause, **labels):
    """Return an alert of a cause about these labels."""
    scope = Labels(**{**dict(ROOM), **labels})
    return alert(anomaly(cause, scope=scope, labels=scope))


@in_one_run
@pytest.mark.parametrize("cause", Cause)
def test_a_message_is_of_one_cause_and_cluster_and_of_money_of_one_account(cause):
    """Each label by itself: what another value of it begins another message of, and what not."""

    def parting(**given):
        key = group_key(about(cause, **given))
        return {
            name
            for name in dict(ROOM)
            if group_key(about(cause, **{**given, name: "other"})) != key
        }

    facts = cause.facts
    if facts.about is About.MONEY:
        assert parting() == {"account"}
        assert len({group_key(about(c)) for c in Cause if c.facts.about is About.MONEY}) == 1
        return
    assert parting() == {"cluster", "resource"}
    assert parting(resource="") == {"cluster", "resource"} | (
        {"job"} if facts.about is About.NODES else set()
    )
    assert parting(cluster="") == {"cluster", "account"} | (
        {"job"} if facts.about is About.NODES else set()
    )
    assert "region" in parting(cluster="", account="")
    assert group_key(about(cause)) != group_key(replace(about(cause), anomaly=anomaly(
        cause, rule="another", scope=ROOM, labels=ROOM)))  # fmt: skip


@in_one_run
@pytest.mark.parametrize("cause", Cause)
def test_small_things_of_one_cluster_and_account_count_together(cause):
    one, far = about(cause), about(cause, cluster="y")
    other = next(x for x in Cause if x is not cause)
    among = [one, about(cause, team="u"), far, about(cause, account="2"), about(other)]
    assert len(counted_with(one, among)) == (2 if cause.facts.adds_up else 1)


def test_ids_are_the_same_for_the_same_and_other_for_any_other():
    assert alert_id("k", NOON) == alert_id("k", NOON)
    assert len({alert_id("k", NOON), alert_id("l", NOON), alert_id("k", NOON + SECOND)}) == 3
    first, second = alert(name="a1"), alert(name="a2")
    ids = {incident_id(channel, x) for channel in ("C1", "C2") for x in (first, second)}
    assert len(ids) == 4


@in_one_run
@pytest.mark.parametrize(
    ("route", "fit"),
    [
        (Route(("C1",)), True),
        (Route(("C1",), Labels(cluster="llama")), True),
        (Route(("C1",), Labels(cluster="other")), False),
        (Route(("C1",), cause="starved"), True),
        (Route(("C1",), cause="idle"), False),
        (Route(("C1",), severity=Cause.STARVED.facts.severity.value), True),
        (Route(("C1",), severity=Severity.INFO.value), False),
        (Route(("C1",), Labels(instance_type="trn1.32xlarge")), True),
    ],
)
def test_a_route_fits_what_has_all_that_it_asks_for(route, fit):
    assert fits(route, alert()) is fit


@in_one_run
@pytest.mark.parametrize(
    ("waited", "changed", "second"),
    [
        (0, {}, True),
        (-SECOND.total_seconds(), {}, False),
        (60, {"closed": NOON}, False),
        (60, {"costly": False}, False),
    ],
)
def test_the_second_route_hears_what_is_critical_and_stood_for_too_long(waited, changed, second):
    after = default_policy().duration("alert.escalate_after")
    routes = Routes(default=("C1",), escalate=("C2",))
    now = NOON + after + timedelta(seconds=waited)
    found = replace(alert(), costly=True)
    heard = audience(replace(found, **changed), routes, default_policy(), now)
    assert heard == (("C1", "C2") if second else ("C1",))


def test_what_ended_a_day_ago_is_too_late_unless_something_is_newer():
    ended = replace(alert(), closed=NOON)
    assert too_late([ended], NOON + UNTOLD)
    assert not too_late([ended], NOON + UNTOLD - SECOND)
    assert not too_late([ended, alert()], NOON + UNTOLD)


def test_who_holds_a_message_is_asked_whatever_the_routes_say():
    assert listeners([], ["C1", "C2"], [("C2", "C3"), ()]) == ("C1", "C2", "C3")


@in_one_run
@pytest.mark.parametrize(
    ("cause", "ago", "again"),
    [
        (Cause.IDLE, HOUR - SECOND, True),
        (Cause.IDLE, HOUR, Cause.IDLE.facts.returns > HOUR),
        (Cause.SPEND_JUMP, Cause.SPEND_JUMP.facts.returns - SECOND, True),
        (Cause.SPEND_JUMP, Cause.SPEND_JUMP.facts.returns, False),
    ],
)
def test_what_ended_not_long_ago_is_the_same_alert_again(cause, ago, again):
    ended = replace(alert(anomaly(cause)), closed=NOON - ago)
    assert bool(recent([ended], NOON, HOUR)) is again
    assert recent([alert()], NOON, HOUR) == []
    by_another_rule = replace(ended, anomaly=replace(ended.anomaly, rule="another"))
    assert bool(recent([by_another_rule], NOON, HOUR)) is (ago < HOUR)


@in_one_run
@pytest.mark.parametrize("ended", [NOON, NOON + MINUTE, NOON - SECOND])
def test_an_ended_alert_waits_for_the_bill_of_the_hour_that_it_ended_in(ended):
    """An alert that ends as an hour does needs none of the next one."""
    last = NOON if ended > NOON else NOON - HOUR
    hours = (WastedHours(Decimal(10), Decimal(2)),)
    found = replace(
        alert(anomaly(n=1, window=Window(NOON - 2 * HOUR, ended))),
        seen=ended,
        closed=ended,
        waste=replace(waste("10", "20"), hours=hours),
    )
    (thing,) = found.anomaly.things
    paid = BilledHour(Decimal(8), 1.0)
    assert awaits_bill(found)
    assert not awaits_bill(replace(found, waste=replace(found.waste, hours=())))
    before = {thing: {last - HOUR: paid}}
    assert at_billed_prices(found, before, ended) is found
    assert at_billed_prices(found, {"i-other": {last: paid}}, ended) is found
    billed = at_billed_prices(found, {thing: {last - HOUR: paid, last: paid}}, ended)
    assert billed.waste
    assert (billed.waste.so_far, billed.waste.per_hour, billed.waste.billed) == (16, 8, True)
    assert billed.waste.month_end == billed.waste.month_end_high == 16
    assert not awaits_bill(billed)


def test_each_hour_of_the_bill_weighs_by_how_much_of_it_lies_within():
    hours = (WastedHours(Decimal(10), Decimal(2)),)
    found = replace(
        alert(anomaly(n=1, window=Window(NOON - 90 * MINUTE, NOON))),
        seen=NOON,
        closed=NOON,
        waste=replace(waste("10", "20"), hours=hours),
    )
    (thing,) = found.anomaly.things
    bill = {
        NOON - 2 * HOUR: BilledHour(Decimal(4), 0.5),
        NOON - HOUR: BilledHour(Decimal(20), 1.0),
        NOON - 9 * HOUR: BilledHour(Decimal(999), 1.0),
        NOON: BilledHour(Decimal(999), 1.0),
        NOON - 3 * HOUR: BilledHour(Decimal(999), 0.0),
    }
    billed = at_billed_prices(found, {thing: bill}, NOON)
    assert billed.waste
    # Half an hour at 8 and an hour at 20 are 16 an hour in the mean.
    assert billed.waste.so_far == 32
    assert billed.waste.priced_at == NOON.date()


@in_one_run
@pytest.mark.parametrize(
    ("costly", "per_hour", "then"),
    [(False, "99.99", False), (False, "100", True), (True, "50", True), (True, "49.99", False)],
)
def test_what_is_costly_stays_so_down_to_half_of_the_limit(costly, per_hour, then):
    policy = policy_of({"alert": {"critical_usd_per_hour": 100}})
    found = replace(alert(waste=waste(per_hour)), costly=costly)
    assert escalated(found, policy).costly is then
    assert escalated(replace(found, closed=NOON), policy).costly is costly
    assert escalated(replace(found, waste=None), policy).costly is costly


def test_a_waste_is_of_no_bill_until_it_says_so():
    assert not Waste(*[Decimal(0)] * 5, "price list").billed


@in_one_run
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("source", Cause)
def test_a_cause_explains_what_its_row_says_and_nothing_else(source, wide):
    """A quarter of the nodes of a source has each other cause: by the table, and by being a part."""
    whole = alert(anomaly(source, n=16, wide=wide), name="whole")
    for cause in Cause:
        found = mute([whole, alert(anomaly(cause, n=4), name="part")], [], default_policy(), NOON)
        explained = source in cause.facts.explained_by or (wide and source in cause.facts.part_of)
        assert (found[1].muted_by == whole.effect_mark) is explained, cause
