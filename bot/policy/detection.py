"""List the settings of detection."""

from __future__ import annotations

from datetime import timedelta

from bot.policy.setting import Setting, Unit

_DESIGN = "trnbot's own default"
_DAY = 86_400.0

DETECTION: tuple[Setting, ...] = (
    Setting("idle.on", Unit.SWITCH, True, "report nodes that do nothing", _DESIGN),
    Setting("idle.below", Unit.RATIO, 0.05, "utilization at or under which a node does nothing", _DESIGN, 0.0, 0.5),
    Setting("idle.for", Unit.DURATION, timedelta(minutes=30), "how long before it is told", _DESIGN, 300, 7 * _DAY),
    Setting("no_data.on", Unit.SWITCH, True, "report running nodes that stopped reporting", _DESIGN),
    Setting("no_data.for", Unit.DURATION, timedelta(minutes=15), "how long before it is told", _DESIGN, 300, _DAY),
)
