"""Mark the alerts that notify nobody, and by which silence, alert or setting.

Only firing alerts are muted, none dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from bot.model.alert import Alert, Silence, usd_per_hour_of
from bot.model.causes import About, Severity
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.model.window import read_quiet_hours
from bot.watch.feedback import fits


def mute(
    alerts: Sequence[Alert],
    silences: Sequence[Silence],
    policy: Policy,
    now: datetime,
    ended: Sequence[Alert] = (),
) -> list[Alert]:
    """Return the alerts with `muted_by` set anew on every firing one.

    What `ended` less than `alert.resolve_after` ago still explains its effects: they take as long
    to be over as it did.
    """
    inhibitors = _Inhibitors((*alerts, *ended), policy, now)

    def mark(alert: Alert) -> str:
        return (
            _silenced(alert, silences, now)
            or inhibitors.mark(alert)
            or _by_policy(alert, inhibitors.every, policy, now)
        )

    return [replace(alert, muted_by=mark(alert)) if alert.firing else alert for alert in alerts]


def silences_alert(silence: Silence, alert: Alert, now: datetime) -> bool:
    """Tell whether the silence holds for the alert now.

    In time, selected, of its pattern, and under its dollar ceiling.
    """
    if not silence.starts <= now < silence.ends or silence.ended_at is not None:
        return False
    if silence.pattern and not fits(silence.pattern, alert):
        return False
    if silence.alert and silence.alert != alert.id:
        return False
    if silence.cause and silence.cause != alert.cause.value:
        return False
    spent = alert.waste.so_far if alert.waste else None
    if silence.ceiling_usd is not None and spent is not None and spent >= silence.ceiling_usd:
        return False
    return silence.selector.selects(alert.anomaly.labels)


def _silenced(alert: Alert, silences: Sequence[Silence], now: datetime) -> str:
    holding = (silence for silence in silences if silences_alert(silence, alert, now))
    return next((f"silence:{silence.id}" for silence in holding), "")


@dataclass(frozen=True)
class _Inhibitors:
    """Hold the alerts that may explain others, ended before too."""

    every: tuple[Alert, ...]
    policy: Policy
    now: datetime

    def mark(self, alert: Alert) -> str:
        """Return the mark of the alert that explains this one, "" where none does."""
        others = sorted((a for a in self.every if a.id != alert.id), key=lambda a: not a.firing)
        causes = (
            a
            for a in others
            if _explains(a, alert) and self._in_effect(a, alert) and self._told(a, alert)
        )
        cause = next(causes, None) or _workless(alert, self.every)
        return f"inhibit:{cause.key}" if cause else ""

    def _told(self, other: Alert, alert: Alert) -> bool:
        """Return whether what is told however small is told with `other`, rather than lost with it as too small itself."""
        return not alert.cause.facts.however_small or not _by_policy(
            other, self.every, self.policy, self.now
        )

    def _in_effect(self, other: Alert, alert: Alert) -> bool:
        """Return whether what `other` caused may still be seen, as an effect takes as long to be over as it did.

        What is counted over a span is seen for as long after its last event.
        """
        if other.closed is None:
            return True
        quiet = self.policy.duration("alert.resolve_after")
        span = f"{alert.cause}.within"
        if span in self.policy.values and alert.anomaly.window.start <= other.seen:
            quiet += self.policy.duration(span)
        return self.now - other.closed < quiet


def _by_policy(alert: Alert, every: Sequence[Alert], policy: Policy, now: datetime) -> str:
    scoped = policy.at(alert.anomaly.labels)
    least = scoped.usd("alert.least_usd_per_hour")
    if (
        not alert.cause.facts.however_small
        and alert.waste is not None
        and _added_up(alert, every) < least
    ):
        return "policy:alert.least_usd_per_hour"
    hours = read_quiet_hours(scoped.text("alert.quiet_hours"))
    if hours and alert.severity is not Severity.CRITICAL and hours.hold(now):
        return "policy:alert.quiet_hours"
    return ""


def _added_up(alert: Alert, alerts: Sequence[Alert]) -> Decimal:
    """Return USD an hour of the alert, with its like in the same cluster and account where many small things count.

    Of what is lost already it is all of it.
    """
    like = [alert]
    if alert.cause.facts.adds_up:
        like = [a for a in alerts if a.firing and a.cause is alert.cause and _lot(a) == _lot(alert)]
    return sum(
        (a.waste.so_far if a.anomaly.lost_hours else a.waste.per_hour for a in like if a.waste),
        Decimal(0),
    )


def _lot(alert: Alert) -> Labels:
    return alert.anomaly.labels.only(("account", "cluster"))


def _workless(alert: Alert, alerts: Sequence[Alert]) -> Alert | None:
    """Return the dearest alert about idle nodes, when such alerts hold half of the cost of more hours of their type."""
    kind = alert.anomaly.labels.instance_type
    if not alert.cause.facts.buys_hours or not kind or alert.waste is None:
        return None
    workless = (a for a in alerts if a.cause.facts.works_nothing and a.waste)
    idle = [a for a in workless if a.anomaly.labels.instance_type == kind and _meets(a, alert)]
    lost = usd_per_hour_of(idle)
    return (
        max(idle, key=lambda a: (a.usd_per_hour, a.key))
        if 2 * lost >= alert.waste.per_hour > 0
        else None
    )


def _meets(nodes: Alert, spend: Alert) -> bool:
    """Return whether the nodes may be the hours bought.

    No label contradicts, and they were there since the bill grew.
    """
    one, other = nodes.anomaly.labels, spend.anomaly.labels
    places = ("region", "account", "cluster", "team")
    there = all(one.get(name) in ("", other.get(name)) or not other.get(name) for name in places)
    return there and (nodes.closed is None or nodes.closed >= spend.anomaly.window.start)


_BEFORE = timedelta(minutes=15)
"""How long before a wide incident is seen to begin its first symptom may be."""


def _explains(other: Alert, alert: Alert) -> bool:
    if _holds_part(other, alert):
        return True
    if other.cause not in alert.cause.facts.explained_by or _holds_part(alert, other):
        return False
    mine, theirs = set(alert.anomaly.things), set(other.anomaly.things)
    if not mine or not theirs:
        return other.anomaly.scope.selects(alert.anomaly.labels) and bool(str(other.anomaly.scope))
    return 2 * len(mine & theirs) >= len(mine)


def _holds_part(wide: Alert, alert: Alert) -> bool:
    """Return whether the alert is about a few nodes of a wide incident that came first, or its run, and can come of it."""
    if wide.cause not in alert.cause.facts.part_of:
        return False
    seen = (wide.anomaly, wide.peak.anomaly) if wide.peak else (wide.anomaly,)
    mine, theirs = set(alert.anomaly.things), {thing for one in seen for thing in one.things}
    if not any(one.wide for one in seen) or 2 * len(mine & theirs) < max(1, len(mine)):
        return False
    few = alert.cause.facts.about is not About.NODES or 2 * len(mine) <= len(theirs)
    return few and (
        wide.opened <= alert.opened or wide.anomaly.window.start <= _due(alert) + _BEFORE
    )


def _due(alert: Alert) -> datetime:
    """Return when the alert's trouble began.

    Of a checkpoint, when the next one was due and did not come.
    """
    start = alert.anomaly.window.start
    late = (
        alert.cause.facts.about is About.RUN
        and alert.anomaly.unit == "seconds"
        and alert.anomaly.usual
    )
    return start + timedelta(seconds=late[1]) if late else start
