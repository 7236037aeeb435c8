"""Take people's judgements of alerts.

Show what is muted, how often each rule is right, and what acting saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from bot.answers.alerts.alerts import (
    KEPT,
    LENGTH,
    SURE,
    WHICH,
    asking_card,
    decide,
    find_alert,
    needs_asking,
    silence_of,
    undoable,
)
from bot.cards.alert_words import pattern_words, where
from bot.cards.card import (
    Button,
    Buttons,
    Card,
    Code,
    Field,
    FieldKind,
    Form,
    Strong,
    Tone,
    compose,
    quiet,
    text,
)
from bot.cards.columns import NUMBER, RATIO, Column, Columns, datum
from bot.cards.words import period
from bot.errors import WrongInput, find_named
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.alert import Alert, DecisionKind, Silence
from bot.model.labels import Labels
from bot.model.money import counted, usd
from bot.model.request import Request
from bot.model.window import Window, parse_duration, rounded_duration, utc_text, write_duration
from bot.ports import Ports, StateUpdate
from bot.watch.feedback import RuleScore, fits, pattern_of, patterns, scores
from bot.watch.mute import silences_alert

_SHORTEST, _LONGEST = timedelta(hours=1), timedelta(days=180)
_LENGTHS = (timedelta(days=1), timedelta(days=7), timedelta(days=30), timedelta(days=90))


def judgement_form(alert: Alert, alike: int, usual: timedelta) -> Card:
    """Ask whether to mute alerts like this one, and for how long; nothing is muted yet."""
    level = pattern_words(pattern_of(alert))
    subject = Strong(f"{alert.cause.facts.words} · {where(alert)}")
    options = tuple(
        (write_duration(length), rounded_duration(length)) for length in sorted({*_LENGTHS, usual})
    )

    chosen = write_duration(usual)
    field = Field("length", "Mute them for", FieldKind.CHOICE, chosen, options, required=True)

    return Card(
        f"Not an anomaly? {alert.cause.facts.words} · {where(alert)}",
        Tone.INFO,
        (
            text("Mutes alerts of ", subject, f"{f', {level}' if level else ''}, for everyone."),
            quiet(
                f"{counted(alike, 'firing alert')} now. What is worse, or more expensive, is still"
                " sent. The answer has a button to undo it."
            ),
            Form("Not an anomaly", f"not-an-anomaly {alert.id} {SURE}", (field,), "Mute"),
        ),
        {"alert": alert.id, "alike": alike},
    )


@command(
    "not-an-anomaly",
    "Mark an alert as wrong: similar alerts are muted for a while, and are listed as muted.",
    needs=Needs.STATE,
    topic=Topic.ALERTS,
    examples=("not-an-anomaly a1b2c3d4e", "not-an-anomaly a1b2c3d4e 90d"),
    changes=True,
)
def not_an_anomaly(
    ports: Ports,
    request: Request,
    name: str = WHICH,
    length: timedelta | None = arg(
        "", "how long similar alerts stay muted; asks by a form when left out"
    ),
    sure: bool = arg(
        "no",
        "do not ask back where it is longer than alert.not_an_anomaly_for, or the alert is"
        " expensive",
        keyword=True,
    ),
) -> Card:
    """Record the judgement, and mute alerts of the same rule, place and level that are no dearer.

    Without a length, ask first.
    """
    if length is None and LENGTH.fullmatch(name):  # in an alert's thread: `not-an-anomaly 30d`
        name, length = "", parse_duration(name)
    alert = find_alert(ports, request, name)
    usual = ports.policy.duration("alert.not_an_anomaly_for")
    pattern = pattern_of(alert)
    if length is None:
        memory = ports.stores.alerts.load(request.at)
        alike = [firing for firing in memory.alerts if firing.firing and fits(pattern, firing)]
        return judgement_form(alert, len(alike), usual)

    if not _SHORTEST <= length <= _LONGEST:
        raise WrongInput("A judgment lasts between 1h and 180d.", "length")
    if not sure and needs_asking(alert, length, usual):
        line = f"not-an-anomaly {alert.id} {write_duration(length)}"
        return asking_card(alert, "Mute alerts like it", length, line, request.at)

    silence = replace(silence_of(request, alert, length, "m", "not an anomaly"), pattern=pattern)
    ports.stores.alerts.save(StateUpdate(silences=[silence]))
    title = (
        f"Noted as not an anomaly by {silence.who}; similar alerts are muted until"
        f" {utc_text(silence.ends)}"
    )
    judged = decide(ports, request, alert, DecisionKind.NOT_AN_ANOMALY, title)
    listed = replace(
        judged, blocks=(*judged.blocks, quiet(Code("silences"), " lists what is muted."))
    )

    return undoable(listed, f"not-an-anomaly undo {silence.id}")


@command(
    "not-an-anomaly undo",
    "Take a judgment back: its alerts are sent again, and 'feedback' no longer counts it.",
    needs=Needs.STATE,
    topic=Topic.ALERTS,
    examples=("not-an-anomaly undo m1b2c3d4e",),
    changes=True,
)
def not_an_anomaly_undo(
    ports: Ports, request: Request, name: str = arg(None, "the pattern's id")
) -> Card:
    """End the pattern, and record that the judgement that made it is withdrawn."""
    store = ports.stores.alerts
    judged_away = [silence for silence in store.load(request.at).silences if silence.pattern]
    silence = _named(name, judged_away, "No pattern is called", "'silences' lists them")

    # The alert whose judgement made the pattern was open when it was judged.
    lately = Window(silence.starts - KEPT, silence.starts + timedelta(seconds=1))
    decisions = store.decisions(*(alert.id for alert in store.history(lately, Labels())))
    judged = next(
        (
            decision.alert
            for decision in decisions
            if (decision.doing, decision.at, decision.by)
            == (DecisionKind.NOT_AN_ANOMALY, silence.starts, silence.by)
        ),
        None,
    )
    store.save(StateUpdate(silences=[replace(silence, ended_at=request.at)]))
    title = f"The judgment by {silence.who} is taken back; its alerts are sent again"
    if judged is None:
        return Card(title, Tone.GOOD, (), {"silence": silence.id})
    alert = find_alert(ports, request, judged)

    return decide(ports, request, alert, DecisionKind.UNJUDGED, title)


@command(
    "useful",
    "Mark an alert as useful.",
    needs=Needs.STATE,
    topic=Topic.ALERTS,
    examples=("useful a1b2c3d4e",),
    changes=True,
)
def useful(ports: Ports, request: Request, name: str = WHICH) -> Card:
    """Record the judgement, and drop every pattern that would mute its like."""
    alert = find_alert(ports, request, name)
    # What was useful once must not be muted as if it were no anomaly.
    dropped = [
        replace(silence, ended_at=request.at)
        for silence in patterns(ports.stores.alerts.load(request.at).silences, alert, request.at)
    ]
    ports.stores.alerts.save(StateUpdate(silences=dropped))
    title = "Noted as useful"
    if dropped:
        ids = ", ".join(silence.id for silence in dropped)
        title += f"; {ids}, which muted similar alerts, is dropped"

    return decide(ports, request, alert, DecisionKind.USEFUL, title)


_MOST = 12

Muted = tuple[Silence, Alert | None, Sequence[Alert]]
"""A silence, the opening it is about (None: a pattern), and the firing alerts it keeps quiet."""


_SILENCES = Columns[Muted](
    Column("muted", lambda row: _subject(row[0], row[1]), missing=""),
    Column("how", lambda row: _how(row[0])),
    Column("by", lambda row: row[0].who, missing=""),
    Column("until", lambda row: f"{utc_text(row[0].ends)}"),
    Column("mutes now", lambda row: len(row[2]), NUMBER),
    Column("id", lambda row: row[0].id, key="id"),
    datum("kind", lambda row: "pattern" if row[0].pattern else "snooze"),
    datum("alert", lambda row: row[1].id if row[1] else row[0].alert),
    datum("rule", lambda row: row[0].pattern.rule if row[0].pattern else ""),
    datum("labels", lambda row: dict(row[0].pattern.scope if row[0].pattern else row[0].selector)),
    datum(
        "low",
        lambda row: row[0].pattern and row[0].pattern.low,
        "the low end of the readings that were judged not an anomaly",
    ),
    datum(
        "high",
        lambda row: row[0].pattern and row[0].pattern.high,
        "the high end of the readings that were judged not an anomaly",
    ),
    datum(
        "usd_per_hour",
        lambda row: row[0].pattern and row[0].pattern.usd_per_hour,
        "the waste an hour up to which the judgment holds",
    ),
    datum(
        "ceiling_usd",
        lambda row: row[0].ceiling_usd,
        "the waste up to which the silence holds, as a person set it",
    ),
    datum("by", lambda row: row[0].by),
    datum("by_name", lambda row: row[0].by_name),
    datum("reason", lambda row: row[0].reason),
    datum("starts", lambda row: row[0].starts),
    datum("ends", lambda row: row[0].ends),
    datum("quiet", lambda row: [alert.id for alert in row[2]]),
)


def silences_card(rows: Sequence[Muted]) -> Card:
    """List silences, those that keep the most quiet first."""
    ranked = sorted(rows, key=lambda row: (-len(row[2]), row[0].ends))
    data = {"silences": _SILENCES.data(ranked)}
    if not rows:
        return Card(
            "Nobody has muted anything",
            Tone.GOOD,
            (text("No snooze and no pattern is in force."),),
            data,
        )

    questions = {
        silence.id: f"People will be notified again of {counted(len(muted), 'firing alert')}:"
        f" {_subject(silence, alert)}."
        for silence, alert, muted in ranked
        if muted
    }
    # Two silences may keep the same alert quiet.
    muted_now = len({alert.id for row in rows for alert in row[2]})

    return Card(
        f"{counted(len(rows), 'silence')}, {counted(muted_now, 'firing alert')} muted",
        Tone.INFO,
        (
            _SILENCES.table(ranked, most=_MOST, rest="and {} more"),
            quiet(
                "A pattern mutes alerts of the same rule and place at its level; worse or more"
                " expensive ones are still sent."
            ),
            Buttons(
                tuple(
                    Button(f"Drop {x.id}", f"silences drop {x.id}", confirm=questions.get(x.id, ""))
                    for x, _, _ in ranked[:4]
                )
            ),
        ),
        data,
    )


_SCORES = Columns[RuleScore](
    Column("rule", lambda score: score.rule, key="rule"),
    Column("useful", lambda score: score.useful, NUMBER, key="useful"),
    Column("wrong", lambda score: score.wrong, NUMBER, key="wrong"),
    Column("right", lambda score: score.precision, RATIO, "precision"),
    Column("", lambda score: score.suggestion, key="suggestion"),
)


def feedback_card(rules: Sequence[RuleScore], window: Window) -> Card:
    """Show useful and wrong by rule; suggestions are lines to press, and change nothing."""
    useful, wrong = sum(score.useful for score in rules), sum(score.wrong for score in rules)
    data = {"rules": _SCORES.data(rules), "useful": useful, "wrong": wrong}
    if not rules:
        return Card(
            f"Nobody has judged an alert · {period(window)}",
            Tone.INFO,
            (
                text(
                    "Press ",
                    Strong("Not an anomaly"),
                    " on a wrong alert; ",
                    Strong("Useful"),
                    " is on the answer to ",
                    Code("why ID"),
                    ".",
                ),
            ),
            data,
        )

    suggested = [score for score in rules if score.suggestion][:4]
    buttons = [Button(f"Try: {score.rule}"[:40], score.suggestion) for score in suggested]

    return Card(
        f"{useful} useful, {wrong} wrong · {period(window)}",
        Tone.INFO,
        compose(
            _SCORES.table(rules, most=_MOST, rest="and {} more"),
            [
                text(f"{score.rule} is mostly wrong; try ", Code(score.suggestion))
                for score in suggested
            ],
            bool(buttons) and Buttons(tuple(buttons)),
            quiet(
                "Judgments change no threshold by themselves; a suggestion is previewed before it"
                " is applied."
            ),
        ),
        data,
    )


def _subject(silence: Silence, alert: Alert | None) -> str:
    """Name what is muted: `starved · llama, 64 x trn1.32xlarge, us-west-2`."""
    if silence.pattern:
        place = " ".join(value for _, value in silence.pattern.scope)
        return " · ".join(part for part in (silence.pattern.rule, place) if part)
    if alert:
        return f"{alert.cause.facts.words} · {where(alert)}"
    return silence.alert or str(silence.selector)


def _how(silence: Silence) -> str:
    """Say how it is muted: `snoozed up to $5,000: moving data`, `not an anomaly at 4 to 6 %`."""
    if silence.pattern:
        return f"not an anomaly {pattern_words(silence.pattern)}".strip()
    ceiling = f" up to {usd(silence.ceiling_usd)}" if silence.ceiling_usd else ""
    return f"snoozed{ceiling}" + (f": {silence.reason}" if silence.reason else "")


def _named(name: str, silences: Iterable[Silence], refusal: str, otherwise: str) -> Silence:
    """Return the silence of this id; raise `WrongInput`, which begins with `refusal`, for none."""
    standing = {silence.id: silence for silence in silences}
    return find_named(f"{refusal} '{name}'", name, standing, most=8, otherwise=otherwise)


_JUDGED = (DecisionKind.USEFUL, DecisionKind.NOT_AN_ANOMALY, DecisionKind.UNJUDGED)


@command(
    "silences",
    "Silences set by people: by whom, until when, and which alerts they mute now.",
    needs=Needs.STATE,
    topic=Topic.ALERTS,
    examples=("silences",),
    figures=_SILENCES.sources("silences"),
)
def silences(ports: Ports, request: Request) -> Card:
    """List every snooze and every pattern that was judged not an anomaly."""
    memory = ports.stores.alerts.load(request.at)
    alerts = {alert.id: alert for alert in memory.alerts}
    firing = [alert for alert in memory.alerts if alert.firing]
    return silences_card(
        [
            (
                silence,
                alerts.get(silence.alert),
                [alert for alert in firing if silences_alert(silence, alert, request.at)],
            )
            for silence in memory.silences
        ]
    )


@command(
    "silences drop",
    "End a silence.",
    needs=Needs.STATE,
    topic=Topic.ALERTS,
    examples=("silences drop m1b2c3d4e",),
    changes=True,
)
def silences_drop(
    ports: Ports, request: Request, name: str = arg(None, "the silence's id")
) -> Card:
    """End one silence."""
    silences = ports.stores.alerts.load(request.at).silences
    dropped = _named(name, silences, "Nothing is muted by", "'silences' lists what is muted")
    ports.stores.alerts.save(StateUpdate(silences=[replace(dropped, ended_at=request.at)]))

    return Card(
        f"{dropped.id} is dropped: its alerts are sent again",
        Tone.GOOD,
        (quiet(f"{_subject(dropped, None)}, {_how(dropped)}, by {dropped.who}"),),
        {"silence": dropped.id},
    )


@command(
    "feedback",
    "How people judged each rule's alerts, with a suggested setting for rules that are mostly"
    " wrong.",
    needs=Needs.STATE,
    topic=Topic.ALERTS,
    examples=("feedback 30d",),
    figures={
        "useful": "sum over the rules",
        "wrong": "sum over the rules",
        "precision": "useful / (useful + wrong)",
        "rules/useful": "count of the alerts of the rule that people judged useful",
        "rules/wrong": "count of the alerts of the rule that people judged not an anomaly",
    },
)
def feedback(
    ports: Ports,
    request: Request,
    window: Window = arg("90d", "alerts that were open in this window"),
) -> Card:
    """Count useful and wrong alerts by rule.

    Suggest a line for rules that are mostly wrong, and change nothing.
    """
    return feedback_card(scores_within(ports, window), window)


def scores_within(ports: Ports, window: Window) -> Sequence[RuleScore]:
    """Return how people judged the alerts of each rule that were open in a window; may block."""
    alerts = {alert.id: alert for alert in ports.stores.alerts.history(window, Labels())}
    judged = [
        (alerts[decision.alert], decision)
        for decision in ports.stores.alerts.decisions(*alerts)
        if decision.doing in _JUDGED
    ]
    return scores(judged, ports.policy.values)
