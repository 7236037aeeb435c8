"""Draw one incident, and write the line that its thread keeps of a change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from bot.cards.alert_words import (
    alert_data,
    decided,
    headline,
    lasted,
    money_line,
    price_words,
    risk_texts,
    total_waste,
    where,
    worth,
)
from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    ButtonStyle,
    Card,
    Chart,
    Code,
    Heading,
    Mention,
    Span,
    Strong,
    Style,
    Table,
    Text,
    Tone,
    When,
    coded,
    quiet,
    text,
)
from bot.cards.lines import quote
from bot.cards.words import clock
from bot.model.alert import Alert, Silence, Waste, leading
from bot.model.causes import Family, Severity
from bot.model.money import counted, usd
from bot.model.notification import Notification, NotificationLogEntry, Reason
from bot.model.route import place_of
from bot.model.window import duration_text


def owner_words(alert: Alert, resolved: str, routed: bool = False) -> str:
    """Name the owner.

    Who is pinged stands beside the title, and here how they were found, where no tag says it.

    `routed` = the owner has a channel, so that the alert is sent there although nobody is pinged.
    """
    if resolved:
        by = alert.owner_by if resolved == alert.owner else resolved.replace(":", " ")
        return f" · owner by {by}" if by else ""
    by = f" by {alert.owner_by}" if alert.owner_by else ""
    named = [f"owner {alert.owner}{by}"] if alert.owner else ["no owner tag"]
    if routed:
        return f" · {named[0]}"
    named += [claim.replace(":", " ") for claim in alert.claims]
    # A person or a role stands among the claims already; a machine is nobody to ask, but says where
    # to look.
    by_machine = alert.launched_by and not any(
        claim.startswith("launcher:") for claim in alert.claims
    )
    named += [f"launched by {alert.launched_by}"] if by_machine else []
    unknown = ", not in the settings" if alert.owners else ""
    return f" · {', '.join(named)}{unknown}: sent to the default channel"


def mentions(name: str, address: str) -> tuple[Mention, ...]:
    """Ping who was found, nobody without an address."""
    return (Mention(address, name.rpartition(":")[2]),) if address else ()


_OTHERS = (Heading("also"), Heading("where"), Heading("state"), Heading("$/h", Align.RIGHT))
_TOP, _FEW = 5, 3


def nobody(_: str) -> str:
    """Resolve no owner: the name is shown, and nobody is pinged."""
    return ""


@dataclass(frozen=True)
class Reach:
    """Tell where an owner of a name is pinged, "" for nowhere, and whether a channel of theirs is notified."""

    address: Callable[[str], str] = nobody
    routed: Callable[[str], bool] = lambda _: False


NOBODY = Reach()


def notice_card(
    notice: Notification,
    chart: Chart | None = None,
    silences: Sequence[Silence] = (),
    reach: Reach = NOBODY,
) -> Card:
    """Draw a notice; the message of its end is one quiet line and its facts."""
    firing = [alert for alert in leading(notice.alerts) if alert.firing]
    if not firing:
        return over_card(notice.alerts, notice.at)
    worst = max(firing, key=worth)
    owner = next(
        ((name, reached) for name in worst.owners if (reached := reach.address(name))), ("", "")
    )
    blocks = [
        *_body(worst, firing, owner_words(worst, owner[0], reach.routed(worst.owner))),
        *decided(worst, silences),
        *([chart] if chart else []),
        *_others(worst, notice.alerts),
    ]
    more = f" · and {counted(len(firing) - 1, 'more alert')}" if len(firing) > 1 else ""
    return Card(
        title=headline(worst, notice.at) + more,
        tone=Tone.CRITICAL if worst.severity is Severity.CRITICAL else Tone.WARNING,
        blocks=(*blocks, Buttons(_buttons(worst))),
        data=alert_data(worst),
        mentions=mentions(*owner),
    )


def over_card(alerts: Sequence[Alert], now: datetime) -> Card:
    """Write the end: how long it lasted, its cost in total, who acknowledged it."""
    leads = leading(alerts)
    worst = max(leads, key=worth)
    ended = max(alert.seen for alert in leads)
    total = sum((alert.waste.so_far for alert in leads if alert.waste), Decimal(0))
    parts = [
        f"OVER after {duration_text(lasted(leads, now))}",
        *([f"cost {usd(total)}"] if total else []),
    ]
    # A hang and the ageing checkpoint of one run put the same work at risk.
    risks = {
        alert.anomaly.at_risk.things: alert.at_risk_usd
        for alert in alerts
        if alert.anomaly.at_risk and alert.at_risk_usd
    }
    risk = sum(risks.values(), Decimal(0))
    parts += [f"{usd(risk)} of work was at risk"] if risk else []
    ack = worst.acknowledged
    if ack:
        parts.append(f"acknowledged by {ack.who} after {duration_text(ack.at - worst.opened)}")
    title = " · ".join(
        [*parts, f"{worst.cause.facts.words}, {worst.anomaly.labels.cluster or where(worst)}"]
    )
    body = quiet(
        "Opened ",
        When(worst.opened),
        ", last seen ",
        When(ended),
        ". ",
        worst.anomaly.why,
        *_came_with(alerts, leads),
    )
    judge = (
        Button("Useful", f"useful {worst.id}"),
        Button("Not an anomaly…", f"not-an-anomaly {worst.id}", opens=True),
    )
    return Card(
        title,
        Tone.OVER,
        (body, Buttons((Button("Why", f"why {worst.id}"), *judge))),
        alert_data(worst),
    )


def _came_with(alerts: Sequence[Alert], leads: Sequence[Alert]) -> tuple[str, ...]:
    """Name the causes of the alerts that another of the incident explains."""
    names = dict.fromkeys(alert.cause.facts.words for alert in alerts if alert not in leads)
    return (f" With it came: {', '.join(names)}.",) if names else ()


def _body(alert: Alert, firing: Sequence[Alert], owner: str) -> list[Block]:
    anomaly = alert.anomaly
    # Dollars first: the notification of a phone shows the title and the first paragraph.
    blocks: list[Block] = (
        [money_line(alert.waste)] if alert.waste and alert.waste.per_hour else lost_texts(alert)
    )
    blocks += risk_texts(alert)
    blocks += [text(anomaly.why)] if anomaly.why else []
    blocks += [_together(firing)] if len(firing) > 1 else []
    blocks += (
        [spared_text(alert.waste, len(anomaly.things))]
        if alert.waste and alert.cause.facts.family is Family.COMPILE and anomaly.things[1:]
        else []
    )
    blocks += _without(alert)
    verdict = likely(alert)
    blocks += [verdict] if verdict else []
    begun = f"{price_words(alert)} · since " if price_words(alert) else "Since "
    seen: tuple[Span, ...] = (" · as of ", When(alert.seen)) if alert.waste else ()
    return [
        *blocks,
        quiet(begun, When(anomaly.window.start), *seen, f"{owner} · rule {anomaly.rule}"),
    ]


def _without(alert: Alert) -> list[Block]:
    """Say what the run would cost less without the node for which all others wait."""
    if not (alert.anomaly.suspect and alert.waste):
        return []
    saved = Strong(f"{usd(alert.waste.per_hour)} an hour")
    return [text("Without ", Code(alert.anomaly.suspect), " this run costs ", saved, " less.")]


def _together(firing: Sequence[Alert]) -> Text:
    """Sum the waste of the incident's alerts."""
    hour, far = total_waste(firing)
    without = sum(alert.waste is None for alert in firing)
    unpriced = f", {counted(without, 'alert')} without a price" if without else ""
    return text(
        f"All {len(firing)} alerts together: ",
        Strong(f"{usd(hour)} an hour"),
        f" · {usd(far)} so far{unpriced}",
    )


