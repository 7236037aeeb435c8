"""Write an alert in words: its cause, place, length, dollars and who mutes it.

And as typed numbers for scripts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from bot.cards.card import Block, Strong, Style, Text, When, text
from bot.cards.charts import figure
from bot.cards.words import about, plural, quantity, since
from bot.model.alert import Alert, Pattern, Silence, Waste, leading
from bot.model.anomaly import Anomaly
from bot.model.causes import Severity
from bot.model.money import cents, counted, usd
from bot.model.window import duration_text

_PRICES: Mapping[str, str] = {
    "billed": "the billed price",
    "price list": "the list price",
    "spot history": "the spot price",
    "capacity block offering": "the capacity block's price",
    "dated fallback": "a fallback price",
}


def headline(alert: Alert, now: datetime) -> str:
    """Write the line that survives every limit: state, cause, where, how many.

    Nothing in it ages with the message.
    """
    begun = alert.anomaly.window.start
    state = (
        f"FIRING since {since(begun, now)}"
        if alert.firing
        else f"OVER after {duration_text(lasted((alert,), now))}"
    )
    return " · ".join([state, alert.cause.facts.words, where(alert)])


def lasted(alerts: Sequence[Alert], now: datetime) -> timedelta:
    """Return how long an incident has lasted.

    From its first onset to now, or to its last sight where all of it is over.
    """
    begun = min(alert.anomaly.window.start for alert in alerts)
    return (
        now if any(alert.firing for alert in alerts) else max(alert.seen for alert in alerts)
    ) - begun


def total_waste(alerts: Sequence[Alert]) -> tuple[Decimal, Decimal]:
    """Return the USD an hour and so far of an incident; effects of another alert count within it."""
    wastes = [alert.waste for alert in leading(alerts) if alert.waste and alert.firing]
    return sum((waste.per_hour for waste in wastes), Decimal(0)), sum(
        (waste.so_far for waste in wastes), Decimal(0)
    )


def where(alert: Alert) -> str:
    """Name the place of an alert: `llama-70b, 64 x trn1.32xlarge, us-west-2`.

    A cluster's second incident names its job.
    """
    labels, things = alert.anomaly.labels, alert.anomaly.things
    money = labels.service if alert.anomaly.kind.startswith("spend") else ""
    name = (
        money or labels.cluster or labels.resource or labels.service or labels.job or labels.account
    )
    several = (
        f"{len(things)} x {labels.instance_type}"
        if labels.instance_type
        else things_in(alert.anomaly)
    )
    count = (
        several if len(things) > 1 else " ".join(p for p in (labels.instance_type, *things) if p)
    )
    job = (
        f"job {alert.anomaly.scope.job}"
        if alert.cause.facts.of_job and alert.anomaly.scope.job
        else ""
    )
    return ", ".join(
        part for part in (name, job, count if count != name else "", labels.region) if part
    )


_NOUNS: Mapping[str, str] = {
    "node": "node",
    "run": "node",
    "pod": "pod",
    "volume": "volume",
    "file_system": "file system",
    "reservation": "reservation",
    "spend": "item of the bill",
    "spend_hour": "item of the bill",
}
"""The noun for the things of an anomaly, by the kind of frame that shows it.

