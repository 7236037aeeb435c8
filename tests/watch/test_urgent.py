"""What wastes enough an hour is critical, whatever its cause."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.model.causes import Cause, Severity
from bot.model.labels import Labels
from bot.policy.file import applied
from bot.policy.schema import default_policy
from bot.watch.track import escalated
from tests.builders import NOON, alert, anomaly, waste

POLICY = applied(default_policy(), [(Labels(), "alert.critical_usd_per_hour", "500")])


@pytest.mark.parametrize(
    ("per_hour", "before", "critical"),
    [
        ("499.99", False, False),
        ("500", False, True),
        ("260", True, True),
        ("249", True, False),
        ("0", False, False),
    ],
)
def test_the_limit_is_passed_upwards_and_left_at_its_half(
    per_hour: str, before: bool, critical: bool
) -> None:
    found = escalated(alert(waste=waste(per_hour), costly=before), POLICY)
    assert (found.severity is Severity.CRITICAL, found.costly) == (critical, critical)


def test_an_end_and_an_unknown_price_change_nothing() -> None:
    ended = alert(waste=waste("9"), costly=True, closed=NOON)
    assert escalated(ended, POLICY) is ended
    assert escalated(replace(ended, closed=None, waste=None), POLICY).costly


def test_a_cause_that_is_critical_by_itself_needs_no_dollars() -> None:
    found = alert(anomaly(Cause.HUNG, severity=Severity.CRITICAL), waste=waste("2"))
    assert escalated(found, POLICY).severity is Severity.CRITICAL


def test_a_scope_has_a_limit_of_its_own() -> None:
    tighter = applied(POLICY, [(Labels(cluster="llama"), "alert.critical_usd_per_hour", "50")])
    assert escalated(alert(waste=waste("60")), tighter).costly
    assert not escalated(alert(anomaly(cluster="other"), waste=waste("60")), tighter).costly
