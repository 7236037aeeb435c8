"""Explain an alert, and answer its timeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.answers.alerts.alerts import ALERT_FIGURES, WHICH, chart_of, find_alert
from bot.answers.alerts.judge import scores_within
from bot.answers.fleet.card import NODE_FIGURES
from bot.answers.fleet.command import standing_card
from bot.cards.alert_words import (
    alert_data,
    counted_in,
    decided,
    headline,
    money_texts,
    price_words,
    remedies,
    risk_texts,
    symptom,
)
from bot.cards.card import (
    Button,
    Buttons,
    Card,
    Chart,
    Facts,
    Strong,
    Style,
    Tone,
    When,
    coded,
    compose,
    detail,
    quiet,
    text,
)
from bot.cards.columns import Column, Columns
from bot.cards.words import noted, quantity
from bot.errors import WrongInput
from bot.grammar.registry import Needs, Topic, command
from bot.model.alert import Alert, Decision, DecisionKind, MutedBy, Silence
from bot.model.money import counted, usd
from bot.model.notification import NotificationLogEntry, Reason
from bot.model.request import Request
from bot.model.window import Window, clock, utc_text
from bot.ports import Ports
from bot.watch.feedback import RuleScore


def why_card(
    alert: Alert,
    decisions: Sequence[Decision],
    chart: Chart | None,
    now: datetime,
    judged: tuple[Sequence[Silence], RuleScore | None] = ((), None),
) -> Card:
    """Draw everything that is known of one alert.

    `judged` are the silences in force, and how people judged the alerts of its rule.
    """
    anomaly = alert.anomaly
    price, now_words, advice = price_words(alert), "Now", "What to do:"
    if alert.closed:
        now_words, advice = "At its peak", "What to do when it returns:"
    by, _, name = alert.muted_by.partition(":")
    muted: dict[str, str] = {
        MutedBy.ALERT: "Muted, because another alert explains it: ",
        MutedBy.SILENCE: "Muted by the silence ",
        MutedBy.SETTING: "Muted by the setting ",
    }
    suggestions = remedies(alert)

    silences, score = judged
    useful = f"{score.useful} of {score.useful + score.wrong}" if score else ""
    usual = "not known"
    if anomaly.usual:
        low, high = (quantity(end, anomaly.unit, counted_in(anomaly)) for end in anomaly.usual)
        unit = "".join(high.partition(" ")[1:])
        usual = low if low == high else f"{low.removesuffix(unit)} to {high}"
    rivals = ", ".join(f"{cause.facts.words} {share:.2f}" for cause, share in anomaly.runners_up)
    began, opened = When(anomaly.window.start), When(alert.opened)

    return Card(
        f"Why: {headline(alert, now)}",
        Tone.INFO,
        compose(
            anomaly.why and text(symptom(alert)),
            alert.muted_by and text(Strong(muted.get(by, "Muted by ")), name),
            MutedBy.SILENCE.marks(alert) and decided(alert, silences),
            [text("• ", line) for line in anomaly.evidence[:8]],
            chart,
            Facts(
                (
                    (
                        "Diagnosis",
                        f"{alert.cause.facts.words} (confidence {anomaly.confidence:.2f})",
                    ),
                    ("Other causes", rivals or "none"),
                )
            ),
            Facts(
                (
                    (now_words, quantity(anomaly.value, anomaly.unit, counted_in(anomaly))),
                    ("Usually", usual),
                    ("Score", f"{anomaly.score:.2f} (0 = usual, 1 = most unusual)"),
                    *(
                        (("Judged useful", f"{useful} alerts of the rule in 90 days"),)
                        if useful
                        else ()
                    ),
                ),
                Style.DETAIL,
            ),
            money_texts(alert),
            risk_texts(alert),
            price and quiet(f"{price}."),
            bool(suggestions) and text(advice),
            [text("• ", *coded(line)) for line in suggestions[:5]],
            [quiet(f"{_doing(x)} by {x.who} at ", When(x.at), noted(x.note)) for x in decisions],
            detail("Anomaly since ", began, ", alert since ", opened, f", key {alert.key}"),
            Buttons(
                (
                    Button("Useful", f"useful {alert.id}"),
                    Button("Not an anomaly…", f"not-an-anomaly {alert.id}", opens=True),
                )
            ),
        ),
        alert_data(alert),
    )


@command(
    "why",
    "Why an alert fires, is muted, or ended: evidence, runner-up, price; for a cluster without"
    " alerts, its state now.",
    needs=Needs.STATE | Needs.METRICS,
    may=Needs.BILL | Needs.DETECTOR,
    topic=Topic.ALERTS,
    examples=("why llama", "why a1b2c3d4e"),
    figures=ALERT_FIGURES | NODE_FIGURES,
)
def why(ports: Ports, request: Request, name: str = WHICH) -> Card:
    """Explain one alert; of a cluster without one, how it stands now."""
    try:
        target = find_alert(ports, request, name)
    except WrongInput:
        # A cluster may be meant that no alert is about: then the answer is how it stands.
        standing = standing_card(ports, request, name)
        if standing is None:
            raise
        return standing
    silences = ports.stores.alerts.load(request.at).silences
    scores = scores_within(ports, Window(request.at - _JUDGED_FOR, request.at))
    score = next((score for score in scores if score.rule == target.anomaly.rule), None)

    return why_card(
        target,
        ports.stores.alerts.decisions(target.id),
        chart_of(ports, request, target),
        request.at,
        (silences, score),
    )


_JUDGED_FOR = timedelta(days=90)
_DECIDED = {
    DecisionKind.ACKNOWLEDGE: "Acknowledged",
    DecisionKind.UNACKNOWLEDGE: "Acknowledgement withdrawn",
    DecisionKind.ASSIGN: "Assigned to",
    DecisionKind.UNASSIGN: "No longer assigned to",
    DecisionKind.NOT_AN_ANOMALY: "Judged not an anomaly",
    DecisionKind.USEFUL: "Judged useful",
    DecisionKind.UNJUDGED: "Judgment withdrawn",
}
_SAID = {
    Reason.FIRST: "Sent",
    Reason.MORE: "That it spread was sent",
    Reason.FEWER: "That it shrank was sent",
    Reason.WORSE: "That it became worse was sent",
    Reason.OVER: "Its end was sent",
    Reason.REMINDER: "A reminder that nobody had acknowledged it was sent",
    Reason.DECIDED: "An update was sent",
    Reason.UPDATED: "Its newest dollars were sent",
}


def _doing(decision: Decision) -> str:
    """Say what was decided, and of whom."""
    return f"{_DECIDED[decision.doing]} {decision.whom}".rstrip()


@dataclass(frozen=True)
class Event:
    """State one thing that happened: `kind` is seen, sent or decided."""

    at: datetime
    kind: str
    words: str
    by: str = ""


def events(
    alert: Alert,
    decisions: Sequence[Decision],
    silences: Sequence[Silence],
    said: Sequence[NotificationLogEntry],
) -> list[Event]:
    """Return the events of an alert that are known, the oldest first.

    Of each channel its newest notification, and once that there was a first.
    """
    anomaly, on = alert.anomaly, ""
    if anomaly.kind in {"node", "pod"}:
        on = f" on {counted(len(anomaly.things), anomaly.kind)}"
    happened = [
        Event(anomaly.window.start, "seen", f"Began{on}, as estimated from the readings"),
        Event(
            alert.opened,
            "seen",
            f"Lasted long enough for the rule '{anomaly.rule}': the alert opened",
        ),
    ]
    if alert.closed:
        happened += [
            Event(alert.seen, "seen", "Seen for the last time"),
            Event(alert.closed, "seen", "Over"),
        ]

    happened += [Event(x.at, "decided", f"{_doing(x)}{noted(x.note)}", x.who) for x in decisions]

    # A pattern is told by the judgement that made it.
    for silence in (x for x in silences if x.alert == alert.id and not x.pattern):
        words = f"Snoozed until {utc_text(silence.ends)}{noted(silence.reason)}"
        happened.append(Event(silence.starts, "decided", words, silence.who))
        if silence.ended_at:
            happened.append(Event(silence.ended_at, "seen", "The snooze ended"))

    explained = MutedBy.ALERT.marks(alert) or MutedBy.SETTING.marks(alert)
    if said and not explained and all(entry.reason is not Reason.FIRST for entry in said):
        happened.append(Event(alert.notified_at, "sent", "Sent for the first time", "trnbot"))
    for entry in said:
        cost = f", at {usd(entry.usd_per_hour)} an hour" if entry.usd_per_hour else ""
        words = f"{_SAID[entry.reason]} to {entry.channel}{cost}"
        happened.append(Event(entry.at, "sent", words, "trnbot"))

    return sorted(happened, key=lambda event: event.at)


_EVENTS = Columns[Event](
    Column("", lambda event: event.at, key="at"),
    Column("when (UTC)", lambda event: clock(event.at)),
    Column("kind", lambda event: event.kind, key="kind"),
    Column("what", lambda event: event.words, key="words"),
    Column("by", lambda event: event.by, key="by", missing=""),
)


def timeline_card(alert: Alert, happened: Sequence[Event], now: datetime) -> Card:
    """List the events, the oldest first."""
    return Card(
        f"Timeline: {headline(alert, now)}",
        Tone.INFO,
        (
            _EVENTS.table(happened),
            Buttons((Button("Alert", f"alert {alert.id}"), Button("Why", f"why {alert.id}"))),
        ),
        {"id": alert.id, "events": _EVENTS.data(happened)},
    )


@command(
    "timeline",
    "What was seen, sent and decided about one alert, in order.",
    needs=Needs.STATE,
    topic=Topic.ALERTS,
    examples=("timeline a1b2c3d4e",),
)
def timeline(ports: Ports, request: Request, name: str = WHICH) -> Card:
    """Tell an alert's story from the records that are kept of it."""
    alert, store = find_alert(ports, request, name), ports.stores.alerts
    memory = store.load(request.at)
    sent = [entry for entry in memory.notification_log if alert.id in entry.alerts]
    happened = events(alert, store.decisions(alert.id), (*memory.silences, *memory.slept), sent)

    return timeline_card(alert, happened, request.at)
