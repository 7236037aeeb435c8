"""Answer about alerts, find the one that a line means, and take people's decisions."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from bot.cards.alert import notification_card, reach_of
from bot.cards.alert_words import (
    alert_data,
    held_words,
    lasted,
    muted_words,
    subject_of,
    where,
    worth,
)
from bot.cards.card import (
    Button,
    Buttons,
    ButtonStyle,
    Card,
    Chart,
    Field,
    FieldKind,
    Form,
    Span,
    Strong,
    Tone,
    When,
    quiet,
    text,
)
from bot.cards.charts import alert_chart
from bot.cards.columns import NUMBER, USD, Column, Columns
from bot.cards.lines import form_line
from bot.cards.words import about, doubted, period, unseen
from bot.errors import WrongInput, not_known
from bot.grammar.names import refuse_misspelt
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.alert import Alert, Decision, DecisionKind, Silence, leading, usd_per_hour_of
from bot.model.labels import Labels
from bot.model.money import counted, usd
from bot.model.notification import Coverage, Notification, NotificationLogEntry, Reason
from bot.model.request import Request
from bot.model.window import (
    Window,
    duration_text,
    parse_duration,
    rounded_duration,
    utc_text,
    write_duration,
)
from bot.ports import Ports, State, StateUpdate

KEPT = timedelta(days=15)
_BEGINNING = 4
"""The fewest characters that may stand for an alert's id."""
LENGTH = re.compile(r"\d{1,5}(min|[mhdw])")
"""A length where the name of an alert could stand."""


def find_alert(ports: Ports, request: Request, name: str) -> Alert:
    """Find the alert that `name` means: id or key first, else the newest of a cluster, run or node.

    The beginning of an id is enough where no other begins so. "" means the thread's. May block.
    """
    memory = ports.stores.alerts.load(request.at)
    if not name:
        if alert := _thread_alert(memory, request):
            return alert
        ids = [alert.id for alert in memory.alerts if alert.speaking]
        example = f", for example {ids[0]}" if ids else ""
        raise WrongInput(
            f"Which alert? Name its id, its cluster, its run or a node{example}; in an alert's"
            " thread nothing needs to be named."
        )

    history = lately(ports, request.at)
    # A phone begins a line with a capital.
    exact = [alert for alert in history if name.lower() == alert.id or name == alert.key]
    concerned = [
        alert
        for alert in history
        if name in {alert.anomaly.labels.cluster, alert.anomaly.labels.job, *alert.anomaly.things}
    ]
    # A cluster may have had several alerts: one that fires is meant before one that is over.
    matches = exact or sorted(concerned, key=lambda alert: not alert.firing)
    begun = [alert for alert in history if alert.id.startswith(name.lower())]
    if not matches and len(name) >= _BEGINNING and len(begun) == 1:
        matches = begun
    if not matches:
        labels = [alert.anomaly.labels for alert in history]
        places = {place for x in labels for place in (x.cluster, x.job) if place}
        raise not_known(
            f"No alert of the last 15 days is called or about '{name}'",
            name,
            [*sorted(places), *(alert.id for alert in history if alert.firing)],
            most=12,
            otherwise="'alerts' lists those that are open",
        )

    return next((alert for alert in memory.alerts if alert.id == matches[0].id), matches[0])


def lately(ports: Ports, at: datetime) -> Sequence[Alert]:
    """Return the alerts of the last 15 days; may block."""
    # An alert may have opened at this very instant, and a window ends before its end.
    return ports.stores.alerts.history(Window(at - KEPT, at + timedelta(seconds=1)), Labels())


def find_with_words(ports: Ports, request: Request, name: str, words: str) -> tuple[Alert, str]:
    """Return the alert and the words after its name.

    In an alert's thread, where the first word is no name, all are words. May block.
    """
    try:
        return find_alert(ports, request, name), words
    except WrongInput:
        alert = _thread_alert(ports.stores.alerts.load(request.at), request)
        if alert is None:
            raise
        return alert, f"{name} {words}".strip()


def _thread_alert(memory: State, request: Request) -> Alert | None:
    """Return the dearest alert of the thread in which the line was typed; None elsewhere."""
    return max(leading(_alerts_of(_thread_entry(memory, request), memory)), key=worth, default=None)