def likely(alert: Alert) -> Text | None:
    """Name the likely cause with its confidence, the runner-up, and the remedies to try."""
    anomaly = alert.anomaly
    spans: list[Span] = []
    if anomaly.runners_up:
        next_cause, share = anomaly.runners_up[0]
        next_words = f" ({anomaly.confidence:.2f}); next: {next_cause.facts.words} ({share:.2f}). "
        spans += ["Likely: ", Strong(alert.cause.facts.words), next_words]
    if anomaly.suggestions:
        spans += [
            "What to do: ",
            *coded(
                " ".join(f"{suggestion.rstrip('.')}." for suggestion in anomaly.suggestions[:2])
            ),
        ]
    return Text(tuple(spans)) if spans else None


def _others(worst: Alert, alerts: Sequence[Alert]) -> list[Block]:
    """Name the things, and list the other alerts of the incident with their states."""
    blocks: list[Block] = [_named(worst)] if len(worst.anomaly.things) > 1 else []
    rest = [alert for alert in alerts if alert.id != worst.id]
    if rest:
        leads = {alert.id for alert in leading(alerts)}
        rest.sort(key=lambda alert: (alert.id in leads, *worth(alert)), reverse=True)
        more = (
            f"and {counted(len(rest) - _TOP, 'more alert')} of this incident; type: alerts"
            if len(rest) > _TOP
            else ""
        )
        blocks.append(
            Table(
                _OTHERS, tuple(_other(alert, alert.id in leads) for alert in rest[:_TOP]), rest=more
            )
        )
    return blocks


