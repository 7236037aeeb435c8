"""Mark the alerts that notify nobody, and by which silence, alert or setting.

Only firing alerts are muted, none dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from bot.model.alert import Alert, MutedBy, Silence, usd_per_hour_of
from bot.model.causes import About, Severity
from bot.model.policy import Policy
from bot.model.window import read_quiet_hours
from bot.watch.feedback import fits

WORTH_READING_USD = Decimal(5)
"""What an alert has to cost before it is worth a message: a minute of an engineer."""


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
    sources = (*alerts, *ended)

    def mark(alert: Alert) -> str:
        return (
            next(
                (MutedBy.SILENCE.mark(s.id) for s in silences if silences_alert(s, alert, now)), ""
            )
            or _inhibited(alert, sources, policy, now)
            or _by_policy(alert, sources, policy, now)
        )

    return [replace(alert, muted_by=mark(alert)) if alert.firing else alert for alert in alerts]


def silences_alert(silence: Silence, alert: Alert, now: datetime) -> bool:
    """Return whether the silence holds for the alert now.

    In time, selected, of its pattern, and under its dollar ceiling.
    """
    spent = alert.waste.so_far if alert.waste else None
    return (
        silence.starts <= now < silence.ends
        and silence.ended_at is None
        and silence.alert in ("", alert.id)
        and silence.cause in ("", alert.cause.value)
        and silence.selector.selects(alert.anomaly.labels)
        and (silence.pattern is None or fits(silence.pattern, alert))
        and (silence.ceiling_usd is None or spent is None or spent < silence.ceiling_usd)
    )


def _inhibited(alert: Alert, sources: Sequence[Alert], policy: Policy, now: datetime) -> str:
    """Return the mark of the alert that explains this one, "" where none does.

    What is notified of however small is not lost with a source that is too small itself.
    """
    for source in sorted((a for a in sources if a.id != alert.id), key=lambda a: not a.firing):
        if not _explains(source, alert):
            continue
        if source.closed is not None:
            # An effect takes as long to be over as its source; what is counted over a span is seen
            # for as long after its last event.
            quiet, span = policy.duration("alert.resolve_after"), f"{alert.cause}.within"
            if span in policy.values and alert.anomaly.window.start <= source.seen:
                quiet += policy.duration(span)
            if now - source.closed >= quiet:
                continue
        if not (alert.cause.facts.however_small and _by_policy(source, sources, policy, now)):
            return source.effect_mark
    idle = _idle_hours(alert, sources)
    return idle.effect_mark if idle else ""


def _by_policy(alert: Alert, alerts: Sequence[Alert], policy: Policy, now: datetime) -> str:
    """Return the setting that mutes an alert, "" for none: it wastes too little, or waits."""
    scoped, facts = policy.at(alert.anomaly.labels), alert.cause.facts
    critical = alert.severity is Severity.CRITICAL
    if alert.waste is not None and not facts.however_small:
        # Many small things of one cluster and account count together. What is small may end before
        # it has cost what reading of it costs; what is critical waits for nothing.
        like = counted_with(alert, [a for a in alerts if a.firing])
        most = sum((a.most_usd_per_hour for a in like), Decimal(0))
        spent = sum((a.waste.so_far for a in like if a.waste), Decimal(0))
        least = scoped.usd("alert.least_usd_per_hour")
        if most < least or (not critical and spent < WORTH_READING_USD * min(least, Decimal(1))):
            return MutedBy.SETTING.mark("alert.least_usd_per_hour")

    hours = read_quiet_hours(scoped.text("alert.quiet_hours"))
    if hours and not critical and hours.hold(now):
        return MutedBy.SETTING.mark("alert.quiet_hours")
    return ""


def counted_with(alert: Alert, among: Sequence[Alert]) -> list[Alert]:
    """Return the alerts whose waste a floor counts together with that of one.

    Many small things of one cluster and account count as a lot, all else by itself.
    """
    if not alert.cause.facts.adds_up:
        return [alert]
    lot = alert.anomaly.labels.only(("account", "cluster"))
    like = (a for a in among if a.cause is alert.cause)
    return [a for a in like if a.anomaly.labels.only(("account", "cluster")) == lot]


def _idle_hours(spend: Alert, alerts: Sequence[Alert]) -> Alert | None:
    """Return the dearest alert about idle nodes that may be the hours that the bill grew by.

    Such alerts hold half of the cost of more hours of their type at least. No label contradicts,
    and their nodes were there since the bill grew.
    """
    bought, grown_at = spend.anomaly.labels, spend.anomaly.window.start
    if not (spend.cause.facts.buys_hours and bought.instance_type and spend.waste):
        return None

    places = [name for name in ("region", "account", "cluster", "team") if bought.get(name)]
    idle = [
        a
        for a in alerts
        if a.cause.facts.works_nothing
        and a.anomaly.labels.instance_type == bought.instance_type
        and all(a.anomaly.labels.get(name) in ("", bought.get(name)) for name in places)
        and (a.closed is None or a.closed >= grown_at)
    ]
    explained = 2 * usd_per_hour_of(idle) >= spend.waste.per_hour > 0
    return max(idle, key=lambda a: (a.usd_per_hour, a.key)) if explained else None


_BEFORE = timedelta(minutes=15)
"""How long before a wide incident is seen to begin its first symptom may be."""


def _explains(source: Alert, alert: Alert) -> bool:
    """Return whether one alert is the cause of another: a sick whole mutes its parts."""
    if _holds_part(source, alert):
        return True
    if source.cause not in alert.cause.facts.explained_by or _holds_part(alert, source):
        return False
    things, scope = set(alert.anomaly.things), source.anomaly.scope
    if not things or not source.anomaly.things:
        return scope.selects(alert.anomaly.labels) and bool(str(scope))
    return 2 * len(things.intersection(source.anomaly.things)) >= len(things)


def _holds_part(wide: Alert, alert: Alert) -> bool:
    """Return whether the alert is about a few nodes of a wide incident, or about its run.

    The incident came first, and the alert's cause can come of it.
    """
    facts, anomaly = alert.cause.facts, alert.anomaly
    if wide.cause not in facts.part_of:
        return False
    sights = (wide.anomaly, wide.peak.anomaly) if wide.peak else (wide.anomaly,)
    things, members = set(anomaly.things), {thing for sight in sights for thing in sight.things}
    if not any(sight.wide for sight in sights) or 2 * len(things & members) < max(1, len(things)):
        return False
    if facts.about is About.NODES and 2 * len(things) > len(members):
        return False

    # The trouble of a checkpoint began when the next one was due and did not come.
    began = anomaly.window.start
    if facts.about is About.RUN and anomaly.unit == "seconds" and anomaly.usual:
        began += timedelta(seconds=anomaly.usual[1])
    return wide.opened <= alert.opened or wide.anomaly.window.start <= began + _BEFORE
