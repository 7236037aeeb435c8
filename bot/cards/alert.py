"""Draw one incident, and write the line that its thread keeps of a change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from bot.cards.alert_words import (
    alert_data,
    decided,
    headline,
    held_words,
    lasted,
    money_texts,
    price_words,
    remedies,
    risk_texts,
    subject_of,
    symptom,
    things_in,
    total_waste,
    where,
    worth,
)
from bot.cards.card import (
    MISSING,
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
    Table,
    Text,
    Tone,
    When,
    coded,
    quiet,
    text,
)
from bot.cards.lines import quote
from bot.cards.words import ended, noted
from bot.model.action import ActionKind
from bot.model.alert import Alert, MutedBy, Silence, leading
from bot.model.causes import Family, Severity
from bot.model.money import counted, usd
from bot.model.notification import Notification, NotificationLogEntry, Reason
from bot.model.route import Routes, place_of
from bot.model.window import duration_text, utc_text


def owner_words(alert: Alert, resolved: str, routed: bool = False) -> str:
    """Name the owner.

    Who is pinged stands beside the title, and here how they were found, where no tag says it.

    `routed` = the owner has a channel, so that the alert is sent there although nobody is pinged.
    """
    if resolved:
        by = alert.owner_by if resolved == alert.owner else resolved.replace(":", " ")
        return f" · owner from {by}" if by else ""
    by = f" from {alert.owner_by}" if alert.owner_by else ""
    owner = f"owner {alert.owner}{by}" if alert.owner else "no owner tag"
    if routed:
        return f" · {owner}"

    words = [owner, *(claim.replace(":", " ") for claim in alert.claims)]
    # A person or a role stands among the claims already; a machine is nobody to ask, but says where
    # to look.
    if alert.launched_by and not any(c.startswith("launcher:") for c in alert.claims):
        words.append(f"launched by {alert.launched_by}")

    return f" · {', '.join(words)}"


def mentions(name: str, address: str) -> tuple[Mention, ...]:
    """Ping who was found, nobody without an address."""
    return (Mention(address, name.rpartition(":")[2]),) if address else ()


_OTHERS = (Heading("also"), Heading("where"), Heading("$/h", Align.RIGHT), Heading("state"))
_TOP, _FEW = 3, 3


@dataclass(frozen=True)
class Reach:
    """Find where an owner of a name is pinged, "" for nowhere: then the name is shown alone.

    `routed` tells whether a channel of theirs is notified.
    """

    address: Callable[[str], str] = lambda _: ""
    routed: Callable[[str], bool] = lambda _: False


NOBODY = Reach()


def reach_of(routes: Routes, channel: str) -> Reach:
    """Return how owners are reached from a channel."""
    return Reach(
        lambda name: routes.owner(name, channel),
        lambda name: name.lower() in routes.mapping.channels,
    )


def notification_card(
    notification: Notification,
    chart: Chart | None = None,
    silences: Sequence[Silence] = (),
    reach: Reach = NOBODY,
    *,
    acts: bool = False,
) -> Card:
    """Draw a notification; the message of its end is one quiet line and its facts.

    Where the bot `acts`, what it may do about the alert is a button.
    """
    firing = [alert for alert in leading(notification.alerts) if alert.firing]
    if not firing:
        return over_card(notification.alerts)
    worst = max(firing, key=worth)
    # The first of the owners whom somebody can be pinged for, the surest being named first.
    reached = ((name, address) for name in worst.owners if (address := reach.address(name)))
    owner, address = next(reached, ("", ""))
    others = f" · and {counted(len(firing) - 1, 'more alert')}" if len(firing) > 1 else ""

    first = Button("Acknowledge", f"ack {worst.id}", ButtonStyle.PRIMARY)
    if worst.acknowledged:
        first = Button("Unacknowledge", f"unack {worst.id}")
    cluster = worst.anomaly.labels.cluster
    settings = f"config {worst.anomaly.rule}" + (f" cluster={quote(cluster)}" if cluster else "")
    buttons = (
        first,
        Button("Assign…", f"assign {worst.id}", opens=True),
        Button("Snooze…", f"snooze {worst.id}", opens=True),
        Button("Not an anomaly…", f"not-an-anomaly {worst.id}", opens=True),
        Button("Why", f"why {worst.id}"),
        Button("Tune…", settings, opens=True),
        *([Button("Do it…", f"act {worst.id}")] if acts and _may_act(worst) else []),
    )

    return Card(
        title=headline(worst, notification.at) + others,
        tone=Tone.CRITICAL if worst.severity is Severity.CRITICAL else Tone.WARNING,
        blocks=(
            *_body(worst, firing, owner_words(worst, owner, reach.routed(worst.owner))),
            *decided(worst, silences),
            *([chart] if chart else []),
            *_incident(worst, notification.alerts),
            Buttons(buttons),
        ),
        data={**alert_data(worst), "alerts": [alert.id for alert in notification.alerts]},
        mentions=mentions(owner, address),
        brief=_brief(worst, firing),
    )


def _may_act(alert: Alert) -> bool:
    """Return whether the bot may do something about it: of storage it deletes volumes alone."""
    kind = alert.cause.facts.action
    if kind is ActionKind.DELETE:
        return any(thing.startswith("vol-") for thing in alert.things)
    return kind is not None


def _brief(worst: Alert, firing: Sequence[Alert]) -> str:
    """Write what a phone shows first: the dollars, the cause, where, how many.

    "" where no dollars are known: the title says the rest.
    """
    per_hour, so_far = total_waste(firing)
    if not so_far:
        return ""
    dollars = f"{usd(per_hour)}/h" if per_hour else f"{usd(so_far)} so far"

    return f"{dollars}: {worst.cause.facts.words}, {_place_and_count(worst)}"


def _place_and_count(alert: Alert) -> str:
    """Write a place in one line of a phone: `llama-70b, 64 nodes`."""
    count = things_in(alert.anomaly) if len(alert.anomaly.things) > 1 else ""
    return ", ".join(filter(None, (subject_of(alert) or where(alert), count)))


def over_card(alerts: Sequence[Alert]) -> Card:
    """Write the end: how long it lasted, its cost in total, who acknowledged it."""
    leads = leading(alerts)
    worst = max(leads, key=worth)
    parts = [f"OVER after {duration_text(lasted(leads))}"]
    if total := sum((alert.waste.so_far for alert in leads if alert.waste), Decimal(0)):
        parts.append(f"cost {usd(total)}")
    parts.append(f"{worst.cause.facts.words}, {subject_of(worst) or where(worst)}")
    # A hang and the ageing checkpoint of one run put the same work at risk.
    risks = {
        alert.anomaly.at_risk.things: alert.at_risk_usd
        for alert in alerts
        if alert.anomaly.at_risk and alert.at_risk_usd
    }
    if risks:
        parts.append(f"{usd(sum(risks.values(), Decimal(0)))} of work was at risk")
    if ack := worst.acknowledged:
        parts.append(f"acknowledged by {ack.who} after {duration_text(ack.at - worst.opened)}")

    effects = dict.fromkeys(a.cause.facts.words for a in alerts if a not in leads)
    body = quiet(
        "Opened ",
        When(worst.opened),
        ", last seen ",
        When(max(alert.seen for alert in leads)),
        ". ",
        symptom(worst),
        *([f" With it came: {', '.join(effects)}."] if effects else []),
    )
    buttons = Buttons(
        (
            Button("Why", f"why {worst.id}"),
            Button("Useful", f"useful {worst.id}"),
            Button("Not an anomaly…", f"not-an-anomaly {worst.id}", opens=True),
        )
    )

    return Card(" · ".join(parts), Tone.OVER, (body, buttons), alert_data(worst))


def _body(alert: Alert, firing: Sequence[Alert], owner: str) -> list[Block]:
    """Write the dollars, the symptom, the likely cause, and where the numbers come from."""
    anomaly, waste = alert.anomaly, alert.waste
    # Dollars first: the notification of a phone shows the title and the first paragraph.
    blocks = [*money_texts(alert), *risk_texts(alert)]
    if anomaly.why:
        blocks.append(text(anomaly.why))
    if len(firing) > 1:
        hour, far = total_waste(firing)
        unpriced = sum(member.waste is None for member in firing)
        left_out = f", {counted(unpriced, 'alert')} without a price" if unpriced else ""
        total = Strong(f"{usd(hour)} an hour")
        blocks.append(
            text(f"All {len(firing)} alerts together: ", total, f" · {usd(far)} so far{left_out}")
        )
    if waste and alert.cause.facts.family is Family.COMPILE and anomaly.things[1:]:
        # All but one node's share would have been spared, as they compile the same minutes.
        nodes = len(anomaly.things)
        blocks.append(
            text(
                "A shared cache, filled by one node, would have saved about ",
                Strong(usd(waste.so_far * (nodes - 1) / nodes)),
                ".",
            )
        )
    if waste and anomaly.suspect:  # the node for which all others wait
        saved = Strong(f"{usd(waste.per_hour)} an hour")
        blocks.append(text("Without ", Code(anomaly.suspect), " this run costs ", saved, " less."))
    if verdict := likely(alert):
        blocks.append(verdict)

    priced = price_words(alert)
    # The title says since when, in UTC; where nothing is priced there is room for the reader's zone.
    sources: list[Span] = [priced, " · as of ", When(alert.seen)]
    if not (waste and priced):
        sources = [f"{priced} · since " if priced else "Since ", When(anomaly.window.start)]

    return [*blocks, quiet(*sources, *filter(None, (owner,)))]


def likely(alert: Alert) -> Text | None:
    """Name the likely cause with its confidence, the runner-up, and the remedies to try."""
    anomaly = alert.anomaly
    spans: list[Span] = []
    if anomaly.runners_up:
        next_cause, share = anomaly.runners_up[0]
        next_words = f" ({anomaly.confidence:.2f}); next: {next_cause.facts.words} ({share:.2f}). "
        spans += ["Likely: ", Strong(alert.cause.facts.words), next_words]
    if suggestions := remedies(alert):
        spans += [
            "What to do: ",
            *coded(" ".join(ended(suggestion) for suggestion in suggestions[:2])),
        ]

    return Text(tuple(spans)) if spans else None


def _incident(worst: Alert, alerts: Sequence[Alert]) -> Iterator[Block]:
    """Name the things, and list the other alerts of the incident with their states."""
    things, cluster = worst.anomaly.things, worst.anomaly.labels.cluster
    if len(things) > 1:
        # A few are named; of many where they are listed, else one: a wall of ids helps nobody.
        examples = things if len(things) <= _FEW else things[:1]
        spans: list[Span] = [span for thing in examples for span in (Code(thing), " ")]
        if len(things) > len(examples) and worst.anomaly.kind == "node" and cluster:
            spans = [f"{things_in(worst.anomaly)}, listed by ", Code(f"fleet {quote(cluster)}")]
        elif len(things) > len(examples):
            spans.append(f"and {counted(len(things) - len(examples), 'other')}")
        if (recovered := worst.things_at_peak - len(things)) > 0:
            spans.append(f" · {recovered} of {worst.things_at_peak} recovered")
        yield quiet(*spans)

    leads = {alert.id for alert in leading(alerts)}
    others = sorted(
        (alert for alert in alerts if alert.id != worst.id),
        key=lambda alert: (alert.id in leads, *worth(alert)),
        reverse=True,
    )
    rows = []
    for alert in others[:_TOP]:
        # The dollars of an alert that came with another are among the other's.
        waste = alert.waste if alert.firing and alert.id in leads else None
        state = "came with it"
        if not alert.firing or alert.id in leads:
            state = "firing" if alert.firing else "over"
        per_hour = usd(waste.per_hour) if waste else MISSING
        rows.append((alert.cause.facts.words, _place_and_count(alert), per_hour, state))
    if rows:
        # That all of them fire needs no column, and a phone has the room for their places.
        headings = _OTHERS if any(row[-1] != "firing" for row in rows) else _OTHERS[:-1]
        hidden = counted(len(others) - _TOP, "more alert")
        note = f"and {hidden} of this incident; type: alerts" if len(others) > _TOP else ""
        yield Table(headings, tuple(row[: len(headings)] for row in rows), rest=note)


def thread_line(
    notification: Notification,
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
    worst = max(leading(notification.alerts), key=worth)
    match notification.reason:
        case Reason.DECIDED:
            return (
                _assigned(notification, entry, silences, log)
                or _awake(worst, notification, entry, silences, card.tone)
                or Card(_decided(worst, entry, silences), Tone.INFO)
            )
        case Reason.WORSE if worst.waste:
            per_hour, so_far = total_waste(notification.alerts)
            # Where a chat has no threads, the line stands alone.
            of = f"{worst.cause.facts.words}, {subject_of(worst) or where(worst)}"
            return Card(
                f"Worse: {usd(per_hour)} an hour now, {usd(so_far)} so far · {of}", card.tone
            )
        case Reason.REMINDER:
            return Card(
                f"Nobody has acknowledged this yet: {card.title}", card.tone, mentions=card.mentions
            )
        case Reason.MORE:
            change = "Firing again" if entry.over else "Part of a larger incident"
            return Card(f"{change}: {card.title}", card.tone)
        case _:
            return Card(card.title, card.tone)


def _assigned(
    notification: Notification,
    entry: NotificationLogEntry,
    silences: Sequence[Silence],
    log: Sequence[NotificationLogEntry],
) -> Card | None:
    """Return the line of the newest assignment since the last entry, and of other decisions.

    None where none was.
    """
    new = [
        (alert.assignment, alert)
        for alert in notification.alerts
        if alert.assignment and alert.assignment.at > entry.at
    ]
    if not new:
        return None
    assignment, alert = max(new, key=lambda pair: (pair[0].at, *worth(pair[1])))
    by_self = assignment.by == assignment.assignee
    several = any(member.id != alert.id for member in notification.alerts)
    parts = [
        f"{'Assigned to' if alert.assigned else 'No longer assigned to'} {assignment.whom}",
        f" ({alert.cause.facts.words})" if several else "",
        "" if by_self else f" by {assignment.who}",
    ]
    if alert.acknowledged and alert.acknowledged.at > entry.at:
        decision = _decided(alert, entry, silences)
        parts.append(f"; {decision[:1].lower()}{decision[1:]}")

    # The assignee is pinged in one channel of their own place.
    place = place_of(assignment.assignee)
    channels = (e.channel for e in log if alert.id in e.alerts and not e.over)
    pinged_in = min((c for c in channels if place_of(c) == place), default=entry.channel)
    mentions: tuple[Mention, ...] = ()
    if alert.assigned and assignment.assignee and not by_self and pinged_in == entry.channel:
        mentions = (Mention(assignment.assignee, assignment.whom),)

    return Card("".join(parts), Tone.INFO, mentions=mentions)


def _decided(alert: Alert, entry: NotificationLogEntry, silences: Sequence[Silence]) -> str:
    """Return the newest decision in words.

    An acknowledgement since the last entry, else who mutes the alert, else its state.
    """
    ack = alert.acknowledged
    snooze = next((s for s in silences if alert.muted_by == MutedBy.SILENCE.mark(s.id)), None)
    # Where the clock stands still, what was just decided is as old as the last line.
    if ack and ack.at >= entry.at:
        return f"Acknowledged by {ack.who}{noted(ack.note)}"
    if snooze is None and alert.assigned and alert.assigned.at >= entry.at:
        return f"Assigned to {alert.assigned.whom}"
    if snooze is None:
        # What stood before and still stands is no news: it must not read as if it had just happened.
        return ", ".join(filter(None, ("Open again", held_words(alert))))
    if snooze.pattern:
        return f"Muted as not an anomaly by {snooze.who} until {utc_text(snooze.ends)}"
    ceiling = f" or {usd(snooze.ceiling_usd)}" if snooze.ceiling_usd else ""

    return f"Snoozed by {snooze.who} until {utc_text(snooze.ends)}{ceiling}{noted(snooze.reason)}"


def _awake(
    alert: Alert,
    notification: Notification,
    entry: NotificationLogEntry,
    silences: Sequence[Silence],
    tone: Tone,
) -> Card | None:
    """Return the line that tells a person that their snooze has ended by its time or its ceiling.

    None where none has.
    """
    if not alert.speaking:
        return None
    cost = alert.waste.so_far if alert.waste else Decimal(0)
    for silence in silences:
        if silence.alert != alert.id:
            continue
        ceiling, words = silence.ceiling_usd, ""
        # Each end is told once: it lies between the last line of the thread and this one.
        if entry.at < silence.ends <= notification.at:
            so_far = f"; so far it has cost {usd(cost)}" if cost else ""
            words = f"the time set by {silence.who} is over{so_far}"
        elif (
            ceiling is not None
            and entry.usd_so_far < ceiling <= cost
            and notification.at < silence.ends
        ):
            wish = f"{silence.who} asked to be notified at {usd(ceiling)}"
            words = f"it has cost {usd(cost)}, and {wish}"
        if words:
            return Card(
                f"Snooze ended: {words}", tone, mentions=(Mention(silence.by, silence.who),)
            )

    return None