A run's things are its nodes.
"""
_COUNTED: Mapping[str, str] = {
    "neuron_execution_errors_count": "execution error",
    "neuron_hardware_ecc_events_count": "ECC event",
    "": "instance",
}
"""The noun for what a metric counts; what has no metric counts instances of a reservation."""


def things_in(anomaly: Anomaly) -> str:
    """Count the things of an anomaly: `16 volumes`."""
    noun = _NOUNS.get(anomaly.kind, "resource")
    return counted(len(anomaly.things), noun, plural(noun))


def counted_in(anomaly: Anomaly) -> str:
    """Name what the value of an anomaly counts."""
    return _COUNTED.get(anomaly.metric, "event")


def money_line(waste: Waste) -> Text:
    """Write dollars an hour, so far, and where it goes on by month end with its range."""
    rate, so_far = Strong(f"{usd(waste.per_hour)} an hour"), f" · {usd(waste.so_far)} so far"
    if not waste.goes_on:
        return text("Wasting ", rate, so_far, style=Style.LEAD)
    span = f" ({about(waste.month_end_low)}-{about(waste.month_end_high).removeprefix('$')})"
    return text(
        "Wasting ",
        rate,
        f"{so_far} · about ",
        Strong(f"{about(waste.month_end)} by month end"),
        span,
        style=Style.LEAD,
    )


def risk_texts(alert: Alert) -> list[Block]:
    """Return the price of the work that stands to be lost; nothing where none is known of."""
    risk = alert.anomaly.at_risk
    if risk is None or not alert.at_risk_usd:
        return []
    nodes = counted(len(risk.things), "node")
    ago = f" of work on {nodes} since the newest checkpoint, {duration_text(timedelta(hours=risk.hours))} ago; estimated."
    return [text("At risk: ", Strong(usd(alert.at_risk_usd)), ago, style=Style.LEAD)]


def price_words(alert: Alert) -> str:
    """Name the price that the dollars rest on, and its age; "" where no dollars are asked for."""
    waste = alert.waste
    if waste is None:
        return (
            "No price is known for these nodes, so no dollars"
            if alert.anomaly.wasted_shares
            else ""
        )
    if billed := alert.anomaly.billed:
        through = f"{billed.through:%Y-%m-%d %H:%M} UTC"
        later = (
            ", later hours are an estimate"
            if alert.firing and billed.until != billed.through
            else ""
        )
        return f"Billed through {through}{later}"
    dated = f" of {waste.priced_at:%Y-%m-%d}" if waste.priced_at else ""
    few = (
        f"; {waste.unpriced} of {things_in(alert.anomaly)} left out, as no price is known for them"
        if waste.unpriced
        else ""
    )
    basis, _, whose = waste.basis.partition(", ")
    of_whom = f" ({whose})" if whose else ""
    return f"Estimated at {_PRICES.get(basis, basis)}{of_whom}{dated}{few}"


def worth(alert: Alert) -> tuple[bool, bool, Decimal]:
    """Order alerts as a lead should see them: firing, critical and dearest first."""
    return alert.firing, alert.severity is Severity.CRITICAL, alert.usd_per_hour


def alert_data(alert: Alert) -> dict[str, object]:
    """Return the alert as the command line contract names it."""
    anomaly, waste = alert.anomaly, alert.waste
    waste_usd = (
        {
            "per_hour": waste.per_hour,
            "so_far": cents(waste.so_far),
            "month_end": waste.month_end,
            "as_of": alert.seen,
        }
        if waste
        else None
    )
    return {
        "key": alert.key,
        "id": alert.id,
        "rule": anomaly.rule,
        "cause": alert.cause.value,
        "severity": alert.severity.value,
        "labels": dict(anomaly.labels),
        "things": list(anomaly.things),
        "onset": anomaly.window.start,
        "opened_at": alert.opened,
        "closed_at": alert.closed,
        "score": round(anomaly.score, 4),
        "waste_usd": waste_usd,
        **({} if alert.at_risk_usd is None else {"at_risk_usd": alert.at_risk_usd}),
        "muted_by": alert.muted_by,
        "assigned_to": alert.assigned.whom if alert.assigned else "",
        "launched_by": alert.launched_by,
        "why": anomaly.why,
        "suggestions": list(anomaly.suggestions),
    }


def muted_words(alert: Alert) -> str:
    """Name the reason that mutes the alert: a snooze, another alert that explains it, or a setting.

    "" where nothing does.
    """
    kind, _, name = alert.muted_by.partition(":")
    if alert.muted_by == "policy:alert.quiet_hours":
        return "waiting for the end of the quiet hours"
    muted = "muted as not an anomaly" if name.startswith("m") else "snoozed"
    words = {"silence": muted, "inhibit": f"explained by {name}", "policy": f"too small ({name})"}
    return words.get(kind, alert.muted_by)


def held_words(alert: Alert) -> str:
    """Say who looks after the alert: who acknowledged it, and to whom it is assigned.

    "" where nobody does.
    """
    ack, assigned = alert.acknowledged, alert.assigned
    names = {
        "acknowledged by": ack.who if ack else "",
        "assigned to": assigned.whom if assigned else "",
    }
    if names["acknowledged by"] == names["assigned to"]:
        del names["assigned to"]
    return ", ".join(f"{did} {name}" for did, name in names.items() if name)


def decided(alert: Alert, silences: Sequence[Silence]) -> list[Block]:
    """Name publicly to whom it is assigned, who acknowledged, and who snoozed until when."""
    blocks: list[Block] = []
    if alert.assigned:
        given = alert.assigned
        by = "" if given.by == given.assignee else f" by {given.who}"
        note = f": {given.note}" if given.note else ""
        blocks.append(text("Assigned to ", Strong(given.whom), f"{by}, ", When(given.at), note))
    if alert.acknowledged:
        ack = alert.acknowledged
        note = f": {ack.note}" if ack.note else ""
        blocks.append(text("Acknowledged by ", Strong(ack.who), ", ", When(ack.at), note))
    for silence in silences:
        if alert.muted_by == f"silence:{silence.id}":
            ceiling = (
                f" or until it has cost {usd(silence.ceiling_usd)}" if silence.ceiling_usd else ""
            )
            who, why = silence.who, f": {silence.reason}" if silence.reason else ""
            if silence.pattern:
                blocks.append(
                    text(
                        "Muted as not an anomaly by ",
                        Strong(who),
                        " until ",
                        When(silence.ends),
                        *_while(silence),
                    )
                )
                continue
            blocks.append(
                text("Snoozed by ", Strong(who), " until ", When(silence.ends), ceiling, why)
            )
    return blocks


def _while(silence: Silence) -> list[str]:
    words = pattern_words(silence.pattern) if silence.pattern else ""
    return [f", while it is {words}"] if words else []


def pattern_words(pattern: Pattern) -> str:
    """Describe the alerts that fit a pattern: their level, and the most that an hour may cost.

    "" where any fits.
    """
    parts = []
    if pattern.low is not None and pattern.high is not None:
        parts.append(_levels(max(0.0, pattern.low), max(0.0, pattern.high), pattern.unit))
    if pattern.usd_per_hour is not None:
        parts.append(f"at most {usd(pattern.usd_per_hour)} an hour")
    return " and ".join(parts)


def _levels(low: float, high: float, unit: str) -> str:
    """Write a range of levels with the unit once: `at 9.9 to 29.6 %`, `at 1 h to 4 h 32 min`."""
    if unit == "seconds" or unit.startswith("USD"):
        return f"at {quantity(low, unit)} to {quantity(high, unit)}"
    factor, sign = (
        (100, "%")
        if unit in {"ratio", "%"}
        else (1, {"count": "events", "score": ""}.get(unit, unit))
    )
    return f"at {figure(round(low * factor, 6), '')} to {figure(round(high * factor, 6), sign)}"