def _thread_entry(memory: State, request: Request) -> NotificationLogEntry | None:
    """Return the log entry of the message in whose thread the line was typed; None elsewhere."""
    # A chat with one person has no address.
    return next(
        (
            entry
            for entry in memory.notification_log
            if request.thread
            and entry.message == request.thread
            and request.channel in (entry.channel, "")
        ),
        None,
    )


def _alerts_of(entry: NotificationLogEntry | None, memory: State) -> tuple[Alert, ...]:
    """Return the alerts of a message, none of none."""
    return tuple(alert for alert in memory.alerts if entry and alert.id in entry.alerts)


WHICH = arg(
    "",
    "the alert's id or key, a cluster, a run or a node; in an alert's thread, that alert",
    finds=lambda ports, request, name: asyncio.to_thread(find_alert, ports, request, name),
)
"""The argument of every command that is about one alert."""


SURE = "sure=yes"
"""Ends the line of the button that goes on."""
LONG = timedelta(days=1)
"""A snooze that lasts longer is asked about: who set it may not be there when it ends."""


def needs_asking(
    alert: Alert, length: timedelta, longest: timedelta, ceiling: Decimal | None = None
) -> bool:
    """Return whether a mute is longer than usual, or of a dear alert without a ceiling."""
    return length > longest or (alert.costly and ceiling is None)


def asking_card(alert: Alert, doing: str, length: timedelta, line: str, now: datetime) -> Card:
    """Ask whether to go on with `line`; nothing is muted yet. `doing` names it.

    `Snooze`, `Mute alerts like it`.
    """
    waste = alert.waste if alert.firing else None
    spoken = rounded_duration(length) if length > LONG else write_duration(length)
    spans: list[Span] = ["Until "]
    if waste and waste.per_hour:
        spans = ["It wastes ", Strong(f"{usd(waste.per_hour)} an hour"), ", until "]
    if waste and waste.per_hour and waste.goes_on:
        hours = Decimal(str(length.total_seconds())) / 3600
        # What it will have cost by then can be told only where it goes on.
        spans[-1:] = [", about ", Strong(about(waste.per_hour * hours)), " more by "]

    return Card(
        f"{doing} for {spoken}? Nothing is muted yet",
        Tone.WARNING,
        (
            text(*spans, When(now + length), ". Nobody is notified of it until then."),
            quiet(f"{_place(alert)}. The answer has a button to undo it."),
            Buttons((Button(f"{doing} for {spoken}", f"{line} {SURE}", ButtonStyle.PRIMARY),)),
        ),
        {"alert": alert.id, "asks": True},
    )


def _place(alert: Alert) -> str:
    return f"{alert.cause.facts.words} · {where(alert)} · {alert.id}"


_MOST = 12
_LENGTHS = (("1h", "1 hour"), ("6h", "6 hours"), ("1d", "1 day"), ("1w", "1 week"))


