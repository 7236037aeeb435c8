"""Take people's judgements of alerts; show what is muted, how often each rule is right, and what acting saved."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from bot.answers.alerts.alerts import decide, undoable
from bot.answers.alerts.find import KEPT, LENGTH, SURE, WHICH, asking_card, find_alert, needs_asking
from bot.cards.alert_words import pattern_words, where
from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    Card,
    Code,
    Field,
    FieldKind,
    Form,
    Heading,
    Strong,
    Table,
    Tone,
    quiet,
    text,
)
from bot.cards.words import clock, period
from bot.errors import WrongInput, nearest
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.alert import Alert, Decision, DecisionKind, Silence
from bot.model.labels import Labels
from bot.model.money import counted, usd
from bot.model.request import Request
from bot.model.window import Window, parse_duration, rounded_duration, write_duration
from bot.ports import Ports, StateUpdate
from bot.watch.feedback import RuleScore, Saving, fits, pattern_of, patterns, saved_within, scores
from bot.watch.mute import silences_alert

_SHORTEST, _LONGEST = timedelta(hours=1), timedelta(days=180)
_LENGTHS = (timedelta(days=1), timedelta(days=7), timedelta(days=30), timedelta(days=90))


def judgement_form(alert: Alert, alike: int, usual: timedelta) -> Card:
    """Ask whether to mute alerts like this one, and for how long; nothing is muted yet."""
    level = f", {words}" if (words := pattern_words(pattern_of(alert))) else ""
    mutes = text(
        "Mutes alerts of ",
        Strong(f"{alert.anomaly.rule} · {where(alert)}"),
        f"{level}, for everyone.",
    )
    now = quiet(
        f"{counted(alike, 'firing alert')} now. What is worse, or more expensive, is still sent. "
        "The answer has a button to undo it."
    )
    options = tuple(
        (write_duration(length), rounded_duration(length)) for length in sorted({*_LENGTHS, usual})
    )
    form = Form(
        "Not an anomaly",
        f"not-an-anomaly {alert.id} {SURE}",
        (
            Field(
                "length",
                "Mute them for",
                FieldKind.CHOICE,
                write_duration(usual),
                options,
                required=True,
            ),
        ),
        "Mute",
    )
    title = f"Not an anomaly? {alert.cause.facts.words} · {where(alert)}"
    return Card(title, Tone.INFO, (mutes, now, form), {"alert": alert.id, "alike": alike})


@command(
    "not-an-anomaly",
    "Mark an alert as wrong: similar alerts are muted for a while, and are listed as muted.",
    needs=Needs.STATE,
    topic=Topic.ALERTS,
    examples=("not-an-anomaly a1b2c3d4e", "not-an-anomaly a1b2c3d4e 90d"),
    changes=True,
)
async def not_an_anomaly(
    ports: Ports,
    request: Request,
    name: str = WHICH,
    length: timedelta | None = arg(
        "", "how long similar alerts stay muted; asks by a form when left out"
    ),
    sure: bool = arg(
        "no", "longer than `alert.not_an_anomaly_for`, or dear: do not ask once more", keyword=True
    ),
) -> Card:
    """Record the judgement, and mute alerts of the same rule, place and level that are no dearer.

    Without a length, ask first.
    """
    if length is None and LENGTH.fullmatch(name):  # in an alert's thread: `not-an-anomaly 30d`
        name, length = "", parse_duration(name)
    alert = await find_alert(ports, request, name)
    policy = await asyncio.to_thread(lambda: ports.policy)
    usual = policy.duration("alert.not_an_anomaly_for")
    if length is None:
        memory = await asyncio.to_thread(ports.stores.alerts.load, request.at)
        alike = [one for one in memory.alerts if one.firing and fits(pattern_of(alert), one)]
        return judgement_form(alert, len(alike), usual)
    if not _SHORTEST <= length <= _LONGEST:
        raise WrongInput("A judgement lasts between 1h and 180d.", "length")
    if not sure and needs_asking(alert, length, usual):
        line = f"not-an-anomaly {alert.id} {write_duration(length)}"
        return asking_card(alert, "Mute alerts like it", length, line, request.at)
    silence = _remembered(alert, request, length)
    await asyncio.to_thread(ports.stores.alerts.save, StateUpdate(silences=[silence]))
    words = f"Noted as not an anomaly by {silence.who}; similar alerts are muted until {silence.ends:%Y-%m-%d}"
    judged = await decide(ports, request, alert, DecisionKind.NOT_AN_ANOMALY, words=words)
    listed = replace(
        judged, blocks=(*judged.blocks, quiet(Code("silences"), " lists what is muted."))
    )
    return undoable(listed, f"not-an-anomaly undo {silence.id}")


@command(
    "not-an-anomaly undo",
    "Take a judgement back: its alerts are sent again, and `feedback` no longer counts it.",
    needs=Needs.STATE,
    topic=Topic.ALERTS,
    examples=("not-an-anomaly undo m1b2c3d4e",),
    changes=True,
)
async def not_an_anomaly_undo(
    ports: Ports, request: Request, name: str = arg(None, "the pattern's id")
) -> Card:
    """End the pattern, and record that the judgement that made it is withdrawn."""
    memory = await asyncio.to_thread(ports.stores.alerts.load, request.at)
    standing = [silence for silence in memory.silences if silence.pattern]
    silence = next((one for one in standing if one.id == name), None)
    if silence is None:
        hint = nearest(
            name, [one.id for one in standing], most=8, otherwise="'silences' lists them"
        )
        raise WrongInput(f"No pattern is called '{name}'{hint}.")
    judged = await asyncio.to_thread(_judged, ports, silence)
    await asyncio.to_thread(
        ports.stores.alerts.save, StateUpdate(silences=[replace(silence, ended_at=request.at)])
    )
    words = f"The judgement by {silence.who} is taken back; its alerts are sent again"
    if judged is None:
        return Card(words, Tone.GOOD, (), {"silence": silence.id})
    alert = await find_alert(ports, request, judged)
    return await decide(ports, request, alert, DecisionKind.UNJUDGED, words=words)


@command(
    "useful",
    "Mark an alert as useful.",
    needs=Needs.STATE,
    topic=Topic.ALERTS,
    examples=("useful a1b2c3d4e",),
    changes=True,
)
async def useful(ports: Ports, request: Request, name: str = WHICH) -> Card:
    """Record the judgement, and drop every pattern that would mute its like."""
    alert = await find_alert(ports, request, name)
    memory = await asyncio.to_thread(ports.stores.alerts.load, request.at)
    against = [
        replace(silence, ended_at=request.at)
        for silence in patterns(memory.silences, alert, request.at)
    ]
    await asyncio.to_thread(ports.stores.alerts.save, StateUpdate(silences=against))
    ids = ", ".join(silence.id for silence in against)
    words = (
        f"Noted as useful; {ids}, which muted similar alerts, is dropped"
        if against
        else "Noted as useful"
    )
    return await decide(ports, request, alert, DecisionKind.USEFUL, words=words)


def _judged(ports: Ports, silence: Silence) -> str | None:
    """Return the id of the alert whose judgement made a pattern, None where it is no longer found."""
    found: Sequence[Alert] = ports.stores.alerts.history(_before(silence.starts), Labels())
    decisions = ports.stores.alerts.decisions(*(alert.id for alert in found))
    made = (
        one
        for one in decisions
        if (one.doing, one.at, one.by) == (DecisionKind.NOT_AN_ANOMALY, silence.starts, silence.by)
    )
    return next((one.alert for one in made), None)


def _before(at: datetime) -> Window:
    """Return the time in which an alert can have been open that was judged at `at`."""
    return Window(at - KEPT, at + timedelta(seconds=1))


def _remembered(alert: Alert, request: Request, length: timedelta) -> Silence:
    stamp = f"{alert.id}|{request.user.id}|{request.at.isoformat()}|{length}"
    return Silence(
        id="m" + hashlib.sha256(stamp.encode()).hexdigest()[:9],
        selector=Labels(),
        starts=request.at,
        ends=request.at + length,
        by=request.user.id,
        by_name=request.user.name,
        reason="not an anomaly",
        pattern=pattern_of(alert),
    )


_COLUMNS = (
    Heading("muted"),
    Heading("how"),
    Heading("by"),
    Heading("until"),
    Heading("mutes now", Align.RIGHT),
    Heading("id"),
)
_SCORES = (
    Heading("rule"),
    Heading("useful", Align.RIGHT),
    Heading("wrong", Align.RIGHT),
    Heading("right", Align.RIGHT),
)
_MOST = 12

Muted = tuple[Silence, Alert | None, Sequence[Alert]]
"""A silence, the one opening it is about (None: a pattern), and the firing alerts it keeps quiet."""


def silences_card(rows: Sequence[Muted]) -> Card:
    """List silences, those that keep the most quiet first."""
    ranked = sorted(rows, key=lambda row: (-len(row[2]), row[0].ends))
    data = {"silences": [_data(*row) for row in ranked]}
    if not rows:
        return Card(
            "Nobody has muted anything",
            Tone.GOOD,
            (text("No snooze and no pattern is in force."),),
            data,
        )
    table = Table(_COLUMNS, tuple(_row(*row) for row in ranked[:_MOST]), rest=_rest(len(ranked)))
    buttons = Buttons(tuple(_drop(*row) for row in ranked[:4]))
    held = sum(len(row[2]) for row in rows)
    title = f"{counted(len(rows), 'silence')}, {counted(held, 'firing alert')} muted"
    how = quiet(
        "A pattern mutes alerts of the same rule and place at its level; worse or more expensive ones are still sent."
    )
    return Card(title, Tone.INFO, (table, how, buttons), data)


def dropped_card(silence: Silence) -> Card:
    """Confirm that a silence is over."""
    words = quiet(f"{_what(silence, None)}, {_how(silence)}, by {silence.who}")
    return Card(
        f"{silence.id} is dropped: its alerts are sent again",
        Tone.GOOD,
        (words,),
        {"silence": silence.id},
    )


def feedback_card(rules: Sequence[RuleScore], window: Window) -> Card:
    """Show useful and wrong by rule; suggestions are lines to press, nothing is changed by itself."""
    useful, wrong = sum(score.useful for score in rules), sum(score.wrong for score in rules)
    data = {"rules": [_score_data(score) for score in rules], "useful": useful, "wrong": wrong}
    if not rules:
        none = text(
            "Press ",
            Strong("Not an anomaly"),
            " on a wrong alert; ",
            Strong("Useful"),
            " is on the answer to ",
            Code("why ID"),
            ".",
        )
        return Card(f"Nobody has judged an alert · {period(window)}", Tone.INFO, (none,), data)
    rows = tuple(
        (score.rule, str(score.useful), str(score.wrong), f"{score.precision:.0%}")
        for score in rules[:_MOST]
    )
    blocks: list[Block] = [Table(_SCORES, rows, rest=_rest(len(rules)))]
    lines = [score for score in rules if score.suggestion][:4]
    blocks += [
        text(f"{score.rule} is mostly wrong; try ", Code(score.suggestion)) for score in lines
    ]
    blocks += (
        [Buttons(tuple(Button(f"Try: {score.rule}"[:40], score.suggestion) for score in lines))]
        if lines
        else []
    )
    blocks.append(
        quiet(
            "Judgements change no threshold by themselves; a suggestion is previewed before it is applied."
        )
    )
    return Card(
        f"{useful} useful, {wrong} wrong · {period(window)}", Tone.INFO, tuple(blocks), data
    )


def _drop(silence: Silence, alert: Alert | None, held: Sequence[Alert]) -> Button:
    """Return the button that ends a silence.

    Of one that mutes alerts now, it counts those that speak again.
    """
    speak = (
        f"{counted(len(held), 'firing alert')} will be notified of again: {_what(silence, alert)}."
    )
    return Button(
        f"Drop {silence.id}", f"silences drop {silence.id}", confirm=speak if held else ""
    )


def _rest(n: int) -> str:
    return f"and {n - _MOST} more" if n > _MOST else ""


def _row(silence: Silence, alert: Alert | None, held: Sequence[Alert]) -> tuple[str, ...]:
    by = silence.who
    return (
        _what(silence, alert),
        _how(silence),
        by,
        f"{clock(silence.ends)} UTC",
        str(len(held)),
        silence.id,
    )


def _what(silence: Silence, alert: Alert | None) -> str:
    """Name the muted pattern: `starved · llama, 64 x trn1.32xlarge, us-west-2`."""
    if silence.pattern:
        place = " ".join(value for _, value in silence.pattern.scope)
        return " · ".join(part for part in (silence.pattern.rule, place) if part)
    return (
        f"{alert.cause.facts.words} · {where(alert)}"
        if alert
        else silence.alert or str(silence.selector)
    )


def _how(silence: Silence) -> str:
    """Say how it is muted: `snoozed up to $5,000.

    Moving the data`, or `not an anomaly at 4 to 6 %`.
    """
    if silence.pattern:
        return f"not an anomaly {pattern_words(silence.pattern)}".strip()
    ceiling = f" up to {usd(silence.ceiling_usd)}" if silence.ceiling_usd else ""
    return f"snoozed{ceiling}" + (f": {silence.reason}" if silence.reason else "")


def _data(silence: Silence, alert: Alert | None, held: Sequence[Alert]) -> dict[str, object]:
    pattern = silence.pattern
    return {
        "id": silence.id,
        "kind": "pattern" if pattern else "snooze",
        "alert": alert.id if alert else silence.alert,
        "rule": pattern.rule if pattern else "",
        "labels": dict(pattern.scope if pattern else silence.selector),
        "low": pattern.low if pattern else None,
        "high": pattern.high if pattern else None,
        "usd_per_hour": pattern.usd_per_hour if pattern else None,
        "ceiling_usd": silence.ceiling_usd,
        "by": silence.by,
        "by_name": silence.by_name,
        "reason": silence.reason,
        "starts": silence.starts,
        "ends": silence.ends,
        "quiet": [quieted.id for quieted in held],
    }


def _score_data(score: RuleScore) -> dict[str, object]:
    return {
        "rule": score.rule,
        "useful": score.useful,
        "wrong": score.wrong,
        "precision": round(score.precision, 4),
        "suggestion": score.suggestion,
    }


_JUDGED = (DecisionKind.USEFUL, DecisionKind.NOT_AN_ANOMALY, DecisionKind.UNJUDGED)


_SILENCES_FIGURES = {
    "low": "the low end of the readings that were judged not an anomaly",
    "high": "the high end of the readings that were judged not an anomaly",
    "usd_per_hour": "the waste an hour up to which the judgement holds",
    "ceiling_usd": "the waste up to which the silence holds, as a person set it",
}


@command(
    "silences",
    "Silences set by people: by whom, until when, and which alerts they mute now.",
    needs=Needs.STATE,
    topic=Topic.ALERTS,
    examples=("silences",),
    figures=_SILENCES_FIGURES,
)
async def silences(ports: Ports, request: Request) -> Card:
    """List every snooze and every pattern that was judged not an anomaly."""
    memory = await asyncio.to_thread(ports.stores.alerts.load, request.at)
    alerts = {alert.id: alert for alert in memory.alerts}
    rows = [
        (silence, alerts.get(silence.alert), _quiet(silence, memory.alerts, request))
        for silence in memory.silences
    ]
    return silences_card(rows)


@command(
    "silences drop",
    "End a silence.",
    needs=Needs.STATE,
    topic=Topic.ALERTS,
    examples=("silences drop m1b2c3d4e",),
    changes=True,
)
async def silences_drop(
    ports: Ports, request: Request, name: str = arg(None, "the silence's id")
) -> Card:
    """End one silence."""
    memory = await asyncio.to_thread(ports.stores.alerts.load, request.at)
    dropped = next((silence for silence in memory.silences if silence.id == name), None)
    if dropped is None:
        ids = [silence.id for silence in memory.silences]
        hint = nearest(name, ids, most=8, otherwise="'silences' lists what is muted")
        raise WrongInput(f"Nothing is muted by '{name}'{hint}.")
    await asyncio.to_thread(
        ports.stores.alerts.save, StateUpdate(silences=[replace(dropped, ended_at=request.at)])
    )
    return dropped_card(dropped)


_FEEDBACK_FIGURES = {
    "useful": "sum over the rules",
    "wrong": "sum over the rules",
    "precision": "useful / (useful + wrong)",
    "rules/useful": "count of the alerts of the rule that people judged useful",
    "rules/wrong": "count of the alerts of the rule that people judged not an anomaly",
}


@command(
    "feedback",
    "How people judged each rule's alerts, with a suggested setting for rules that are mostly wrong.",
    needs=Needs.STATE,
    topic=Topic.ALERTS,
    examples=("feedback 30d",),
    figures=_FEEDBACK_FIGURES,
)
async def feedback(
    ports: Ports,
    request: Request,
    window: Window = arg("90d", "alerts that were open in this window"),
) -> Card:
    """Count useful and wrong alerts by rule.

    Suggest a line for rules that are mostly wrong, and change nothing.
    """
    judged = await asyncio.to_thread(_feedback_judged, ports, window)
    policy = await asyncio.to_thread(lambda: ports.policy)
    return feedback_card(scores(judged, policy.values), window)


def _feedback_judged(ports: Ports, window: Window) -> list[tuple[Alert, Decision]]:
    alerts = {alert.id: alert for alert in ports.stores.alerts.history(window, Labels())}
    return [
        (alerts[decision.alert], decision)
        for decision in ports.stores.alerts.decisions(*alerts)
        if decision.doing in _JUDGED
    ]


def _quiet(silence: Silence, alerts: Sequence[Alert], request: Request) -> list[Alert]:
    return [
        alert for alert in alerts if alert.firing and silences_alert(silence, alert, request.at)
    ]


_SAVINGS_COLUMNS = (
    Heading("stopped"),
    Heading("where"),
    Heading("because"),
    Heading("$/h", Align.RIGHT),
    Heading("not lost since", Align.RIGHT),
)


def savings_card(savings: Sequence[Saving], window: Window) -> Card:
    """List the savings of a window, dearest first."""
    per_hour = sum((saving.usd_per_hour for saving in savings), Decimal(0))
    so_far = sum((saving.usd_so_far for saving in savings), Decimal(0))
    data = {
        "savings": [_savings_data(saving) for saving in savings],
        "usd_per_hour": per_hour,
        "usd_so_far": so_far,
        "estimate": True,
    }
    if not savings:
        none = text(
            "No alert ended in this time after somebody acknowledged it or took its nodes away."
        )
        return Card(f"Nothing saved · {period(window)}", Tone.INFO, (none,), data)
    rest = f"and {counted(len(savings) - _MOST, 'more alert')}" if len(savings) > _MOST else ""
    totals = ("total", "", "", usd(per_hour), usd(so_far))
    how = quiet(
        "Estimated: each alert's waste an hour when it ended, counted from its end until now or until the end of that month, ",
        "as if nobody had acted. Waste that would have ended by itself is included.",
    )
    title = f"About {usd(per_hour)} an hour stopped: {counted(len(savings), 'alert')} ended after somebody acted · {period(window)}"
    table = Table(
        _SAVINGS_COLUMNS,
        tuple(_savings_row(saving) for saving in savings[:_MOST]),
        totals,
        rest=rest,
    )
    return Card(title, Tone.GOOD, (table, how, Buttons((Button("Alerts", "alerts"),))), data)


def _savings_row(saving: Saving) -> tuple[str, ...]:
    because = f"acknowledged by {saving.by}" if saving.by else "its nodes are gone"
    return (
        saving.alert.cause.facts.words,
        where(saving.alert),
        because,
        usd(saving.usd_per_hour),
        usd(saving.usd_so_far),
    )


def _savings_data(saving: Saving) -> dict[str, object]:
    alert = saving.alert
    return {
        "id": alert.id,
        "key": alert.key,
        "seen_at": alert.seen,
        "closed_at": alert.closed,
        "by": saving.by,
        "usd_per_hour": saving.usd_per_hour,
        "usd_so_far": saving.usd_so_far,
    }


_SAVINGS_FIGURES = {
    "savings/usd_per_hour": "waste an hour of the alert at its peak",
    "savings/usd_so_far": (
        "waste an hour x hours since the alert was last seen until now, or until the end of"
        " that UTC month"
    ),
    "usd_per_hour": "sum over the alerts listed",
    "usd_so_far": "sum over the alerts listed",
}


@command(
    "savings",
    "Waste that stopped because somebody acted (estimated).",
    needs=Needs.STATE | Needs.METRICS,
    topic=Topic.COSTS,
    examples=("savings", "savings 7d"),
    figures=_SAVINGS_FIGURES,
)
async def savings_(
    ports: Ports, request: Request, window: Window = arg("30d", "alerts that ended in this window")
) -> Card:
    """List the alerts that ended after they were acknowledged, or whose nodes are gone since."""
    history = await asyncio.to_thread(ports.stores.alerts.history, window, Labels())
    reading = await asyncio.to_thread(ports.world.source.read, request.at)
    return savings_card(
        saved_within(history, window, reading.inventory.running, request.at), window
    )
