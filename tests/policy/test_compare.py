from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from bot.model.causes import Cause
from bot.model.notification import Notification, Reason, ReplayResult
from bot.model.window import Window
from bot.watch.preview import compare, digest, side_of, summary
from tests.builders import FIVE, NOON, alert, anomaly, waste

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def seen(*alerts, unheard=()):
    """Return a replay in which every alert is told once at its opening, bar the unheard."""
    told = [a for a in alerts if a.id not in unheard]
    notices = [Notification(f"n{a.id}", "chat:ops", Reason.FIRST, a.opened, (a,)) for a in told]
    return ReplayResult(
        Window(NOON - HOUR, NOON + 5 * HOUR), 72, {a.id: a for a in alerts}, notices
    )


def idle(name, opened=NOON, cluster="llama", so_far="50"):
    found = anomaly(Cause.IDLE, cluster=cluster, at=opened)
    return alert(found, name=name, opened=opened, closed=opened + HOUR, waste=waste(so_far=so_far))


def test_an_alert_told_sooner_is_the_same_alert():
    found = compare(seen(idle("a1")), seen(idle("a2", NOON - FIVE)))
    assert (found.appear, found.disappear) == ((), ())


def test_an_alert_of_another_time_or_place_is_another():
    found = compare(
        seen(idle("a1"), idle("a2", cluster="vision")), seen(idle("a3", NOON + 3 * HOUR))
    )
    assert [a.id for a in found.appear] == ["a3"]
    assert [a.id for a in found.disappear] == ["a1", "a2"]


def test_alerts_of_one_key_that_touch_are_one_whichever_of_several_it_is():
    """One lasts from ten minutes before its opening to an hour after it."""
    first, length = idle("a1", NOON + 3 * HOUR), HOUR + 2 * FIVE
    for other in (first.opened - length, first.opened + length):
        for beside in ((), (idle("a3", NOON - DAY),)):
            found = compare(seen(first), seen(*beside, idle("a2", other)))
            assert [a.id for a in found.disappear] == []
        apart = other + (other - first.opened) / length.total_seconds()
        found = compare(seen(first), seen(idle("a2", apart)))
        assert [a.id for a in found.disappear] == ["a1"]


def test_one_that_goes_on_lasts_to_the_end_of_what_was_seen():
    fires = replace(idle("a1"), closed=None)
    late = replace(fires, anomaly=replace(fires.anomaly, window=Window(NOON, NOON + HOUR)))
    follows = idle("a2", NOON + HOUR + 2 * FIVE)
    assert compare(seen(late), seen(follows)).disappear == ()
    assert compare(seen(fires), seen(follows)).disappear == (fires,)


def test_a_side_stands_by_time():
    late, early = idle("a1", NOON + FIVE, cluster="a"), idle("a2", cluster="b")
    assert [x.id for x in side_of(seen(late, early)).notified] == ["a2", "a1"]


def test_both_sides_are_counted():
    found = compare(
        seen(idle("a1"), idle("a2", cluster="vision")),
        seen(idle("a1"), idle("a2", cluster="vision"), unheard={"a2"}),
    )
    said = summary(found)
    assert (said["alerts"], said["muted"], said["notices"]) == (
        [2, 1],
        [0, 1],
        {"chat:ops": [2, 1]},
    )
    assert (said["waste_usd"], said["missed_usd"]) == (["100.00", "50.00"], "50.00")
    assert (found.before.delay, found.before.usd) == (timedelta(minutes=10), Decimal("100"))


def test_nothing_told_has_no_delay():
    assert summary(compare(seen(), seen()))["delay_minutes"] == [None, None]


def test_the_digest_tells_runs_apart():
    assert digest(seen(idle("a1"))) == digest(seen(idle("a1")))
    assert digest(seen(idle("a1"))) != digest(seen(idle("a1", so_far="51")))
    assert digest(seen(idle("a1"))) != digest(seen(idle("a1"), unheard={"a1"}))


def test_what_came_with_another_alert_is_counted_as_muted():
    whole, part = idle("a1"), replace(idle("a2"), muted_by="inhibit:idle/cluster=llama")
    notice = Notification("n1", "chat:ops", Reason.FIRST, NOON, (whole, part))
    side = side_of(replace(seen(whole, part), notifications=[notice]))
    assert ([a.id for a in side.notified], side.muted, side.usd) == (["a1"], 1, Decimal(50))
