"""An alert's end tells of the incident, not of its last, half recovered minutes."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from bot.model.alert import Alert
from bot.model.anomaly import Anomaly, AtRisk, BilledExcess
from bot.model.causes import Cause
from bot.watch.track import at_peak
from tests.builders import FIVE, NOON, alert, anomaly, nodes, waste


def sights(*seen: tuple[Anomaly, str]) -> Alert:
    """Return an alert seen like this, five minutes apart, and ended a while after; "" = no price."""
    kept, now = alert(), NOON
    for found, per_hour in seen:
        things = max(kept.things_at_peak, len(found.things))
        money = waste(per_hour) if per_hour else None
        kept = at_peak(
            replace(kept, anomaly=found, seen=now, things_at_peak=things, waste=money), now
        )
        now += FIVE
    return at_peak(replace(kept, closed=now + 3 * FIVE), now + 3 * FIVE)


def test_one_node_that_recovers_last_is_not_what_is_remembered() -> None:
    whole, last = anomaly(n=64), anomaly(n=1, at=NOON + FIVE, why="utilization 31 %")
    ended = sights((whole, "1067"), (last, "4"))
    assert (len(ended.anomaly.things), ended.anomaly.why) == (64, whole.why)
    assert (ended.waste and ended.waste.per_hour, ended.anomaly.window) == (
        Decimal(1067),
        last.window,
    )


def test_a_surer_verdict_at_the_same_height_counts() -> None:
    ended = sights(
        (anomaly(n=64), "1067"),
        (anomaly(Cause.NETWORK_BOUND, n=60), "1000"),
        (anomaly(n=64), "600"),
    )
    assert (ended.cause, ended.waste and ended.waste.per_hour) == (
        Cause.NETWORK_BOUND,
        Decimal(1000),
    )


def test_a_verdict_that_is_seen_better_counts_although_the_onset_was_dearer() -> None:
    ended = sights(
        (anomaly(n=6), "100"), (anomaly(Cause.STRAGGLER, n=5), "68"), (anomaly(n=5), "20")
    )
    assert ended.cause is Cause.STRAGGLER


def test_near_is_near_the_most_ever_and_does_not_slide_down() -> None:
    ended = sights(*((anomaly(why=usd), usd) for usd in ("100", "85", "70", "60")))
    assert ended.anomaly.why == "85"


def test_near_begins_at_eight_tenths_of_the_dearest_hour_and_of_the_most_things() -> None:
    def last(n: int, usd: str) -> bool:
        ended = sights((anomaly(n=10), "100"), (anomaly(n=n, why="last"), usd))
        return ended.anomaly.why == "last"

    assert [last(8, "80"), last(8, "79.99"), last(7, "80")] == [True, False, False]


def test_an_end_shows_the_newest_bill_and_the_work_at_risk_beside_its_peak() -> None:
    at_risk = AtRisk(nodes(1), 1.0)
    billed = BilledExcess(NOON, Decimal(9), Decimal(1), Decimal(2))
    ended = sights((anomaly(n=64), "100"), (anomaly(n=1, billed=billed, at_risk=at_risk), "4"))
    assert len(ended.anomaly.things) == 64
    assert (ended.anomaly.billed, ended.anomaly.at_risk) == (billed, at_risk)


def test_what_has_no_price_goes_by_its_things() -> None:
    ended = sights((anomaly(n=8, why="all"), ""), (anomaly(n=2, why="the rest"), ""))
    assert (ended.anomaly.why, ended.waste) == ("all", None)


def test_while_it_fires_it_tells_of_now() -> None:
    now = at_peak(
        replace(alert(anomaly(n=1)), peak=sights((anomaly(n=64), "9")).peak, things_at_peak=64),
        NOON,
    )
    assert (len(now.anomaly.things), len(now.peak.anomaly.things) if now.peak else 0) == (1, 64)


def test_silence_in_between_changes_nothing() -> None:
    kept = alert()
    assert at_peak(kept, NOON + FIVE) is kept