def alerts_card(
    alerts: Sequence[Alert], window: Window | None, seen: Coverage, cluster: str = ""
) -> Card:
    """List alerts, firing and dearest first; muted ones are shown with who muted them.

    Where not all of the fleet was seen it says so; `cluster` is the one that they are of.
    """
    ranked = sorted(
        alerts, key=lambda alert: (alert.firing, not alert.muted_by, worth(alert)), reverse=True
    )
    speaking = [alert for alert in ranked if alert.speaking]
    per_hour = usd_per_hour_of(speaking)
    muted = usd_per_hour_of([alert for alert in ranked if alert.firing and alert.muted_by])

    data = {
        "alerts": [alert_data(alert) for alert in ranked],
        "usd_per_hour": per_hour,
        "muted_usd_per_hour": muted,
        **seen.data,
    }
    scope, place = f" · {period(window)}" if window else "", f" in {cluster}" if cluster else ""
    if not ranked and seen.because:
        calm = f"No alert is open{place}"
        unknown = f"Whether anything is wrong{place} now is not known"
        if window:
            calm, unknown = f"No alert is known{place}", f"It is not known what was wrong{place}"
        return Card(f"{doubted(calm, unknown, seen)}{scope}", Tone.WARNING, unseen(seen), data)
    if not ranked:
        none = "No alert was open in this window." if window else "No alert is open."
        return Card(f"Nothing is wrong{place}{scope}", Tone.GOOD, (text(none),), data)

    if speaking:
        wasting = f"wasting {usd(per_hour)} an hour"
        wasting += f" and {usd(muted)} muted" if muted else ""
        tone, title = Tone.WARNING, f"{counted(len(speaking), 'open alert')}{place}, {wasting}"
    else:
        silent = "all muted" if all(alert.firing for alert in ranked) else "none open"
        tone, title = Tone.INFO, f"{counted(len(ranked), 'alert')}{place}, {silent}"

    labels = {
        alert.id: f"{alert.cause.facts.words} · {subject_of(alert) or alert.id}"
        for alert in ranked[:4]
    }

    return Card(
        f"{title}{scope}",
        tone,
        (
            *(() if window else unseen(seen)),
            Columns[Alert](
                Column("cause", lambda alert: alert.cause.facts.words),
                Column("where", where, missing=""),
                Column("for", lambda alert: duration_text(lasted((alert,))), NUMBER),
                Column(
                    "$/h",
                    lambda alert: (alert.firing and alert.waste and alert.waste.per_hour) or None,
                    USD,
                ),
                Column("so far", lambda alert: (alert.waste and alert.waste.so_far) or None, USD),
                # That all of them are open the title says, and a phone has the room for their places.
                *([Column("state", state)] if {"open"} != set(map(state, ranked)) else []),
            ).table(
                ranked,
                most=_MOST,
                rest="and {} more; to see those of one cluster: alerts CLUSTER",
                opens=lambda alert: f"alert {alert.id}",
            ),
            Buttons(tuple(Button(label[:40], f"alert {name}") for name, label in labels.items())),
        ),
        data,
    )


def state(alert: Alert) -> str:
    """Say in a word or two where the alert is in its life."""
    if not alert.firing:
        return "over"
    return muted_words(alert) if alert.muted_by else held_words(alert) or "open"


def decided_card(alert: Alert, decision: str) -> Card:
    """Confirm a decision to the person who made it, and say where the alert is over."""
    over = f" · over since {utc_text(alert.closed)}" if alert.closed else ""
    return Card(decision, Tone.GOOD, (quiet(f"{_place(alert)}{over}"),), {"alert": alert.id})


def undoable(card: Card, line: str) -> Card:
    """Return the card with a button that types the line which takes back what it confirms."""
    return replace(card, blocks=(*card.blocks, Buttons((Button("Undo", line),))))


def snooze_form(alert: Alert) -> Card:
    """Ask how long, up to how many dollars, and why."""
    fields = (
        Field("length", "How long", FieldKind.CHOICE, "1h", _LENGTHS, required=True),
        Field(
            "until",
            "Or until",
            FieldKind.WHEN,
            hint="36h, 18:00, mon 09:00 Europe/Berlin or 2026-11-23 09:00; UTC if no zone is given",
        ),
        Field(
            "ceiling",
            "Notify again once it has cost (USD)",
            FieldKind.NUMBER,
            hint="for example 500; left empty, only the time ends it",
        ),
        Field("reason", "Why", hint="shown to everyone, for example: data migration until Tuesday"),
    )

    return Card(
        f"Snooze: {alert.cause.facts.words} · {where(alert)}",
        Tone.INFO,
        (Form("Snooze", f"snooze {alert.id}", fields, "Snooze"),),
        {"alert": alert.id},
    )


ALERT_FIGURES = {
    "waste_usd/per_hour": (
        "sum over the alert's things of the price of an hour x the wasted share; of a cause"
        " of the bill, what was billed over the usual; 0 of an alert that is over"
    ),
    "waste_usd/so_far": (
        "sum over the ticks of hours x waste an hour then; of a cause of the bill, what the"
        " bill shows over the usual, and an estimate of the hours after it; of an alert that is"
        " over, its hours at the price of their own lines of the bill, once it has them"
    ),
    "waste_usd/month_end": (
        "so far + waste an hour x the hours for which an alert of its cause goes on, by those that"
        " lasted as long, those left in the UTC month at most"
    ),
    "waste_usd/committed_per_hour": (
        "the part of the waste an hour that a commitment bills whether or not it runs"
    ),
    "at_risk_usd": "price of an hour of the nodes x hours since the last checkpoint",
    "score": "how far the readings lie from the usual, 0 to 1, by the detector",
}


