from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from bot.answers.alerts.savings import savings_card
from bot.model.alert import Alert, Decision, DecisionKind
from bot.model.notification import Coverage
from bot.model.window import Window
from bot.watch.feedback import saved_within, savings
from tests.builders import FIVE, NOON, alert, anomaly, nodes, waste

ACK = Decision("d1", "a1", DecisionKind.ACKNOWLEDGE, "slack:U1", "dana", NOON + FIVE)
ENDED = alert(waste=waste("100"), closed=NOON + 2 * FIVE)
ACTED = replace(ENDED, acknowledged=ACK)
RUNNING = frozenset(nodes(4))
LATER = NOON + 2 * FIVE + timedelta(hours=3)


@pytest.mark.parametrize(
    ("sentence", "found", "running", "by"),
    [
        ("it ended after somebody acknowledged it", ACTED, RUNNING, ["dana"]),
        ("it ended and every node is gone", ENDED, frozenset(), [""]),
        ("it ended by itself", ENDED, RUNNING, []),
        ("one node of it still runs", ENDED, frozenset(nodes(1)), []),
        (
            "nobody was told of it",
            replace(ENDED, muted_by="policy:alert.least_usd_per_hour"),
            frozenset(),
            [],
        ),
        (
            "it was acknowledged after its end",
            replace(ACTED, acknowledged=replace(ACK, at=LATER)),
            RUNNING,
            [],
        ),
        (
            "it was acknowledged as it ended",
            replace(ACTED, acknowledged=replace(ACK, at=NOON + 2 * FIVE)),
            RUNNING,
            ["dana"],
        ),
        (
            "it was acknowledged after its end, and every node is gone",
            replace(ACTED, acknowledged=replace(ACK, at=LATER)),
            frozenset(),
            [""],
        ),
        (
            "it was muted, and somebody acknowledged it all the same",
            replace(ACTED, muted_by="silence:s1"),
            RUNNING,
            ["dana"],
        ),
        (
            "a volume runs nowhere, and is not gone for that",
            replace(ENDED, anomaly=anomaly(kind="volume")),
            frozenset(),
            [],
        ),
        ("an hour of it cost nothing", replace(ACTED, waste=waste("0")), RUNNING, []),
        ("it goes on", replace(ACTED, closed=None), frozenset(), []),
        ("it cost nothing", replace(ACTED, waste=None), RUNNING, []),
    ],
)
def test_what_counts_as_saved(
    sentence: str, found: Alert, running: frozenset[str], by: list[str]
) -> None:
    assert [one.by for one in savings([found], running, LATER)] == by, sentence


def test_what_was_not_lost_counts_from_the_last_sight_to_now_within_the_month() -> None:
    assert ACTED.ended == NOON, "its card's cost counts to then, not to when it closed"
    (soon,) = savings([ACTED], RUNNING, LATER)
    (december,) = savings([ACTED], RUNNING, datetime(2026, 12, 20, tzinfo=UTC))
    assert (soon.usd_per_hour, soon.usd_so_far) == (Decimal(100), Decimal("316.666667"))
    assert december.usd_so_far == Decimal(10 * 24 + 12) * 100


@pytest.mark.parametrize(("after", "n"), [(timedelta(0), 1), (FIVE, 1), (-FIVE, 0)])
def test_what_ended_after_the_window_is_not_of_it(after: timedelta, n: int) -> None:
    window = Window(NOON - timedelta(days=7), NOON + 2 * FIVE + after)
    assert len(saved_within([ACTED], window, RUNNING, LATER)) == n


def test_the_dearest_saving_stands_first() -> None:
    cheap, dear = (replace(ACTED, id=usd, waste=waste(usd)) for usd in ("1", "2"))
    assert [x.alert for x in savings([cheap, dear], RUNNING, LATER)] == [dear, cheap]


def test_what_was_last_seen_before_the_month_ended_saved_nothing_of_the_next() -> None:
    december = datetime(2026, 12, 1, tzinfo=UTC)
    seen = replace(ACTED, seen=december - FIVE, closed=december + FIVE)
    acted = replace(seen, acknowledged=replace(ACK, at=seen.seen))
    (saved,) = savings([acted], RUNNING, december + timedelta(days=3))
    assert saved.usd_so_far == Decimal("8.333333")


def test_the_card_says_that_it_is_an_estimate() -> None:
    found = savings([ACTED], RUNNING, LATER)
    card = savings_card(found, Window(NOON - timedelta(days=7), LATER), Coverage())
    assert card.title.startswith("About $100 an hour stopped: 1 alert ended after somebody acted")
    assert "Estimated" in repr(card.blocks)


def test_an_end_at_the_instant_between_two_windows_is_of_one_of_them() -> None:
    assert ACTED.closed
    week = timedelta(days=7)
    windows = (Window(ACTED.closed - week, ACTED.closed), Window(ACTED.closed, ACTED.closed + week))
    assert [len(saved_within([ACTED], x, RUNNING, LATER)) for x in windows] == [1, 0]
