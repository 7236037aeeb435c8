"""List the settings of advice."""

from __future__ import annotations

from bot.policy.setting import Setting, Unit

_OWN = "trnbot's own default"

ADVICE: tuple[Setting, ...] = (
    Setting("advice.least_utilization", Unit.RATIO, 0.6, "utilization under which a faster chip is not advised", _OWN, 0.0, 1.0),
    Setting("advice.stale_days", Unit.NUMBER, 90.0, "age of a price in days from which it is flagged", _OWN, 1, 3650),
)