@command(
    "alerts",
    "Alerts that are open now, the most expensive first.",
    needs=Needs.STATE,
    may=Needs.METRICS,
    topic=Topic.ALERTS,
    examples=("alerts", "alerts llama", "alerts window=7d"),
    figures=ALERT_FIGURES
    | {
        "usd_per_hour": "sum of the waste an hour of the open alerts that nothing mutes",
        "muted_usd_per_hour": "sum of the waste an hour of the open alerts that something mutes",
    },
)
def alerts(
    ports: Ports,
    request: Request,
    cluster: str = arg("", "only this cluster"),
    window: Window | None = arg("", "also alerts that ended in this window", keyword=True),
) -> Card:
    """List open alerts, or every alert of a window."""
    memory = ports.stores.alerts.load(request.at)
    listed: Sequence[Alert] = [
        alert
        for alert in memory.alerts
        if alert.firing and cluster in ("", alert.anomaly.labels.cluster)
    ]
    if window:
        listed = ports.stores.alerts.history(window, Labels(cluster=cluster))
    if cluster and not listed:
        refuse_misspelt(ports, request, cluster)

    return alerts_card(listed, window, memory.coverage(request.at), cluster)


@command(
    "alert",
    "One alert with its chart and its buttons.",
    needs=Needs.STATE | Needs.METRICS,
    may=Needs.BILL,
    topic=Topic.ALERTS,
    examples=("alert a1b2c3d4e",),
    figures=ALERT_FIGURES,
)
def alert(ports: Ports, request: Request, name: str = WHICH) -> Card:
    """Draw one alert as its notification; in a thread, all that its message is about."""
    memory = ports.stores.alerts.load(request.at)
    entry = None if name else _thread_entry(memory, request)
    target, channel = find_alert(ports, request, name), request.channel
    alerts: tuple[Alert, ...] = (target,)
    if entry:
        alerts, channel = _alerts_of(entry, memory), entry.channel

    card = notification_card(
        Notification("", channel, Reason.FIRST, request.at, alerts),
        chart_of(ports, request, target),
        memory.silences,
        reach_of(ports.site.current_routes(), channel),
        acts=ports.world.actions is not None,
    )
    # Whoever looks at an alert notifies nobody.
    return replace(card, mentions=())


@command(
    "ack",
    "Acknowledge an alert: you are looking into it.",
    needs=Needs.STATE,
    topic=Topic.ALERTS,
    examples=("ack a1b2c3d4e",),
    changes=True,
)
def ack(
    ports: Ports,
    request: Request,
    name: str = WHICH,
    note: str = arg("", "a note for the others", rest=True),
) -> Card:
    """Acknowledge one alert; who presses second reads who has it already."""
    target, words = find_with_words(ports, request, name, note)
    done = decide(ports, request, target, DecisionKind.ACKNOWLEDGE, "Acknowledged by you", words)

    # Read once it is saved: of two who press at once, one sees the other.
    standing = find_alert(ports, request, target.id).acknowledged
    if standing is None or (standing.by, standing.at) == (request.user.id, request.at):
        return done
    return replace(done, title=f"Already acknowledged by {standing.who}, {utc_text(standing.at)}")


@command(
    "unack",
    "Withdraw an acknowledgement.",
    needs=Needs.STATE,
    topic=Topic.ALERTS,
    examples=("unack a1b2c3d4e",),
    changes=True,
)
def unack(ports: Ports, request: Request, name: str = WHICH) -> Card:
    """Take an acknowledgement back."""
    return decide(
        ports,
        request,
        find_alert(ports, request, name),
        DecisionKind.UNACKNOWLEDGE,
        "Acknowledgement withdrawn",
    )