def _named(alert: Alert) -> Text:
    """Name a few things; of many one, as an example, and where all are listed.

    At night a wall of ids helps nobody.
    """
    things, cluster = alert.anomaly.things, alert.anomaly.labels.cluster
    shown = things if len(things) <= _FEW else things[:1]
    spans: list[Span] = [span for thing in shown for span in (Code(thing), " ")]
    if len(things) > len(shown):
        spans.append(f"and {counted(len(things) - len(shown), 'other')}")
        listed = alert.anomaly.kind == "node" and cluster
        spans += [", listed by ", Code(f"fleet {quote(cluster)}")] if listed else []
    recovered = alert.things_at_peak - len(things)
    spans += [f" · {recovered} of {alert.things_at_peak} recovered"] if recovered > 0 else []
    return quiet(*spans)


def _other(alert: Alert, leads: bool) -> tuple[str, ...]:
    """Write the row of an alert; of one that came with another the dollars are among the other's."""
    per_hour = usd(alert.waste.per_hour) if alert.waste and alert.firing and leads else "–"
    state = "over" if not alert.firing else "firing" if leads else "came with it"
    return (alert.cause.facts.words, where(alert), state, per_hour)


def _tuning(alert: Alert) -> str:
    """Write the line that opens the form of the rule's settings where they apply here."""
    cluster = alert.anomaly.labels.cluster
    return f"config {alert.anomaly.rule}" + (f" cluster={quote(cluster)}" if cluster else "")


def _buttons(alert: Alert) -> tuple[Button, ...]:
    first = (
        Button("Reopen", f"unack {alert.id}")
        if alert.acknowledged
        else Button("Acknowledge", f"ack {alert.id}", ButtonStyle.PRIMARY)
    )
    return (
        first,
        Button("Assign…", f"assign {alert.id}", opens=True),
        Button("Snooze…", f"snooze {alert.id}", opens=True),
        Button("Not an anomaly…", f"not-an-anomaly {alert.id}", opens=True),
        Button("Why", f"why {alert.id}"),
        Button("Tune…", _tuning(alert), opens=True),
    )


def lost_texts(alert: Alert) -> list[Block]:
    """Return how much was lost before the alert was sent; nothing where it still goes on."""
    if not (alert.waste and alert.waste.so_far and alert.anomaly.lost_hours):
        return []
    hours = (
        f" in {sum(alert.anomaly.lost_hours):,.1f} node-hours; nothing more is being lost to it."
    )
    return [text("Wasted ", Strong(usd(alert.waste.so_far)), hours, style=Style.LEAD)]


def spared_text(waste: Waste, nodes: int) -> Text:
    """Return how much one shared cache would have spared.

    All but one node's share, as they compile the same minutes.
    """
    return text(
        "A shared cache, filled by one node, would have spared about ",
        Strong(usd(waste.so_far * (nodes - 1) / nodes)),
        ".",
    )


def thread_line(
    notice: Notification,
    entry: NotificationLogEntry,
    card: Card,
    silences: Sequence[Silence] = (),
    log: Sequence[NotificationLogEntry] = (),
) -> Card:
    """Return the short line about the change since `entry`; `card` is the message as it now stands.

    `silences` are those that hold, and those that have ended. Nobody is pinged for what they did:
    only who asked to be woken, when that time has come, the owner of what nobody looks after, and
    whom an alert is assigned to: in one thread of all those in the notification `log`.
    """
    worst = max(leading(notice.alerts), key=worth)
    match notice.reason:
        case Reason.DECIDED:
            assigned = _assigned(notice, entry, silences, log)
            return (
                assigned
                or _awake(worst, notice, entry, silences, card)
                or Card(_decided(worst, entry, silences), Tone.INFO)
            )
        case Reason.WORSE if worst.waste:
            per_hour, so_far = total_waste(notice.alerts)
            return Card(f"Worse: {usd(per_hour)} an hour now, {usd(so_far)} so far", card.tone)
        case Reason.REMINDER:
            return Card(
                f"Nobody has acknowledged this yet: {card.title}", card.tone, mentions=card.mentions
            )
        case Reason.MORE:
            return Card(
                f"{'Firing again' if entry.over else 'Part of a larger incident'}: {card.title}",
                card.tone,
            )
        case _:
            return Card(card.title, card.tone)


