"""Mark the alerts that notify nobody, and by which silence, alert or setting; only firing alerts are muted, none dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from bot.model.alert import Alert, Silence
from bot.model.causes import Severity
from bot.model.hours import read_quiet_hours
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.watch.feedback import fits


def mute(
    alerts: Sequence[Alert], silences: Sequence[Silence], policy: Policy, now: datetime, ended: Sequence[Alert] = ()
) -> list[Alert]:
    """Return the alerts with `muted_by` set anew on every firing one.

    What `ended` less than `alert.resolve_after` ago still explains its effects: they take as long to be over as it did.
    """
    quiet = policy.duration("alert.resolve_after")
    causes = [a for a in alerts if a.firing] + [a for a in (*alerts, *ended) if a.closed and now - a.closed < quiet]
    inhibitors = _Inhibitors(tuple(causes), (*alerts, *ended))

    def mark(alert: Alert) -> str:
        return _silenced(alert, silences, now) or inhibitors.mark(alert) or _by_policy(alert, inhibitors.every, policy, now)

    return [replace(alert, muted_by=mark(alert)) if alert.firing else alert for alert in alerts]


def silences_alert(silence: Silence, alert: Alert, now: datetime) -> bool:
    """Tell whether the silence holds for the alert now: in time, selected, of its pattern, and under its dollar ceiling."""
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
    """Hold the alerts that may explain others: those still in effect, and all of them, ended before too."""

    current: tuple[Alert, ...]
    every: tuple[Alert, ...]

    def mark(self, alert: Alert) -> str:
        """Return the mark of the alert that explains this one, "" where none does."""
        causes = (other for other in self.current if other.id != alert.id and _explains(other, alert))
        cause = next(causes, None) or _workless(alert, self.every)
        return f"inhibit:{cause.key}" if cause else ""


def _by_policy(alert: Alert, every: Sequence[Alert], policy: Policy, now: datetime) -> str:
    scoped = policy.at(alert.anomaly.labels)
    least = scoped.usd("alert.least_usd_per_hour")
    if not alert.cause.facts.however_small and alert.waste is not None and _added_up(alert, every) < least:
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
    return sum((a.waste.so_far if a.anomaly.lost_hours else a.waste.per_hour for a in like if a.waste), Decimal(0))


def _lot(alert: Alert) -> Labels:
    return alert.anomaly.labels.only(("account", "cluster"))


def _workless(alert: Alert, alerts: Sequence[Alert]) -> Alert | None:
    """Return the dearest alert about idle nodes, when such alerts hold half of the cost of more hours of their type."""
    kind = alert.anomaly.labels.instance_type
    if not alert.cause.facts.buys_hours or not kind or alert.waste is None:
        return None
    workless = (a for a in alerts if a.cause.facts.works_nothing and a.waste)
    idle = [a for a in workless if a.anomaly.labels.instance_type == kind and _meets(a, alert)]
    lost = sum((a.waste.per_hour for a in idle if a.waste), Decimal(0))
    return max(idle, key=lambda a: (a.waste.per_hour if a.waste else 0, a.key)) if 2 * lost >= alert.waste.per_hour > 0 else None


def _meets(nodes: Alert, spend: Alert) -> bool:
    """Return whether the nodes may be the hours bought: no label contradicts, and they were there since the bill grew."""
    one, other = nodes.anomaly.labels, spend.anomaly.labels
    places = ("region", "account", "cluster", "team")
    there = all(one.get(name) in ("", other.get(name)) or not other.get(name) for name in places)
    return there and (nodes.closed is None or nodes.closed >= spend.anomaly.window.start)


def _explains(other: Alert, alert: Alert) -> bool:
    if other.cause not in alert.cause.facts.explained_by:
        return False
    mine, theirs = set(alert.anomaly.things), set(other.anomaly.things)
    if not mine or not theirs:
        return other.anomaly.scope.selects(alert.anomaly.labels) and bool(str(other.anomaly.scope))
    return 2 * len(mine & theirs) >= len(mine)
