"""List the settings of alerts and delivery."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from bot.model.hours import OFF, read_quiet_hours
from bot.policy.setting import Setting, Unit

_OWN = "trnbot's own default"

ALERTING: tuple[Setting, ...] = (
    Setting("alert.least_usd_per_hour", Unit.USD, Decimal("1"), "waste under this is not told", _OWN, 0, 10_000),
    Setting(
        "alert.critical_usd_per_hour",
        Unit.USD,
        Decimal("500"),
        "waste from which an alert is critical whatever its cause: reminded, escalated, told in quiet hours",
        _OWN,
        1,
        1_000_000,
    ),
    Setting(
        "alert.resolve_after",
        Unit.DURATION,
        timedelta(minutes=15),
        "quiet time before an alert ends",
        _OWN,
        0,
        86_400,
        scoped=False,
    ),
    Setting("alert.worse_factor", Unit.NUMBER, 1.5, "growth of waste per hour that is worth saying", _OWN, 1.1, 10, scoped=False),
    Setting(
        "alert.remind_after",
        Unit.DURATION,
        timedelta(hours=4),
        "when an unacknowledged critical alert is told again",
        _OWN,
        900,
        604_800,
        scoped=False,
    ),
    Setting(
        "alert.escalate_after",
        Unit.DURATION,
        timedelta(minutes=30),
        "when an unacknowledged critical alert is told to a second route",
        _OWN,
        300,
        604_800,
        scoped=False,
    ),
    Setting(
        "alert.reopen_within",
        Unit.DURATION,
        timedelta(minutes=30),
        "an alert that fires again so soon after its end is the same alert",
        _OWN,
        0,
        43_200,
        scoped=False,
    ),
    Setting(
        "alert.quiet_hours",
        Unit.WORD,
        OFF,
        "when alerts that are not critical wait for the morning: 22:00-07:00 Europe/Berlin, or off",
        _OWN,
        check=read_quiet_hours,
    ),
    Setting(
        "alert.not_an_anomaly_for",
        Unit.DURATION,
        timedelta(days=30),
        "how long what was judged not an anomaly stays muted while it is no worse",
        _OWN,
        86_400,
        180 * 86_400,
        scoped=False,
    ),
    Setting("alert.usual_days", Unit.NUMBER, 14.0, "days of history that make up the usual", _OWN, 1, 15, scoped=False),
)