def _assigned(
    notice: Notification,
    entry: NotificationLogEntry,
    silences: Sequence[Silence],
    log: Sequence[NotificationLogEntry],
) -> Card | None:
    """Return the line of the newest assignment since the last entry, and of what else was decided.

    None where none was.
    """
    new = [alert for alert in notice.alerts if alert.assignment and alert.assignment.at > entry.at]
    if not new:
        return None
    alert = max(
        new, key=lambda one: (one.assignment.at if one.assignment else entry.at, *worth(one))
    )
    given = alert.assignment
    assert given is not None
    others = [one for one in notice.alerts if one.id != alert.id]
    about = f" ({alert.cause.facts.words})" if others else ""
    by = "" if given.by == given.assignee else f" by {given.who}"
    words = (
        f"{'Assigned to' if alert.assigned else 'No longer assigned to'} {given.whom}{about}{by}"
    )
    ack = alert.acknowledged
    words += f"; {_lower(_decided(alert, entry, silences))}" if ack and ack.at > entry.at else ""
    pinged = (
        alert.assigned
        and given.by != given.assignee
        and _pinging(alert.id, given.assignee, log) in ("", entry.channel)
    )
    return Card(
        words,
        Tone.INFO,
        mentions=(Mention(given.assignee, given.whom),) if pinged and given.assignee else (),
    )


def _pinging(alert: str, address: str, log: Sequence[NotificationLogEntry]) -> str:
    """Return the one channel of the person's own place where an alert's assignee is pinged.

    "" where none is told of it.
    """
    told = (one.channel for one in log if alert in one.alerts and not one.over)
    return min((channel for channel in told if place_of(channel) == place_of(address)), default="")


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _decided(alert: Alert, entry: NotificationLogEntry, silences: Sequence[Silence]) -> str:
    """Return the newest decision in words.

    An acknowledgement since the last entry, else who mutes the alert, else its state.
    """
    ack = alert.acknowledged
    snooze = next(
        (silence for silence in silences if alert.muted_by == f"silence:{silence.id}"), None
    )
    if snooze is None or (ack and ack.at > entry.at):
        held = f"Assigned to {alert.assigned.whom}" if alert.assigned else "Open again"
        return f"Acknowledged by {ack.who}" + (f": {ack.note}" if ack.note else "") if ack else held
    if snooze.pattern:
        return f"Muted as not an anomaly by {snooze.who} until {snooze.ends:%Y-%m-%d}"
    who, why = snooze.who, f": {snooze.reason}" if snooze.reason else ""
    ceiling = f" or {usd(snooze.ceiling_usd)}" if snooze.ceiling_usd else ""
    return f"Snoozed by {who} until {clock(snooze.ends)} UTC{ceiling}{why}"


def _awake(
    alert: Alert,
    notice: Notification,
    entry: NotificationLogEntry,
    silences: Sequence[Silence],
    card: Card,
) -> Card | None:
    """Return the line that tells a person that their snooze has ended by its time or its ceiling.

    None where none has.
    """
    if not alert.firing or alert.muted_by:
        return None
    for silence in silences:
        if silence.alert == alert.id and (words := _why_awake(alert, notice, entry, silence)):
            return Card(
                f"Snooze ended: {words}", card.tone, mentions=(Mention(silence.by, silence.who),)
            )
    return None


def _why_awake(
    alert: Alert, notice: Notification, entry: NotificationLogEntry, silence: Silence
) -> str:
    cost = alert.waste.so_far if alert.waste else None
    who = silence.who
    if entry.at < silence.ends <= notice.at:
        return f"the time set by {who} is over" + (
            f"; so far it has cost {usd(cost)}" if cost else ""
        )
    ceiling = silence.ceiling_usd
    if (
        ceiling is not None
        and cost is not None
        and entry.usd_so_far < ceiling <= cost
        and notice.at < silence.ends
    ):
        return f"it has cost {usd(cost)}, and {who} asked to be notified at {usd(ceiling)}"
    return ""
