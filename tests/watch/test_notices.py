"""A notice has dollars at risk and no waste, and an interruption is no detail of what is planned."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from bot.model.anomaly import AtRisk
from bot.model.causes import Cause
from bot.model.codec import decode, encode
from bot.model.labels import Labels
from bot.policy.schema import default_policy
from bot.watch.mute import mute
from bot.watch.notify import group
from bot.watch.track import value
from tests.builders import FIVE, NOON, alert, anomaly, price


def noticed(hours=0.5, things=("i-0", "i-1", "i-2"), **more):
    found = anomaly(Cause.INTERRUPTION_NOTICE, **more)
    return replace(
        found, things=("i-0",), wasted_shares=(), usd_per_hour=None, at_risk=AtRisk(things, hours)
    )


def test_dollars_at_risk_are_no_waste():
    valued = value(alert(noticed()), None, lambda _: price("20.00"), NOON)
    assert (valued.at_risk_usd, valued.waste) == (Decimal("30.00"), None)


def test_dollars_at_risk_follow_the_newest_sight_and_stay_once_it_is_gone():
    first = value(alert(noticed()), None, lambda _: price("20.00"), NOON)
    later = value(
        replace(first, anomaly=noticed(0.1), seen=NOON + FIVE),
        first,
        lambda _: price("20.00"),
        NOON + FIVE,
    )
    gone = value(
        replace(later, closed=NOON + 4 * FIVE), later, lambda _: price("20.00"), NOON + 4 * FIVE
    )
    assert (later.at_risk_usd, gone.at_risk_usd) == (Decimal("6.00"), Decimal("6.00"))


def test_without_a_price_no_dollars_are_said():
    assert value(alert(noticed()), None, lambda _: None, NOON).at_risk_usd is None


def test_it_is_told_however_small():
    (muted,) = mute(
        [value(alert(noticed(0.001)), None, lambda _: price("1.00"), NOON)],
        (),
        default_policy(),
        NOON,
    )
    assert muted.muted_by == ""


def test_alerts_of_before_are_read_and_written_as_before():
    plain = alert()
    assert "at_risk_usd" not in encode(plain)
    assert "at_risk" not in encode(plain)["anomaly"]
    risky = value(alert(noticed()), None, lambda _: price("20.00"), NOON)
    assert decode(type(risky), encode(risky)) == risky


def test_an_interruption_is_no_detail_of_what_is_planned():
    planned = replace(
        noticed(), scope=Labels(cluster="llama", resource="AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED_1")
    )
    alerts = [
        alert(planned, name="a1"),
        alert(noticed(), name="a2", opened=NOON + timedelta(hours=1)),
    ]
    assert len(group(alerts, (), "chat:ops")) == 2
