"""Write an alert in words: its cause, place, length, dollars and who mutes it.

And as typed numbers for scripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from bot.cards.card import Block, Span, Strong, Style, When, text
from bot.cards.charts import figure
from bot.cards.lines import quote
from bot.cards.words import about, committed_words, noted, plural, quantity
from bot.model.alert import Alert, MutedBy, Pattern, Silence, leading
from bot.model.anomaly import Anomaly
from bot.model.causes import About, Cause, Severity
from bot.model.money import cents, counted, usd
from bot.model.price import Whose
from bot.model.window import calendar_day, duration_text, utc_text

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
    state = f"OVER after {duration_text(lasted((alert,)))}"
    if alert.firing:
        firing = "FIRING"
        if MutedBy.SILENCE.marks(alert):
            firing = "MUTED, firing" if is_judged(alert) else "SNOOZED, firing"
        state = f"{firing} since {utc_text(alert.anomaly.window.start, now)}"

    return " · ".join([state, alert.cause.facts.words, where(alert)])


def lasted(alerts: Sequence[Alert]) -> timedelta:
    """Return how long an incident has lasted, from its first onset to its last sight.

    Its dollars are of that instant too.
    """
    # An anomaly began before its alert was opened, and it is the anomaly that people know.
    return max(alert.seen for alert in alerts) - min(alert.anomaly.window.start for alert in alerts)


def total_waste(alerts: Sequence[Alert]) -> tuple[Decimal, Decimal]:
    """Return the USD an hour and so far of an incident.

    Effects of another alert count within it.
    """
    wastes = [alert.waste for alert in leading(alerts) if alert.waste and alert.firing]
    per_hour = sum((waste.per_hour for waste in wastes), Decimal(0))
    return per_hour, sum((waste.so_far for waste in wastes), Decimal(0))


def subject_of(alert: Alert) -> str:
    """Name the place of an alert in a word: the service that costs more, else its cluster."""
    labels = alert.anomaly.labels
    money = labels.service if alert.anomaly.kind.startswith("spend") else ""
    return (
        money or labels.cluster or labels.resource or labels.service or labels.job or labels.account
    )


def where(alert: Alert) -> str:
    """Name the place of an alert: `llama-70b, 64 x trn1.32xlarge, us-west-2`.

    A cluster's second incident names its job or owner.
    """
    labels, things, scope = alert.anomaly.labels, alert.anomaly.things, alert.anomaly.scope
    name = subject_of(alert)
    noun = "job " if alert.cause.facts.of_job else ""
    job = f"{noun}{scope.job}" if scope.job and alert.cause.facts.about is About.NODES else ""
    if len(things) < 2:
        count = " ".join(filter(None, (labels.instance_type, *set(things).difference({name}))))
    elif labels.instance_type:
        count = f"{len(things)} x {labels.instance_type}"
    else:
        count = things_in(alert.anomaly)

    return ", ".join(filter(None, (name, job, count, labels.region)))


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
    """Name the things that the value of an anomaly counts."""
    return _COUNTED.get(anomaly.metric, "event")


def money_texts(alert: Alert) -> list[Block]:
    """Write the dollars of an alert in the tense of its state; nothing where it has cost none.

    An hour, so far, and where it goes on by month end with its range; of one that is over, or that
    lost all before it was seen, how much it cost.
    """
    waste = alert.waste
    if waste is None or not (waste.per_hour or waste.so_far):
        return []

    if alert.closed or not waste.per_hour:
        lost_hours = sum(alert.anomaly.lost_hours)
        if alert.firing and not lost_hours:
            return []
        length = f"{lost_hours:,.1f} node-hours" if lost_hours else duration_text(lasted((alert,)))
        end = "; nothing more is being lost to it" if alert.firing else ""
        return [text("Wasted ", Strong(usd(waste.so_far)), f" in {length}{end}.", style=Style.LEAD)]

    spans: list[Span] = [
        "Wasting ",
        Strong(f"{usd(waste.per_hour)} an hour"),
        f" · {usd(waste.so_far)} so far",
    ]
    if waste.goes_on:
        spread = f"{about(waste.month_end_low)}-{about(waste.month_end_high).removeprefix('$')}"
        spans[-1:] = [
            f"{spans[-1]} · about ",
            Strong(f"{about(waste.month_end)} by month end"),
            f" ({spread})",
        ]
    committed = ""
    if alert.cause.facts.kept_for_nothing:
        committed = committed_words(waste.per_hour, waste.committed_per_hour, waste.lapses)

    return [text(*spans, style=Style.LEAD), *([text(committed)] if committed else [])]


def remedies(alert: Alert) -> tuple[str, ...]:
    """Return what to try, first what helps where a commitment bills most of it either way.

    A `cost` line among them asks about what the alert is about, and can be typed as it stands.
    """
    first = alert.cause.facts.if_committed
    mostly = alert.waste is not None and alert.waste.committed_share * 2 > 1
    filters = "".join(f" {name}={quote(value)}" for name, value in alert.anomaly.scope)
    return (
        *((first,) if first and mostly else ()),
        *(
            re.sub("(?<=`)cost [^`]+", lambda line: f"{line[0]}{filters}", advice)
            for advice in alert.anomaly.suggestions
        ),
    )


def risk_texts(alert: Alert) -> list[Block]:
    """Return the price of the work that stands to be lost; nothing where none is known of."""
    risk = alert.anomaly.at_risk
    if risk is None or not alert.at_risk_usd:
        return []
    amount, length = Strong(usd(alert.at_risk_usd)), duration_text(timedelta(hours=risk.hours))
    work = f" of work on {counted(len(risk.things), 'node')} since the newest checkpoint"
    if alert.closed:
        return [text("At risk were ", amount, f"{work}, {length} before its end; estimated.")]

    return [text("At risk: ", amount, f"{work}, {length} ago; estimated.", style=Style.LEAD)]


def symptom(alert: Alert) -> str:
    """Write what was seen of an alert, of one that is over as it was at its peak."""
    why = alert.anomaly.why
    return why if alert.firing or not why else f"At its peak: {why}"


_WHOSE: Mapping[str, str] = {
    Whose.OWN: "each node's own",
    Whose.CLUSTER: "that of like nodes in its cluster",
    Whose.MARKET: "that of like nodes in the account",
}


def _basis_and_owner(found_by: str) -> tuple[str, str]:
    """Return the basis of a price, and in plain words whose it is, "" where that is not told."""
    basis, _, whose = found_by.partition(", ")
    return basis, _WHOSE.get(whose, whose)


def price_source(found_by: str) -> str:
    """Write how a price was found in plain words: `billed, each node's own`."""
    return ", ".join(filter(None, _basis_and_owner(found_by)))


def price_words(alert: Alert) -> str:
    """Name the price that the dollars rest on, and its age; "" where no dollars are asked for."""
    waste, billed = alert.waste, alert.anomaly.billed
    if waste is None:
        unpriced = "No price is known for these nodes, so no dollars"
        return unpriced if alert.anomaly.wasted_shares else ""
    if not (waste.per_hour or waste.so_far or waste.unpriced):
        return ""
    if billed:
        goes_on = alert.firing and billed.until != billed.through
        later = ", later hours are an estimate" if goes_on else ""
        return f"Billed through {utc_text(billed.through)}{later}"

    basis, whose = _basis_and_owner(waste.basis)
    priced = calendar_day(waste.priced_at) if waste.priced_at else ""
    parts = [
        f"Estimated at {_PRICES.get(basis, basis)}",
        f" ({whose})" if whose else "",
        f" of {priced}" if priced else "",
    ]
    if waste.billed:
        parts = [f"Billed: by the lines of these hours, as of {priced}"]
    if waste.unpriced:
        things = f"{waste.unpriced} of {things_in(alert.anomaly)}"
        parts.append(f"; {things} left out, as no price is known for them")

    return "".join(parts)


def worth(alert: Alert) -> tuple[bool, bool, Decimal]:
    """Order alerts as a lead should see them: firing, critical and dearest first."""
    return alert.firing, alert.severity is Severity.CRITICAL, alert.usd_per_hour


def alert_data(alert: Alert) -> dict[str, object]:
    """Return the alert as the command line contract names it."""
    anomaly, waste = alert.anomaly, alert.waste

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
        "waste_usd": {
            "per_hour": cents(waste.per_hour) if alert.firing else Decimal(0),
            "committed_per_hour": (cents(waste.committed_per_hour) if alert.firing else Decimal(0)),
            "so_far": cents(waste.so_far),
            "month_end": cents(waste.month_end),
            "as_of": alert.seen,
        }
        if waste
        else None,
        **({} if alert.at_risk_usd is None else {"at_risk_usd": alert.at_risk_usd}),
        "muted_by": alert.muted_by,
        "assigned_to": alert.assigned.whom if alert.assigned else "",
        "launched_by": alert.launched_by,
        "why": anomaly.why,
        "suggestions": list(remedies(alert)),
    }


def is_judged(alert: Alert) -> bool:
    """Return whether a silence of the alert is a judgement, and not a snooze."""
    return alert.muted_by.partition(":")[2].startswith("m")


def muted_words(alert: Alert) -> str:
    """Name the reason that mutes the alert: a snooze, another alert that explains it, or a setting.

    "" where nothing does.
    """
    kind, _, name = alert.muted_by.partition(":")
    settings = {
        "alert.quiet_hours": "waiting for the end of the quiet hours",
        "alert.most_per_week": "held back for dearer messages of the week",
    }
    words: dict[str, str] = {
        MutedBy.SILENCE: "muted as not an anomaly" if is_judged(alert) else "snoozed",
        MutedBy.ALERT: f"explained by {name}",
        MutedBy.SETTING: settings.get(name, f"too small ({name})"),
    }
    return words.get(kind, alert.muted_by)


def held_words(alert: Alert) -> str:
    """Say who looks after the alert: who acknowledged it, and to whom it is assigned.

    "" where nobody does.
    """
    ack = alert.acknowledged.who if alert.acknowledged else ""
    assignee = alert.assigned.whom if alert.assigned else ""
    words = [f"acknowledged by {ack}"] if ack else []
    words += [f"assigned to {assignee}"] if assignee not in ("", ack) else []

    return ", ".join(words)


def decided(alert: Alert, silences: Sequence[Silence]) -> Iterator[Block]:
    """Name publicly to whom it is assigned, who acknowledged, and who snoozed until when."""
    if assigned := alert.assigned:
        by = "" if assigned.by == assigned.assignee else f" by {assigned.who}"
        yield text(
            "Assigned to ",
            Strong(assigned.whom),
            f"{by}, ",
            When(assigned.at),
            noted(assigned.note),
        )
    if ack := alert.acknowledged:
        yield text("Acknowledged by ", Strong(ack.who), ", ", When(ack.at), noted(ack.note))
    for silence in silences:
        if alert.muted_by != MutedBy.SILENCE.mark(silence.id):
            continue
        until = (Strong(silence.who), " until ", When(silence.ends))
        if silence.pattern:
            words = pattern_words(silence.pattern)
            pattern = [f", while it is {words}"] if words else []
            yield text("Muted as not an anomaly by ", *until, *pattern)
        else:
            limit = silence.ceiling_usd
            ceiling = f" or until it has cost {usd(limit)}" if limit else ""
            yield text("Snoozed by ", *until, ceiling, noted(silence.reason))


def pattern_words(pattern: Pattern) -> str:
    """Describe the alerts that fit a pattern: their level, and the most that an hour may cost.

    "" where any fits.
    """
    parts, unit = [], pattern.unit
    if pattern.low is not None and pattern.high is not None:
        # A range of levels has its unit once: `at 9.9 to 29.6 %`, `at 1 h to 4 h 32 min`.
        low, high = max(0.0, pattern.low), max(0.0, pattern.high)
        if unit == "seconds" or unit.startswith("USD"):
            parts.append(f"at {quantity(low, unit)} to {quantity(high, unit)}")
        else:
            counts = "instances" if pattern.rule == Cause.UNUSED_CAPACITY else "events"
            factor, sign = 1, {"count": counts, "score": ""}.get(unit, unit)
            if unit in {"ratio", "%"}:
                factor, sign = 100, "%"
            levels = figure(round(low * factor, 6), ""), figure(round(high * factor, 6), sign)
            parts.append(f"at {levels[0]} to {levels[1]}")
    if pattern.usd_per_hour is not None:
        parts.append(f"at most {usd(pattern.usd_per_hour)} an hour")

    return " and ".join(parts)