@command(
    "snooze",
    "Silence an alert for a time, or until it has cost too much.",
    needs=Needs.STATE,
    topic=Topic.ALERTS,
    examples=(
        "snooze a1b2c3d4e 1h",
        "snooze a1b2c3d4e 1d ceiling=500 reason=migration",
        'snooze a1b2c3d4e until="mon 09:00 Europe/Berlin"',
    ),
    changes=True,
)
def snooze(
    ports: Ports,
    request: Request,
    name: str = WHICH,
    length: timedelta | None = arg("", "how long: 1h, 6h, 1d, 1w; opens a form when left out"),
    until: datetime | None = arg(
        "", "or until when: 18:00, mon 09:00 Europe/Berlin, 2026-11-23 09:00", keyword=True
    ),
    ceiling: Decimal | None = arg("", "notify again when it has cost this many USD", keyword=True),
    reason: str = arg("", "why", keyword=True),
    sure: bool = arg(
        "no",
        "do not ask back about a snooze longer than 1d, or of an expensive alert without a ceiling",
        keyword=True,
    ),
) -> Card:
    """Silence one opening; without a length, ask for it by a form."""
    if length is None and LENGTH.fullmatch(name):  # in an alert's thread: `snooze 2h`
        name, length = "", parse_duration(name)
    target = find_alert(ports, request, name)
    if until is not None:
        length = until - request.at
    if length is None:
        return snooze_form(target)
    if not timedelta(0) < length <= timedelta(days=30):
        raise WrongInput(
            "A snooze lasts between 1m and 30d.", "length" if until is None else "until"
        )

    spent = target.waste.so_far if target.waste else Decimal(0)
    if ceiling is not None and ceiling <= spent:
        # It would wake at once.
        higher = max(Decimal(f"{2 * spent:.1g}"), Decimal(10))
        raise WrongInput(
            f"It has cost {usd(spent)} so far: name a higher ceiling, such as ceiling={higher:f}.",
            "ceiling",
        )

    if not sure and needs_asking(target, length, LONG, ceiling):
        line = form_line(
            f"snooze {target.id} {write_duration(length)}",
            {"ceiling": f"{ceiling:f}" if ceiling is not None else "", "reason": reason},
        )
        return asking_card(target, "Snooze", length, line, request.at)

    silence = replace(
        silence_of(request, target, length, "s", reason),
        selector=Labels(cluster=target.anomaly.labels.cluster),
        alert=target.id,
        ceiling_usd=ceiling,
    )
    ports.stores.alerts.save(StateUpdate(silences=[silence]))

    return undoable(
        decided_card(
            target,
            f"Snoozed until {utc_text(silence.ends)}"
            + (f", or until it has cost {usd(ceiling)}" if ceiling else ""),
        ),
        f"silences drop {silence.id}",
    )


def silence_of(
    request: Request, target: Alert, length: timedelta, prefix: str, reason: str
) -> Silence:
    """Return a silence that begins now, by who asks; its id begins with `prefix`."""
    # Who presses twice gets one silence: the id is made of who asked for what, and when.
    stamp = f"{target.id}|{request.user.id}|{request.at.isoformat()}|{length}"
    return Silence(
        id=prefix + hashlib.sha256(stamp.encode()).hexdigest()[:9],
        selector=Labels(),
        starts=request.at,
        ends=request.at + length,
        by=request.user.id,
        by_name=request.user.name,
        reason=reason,
    )


def decide(
    ports: Ports, request: Request, target: Alert, kind: DecisionKind, title: str, note: str = ""
) -> Card:
    """Keep a person's decision about an alert, and confirm it by its title."""
    ports.stores.alerts.save(StateUpdate(decisions=[decision_of(request, target, kind, note)]))
    return decided_card(target, title)


def decision_of(
    request: Request, target: Alert, kind: DecisionKind, note: str = "", stamp: str = ""
) -> Decision:
    """Return the decision of who asks.

    `stamp` tells apart those that may follow each other within one instant.
    """
    user = request.user
    # Without a stamp the id is made as it was before there were any.
    parts = (target.id, kind, user.id, request.at.isoformat(), stamp)
    digest = hashlib.sha256("|".join(filter(None, parts)).encode()).hexdigest()

    return Decision(f"d{digest[:11]}", target.id, kind, user.id, user.name, request.at, note)


def chart_of(ports: Ports, request: Request, target: Alert) -> Chart | None:
    """Return the chart of an alert until it ended, or until now; may block."""
    # An hour after the end is drawn, so that the recovery can be seen.
    until = min(request.at, (target.closed or request.at) + timedelta(hours=1))
    frames = dict(ports.world.source.read(until).frames)
    if target.anomaly.kind.startswith("spend"):
        # The source holds no bill, and these alerts are about nothing else.
        frames |= ports.world.billing.deltas(until, 35).frames

    return alert_chart(target, frames)
