"""Take people's judgement of an alert.

Useful, or not an anomaly, which is asked back first and can be taken back.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from bot.answers.alerts.alerts import decide, undoable
from bot.answers.alerts.find import KEPT, LENGTH, SURE, WHICH, asking_card, find_alert, needs_asking
from bot.cards.alert_words import pattern_words, where
from bot.cards.card import Card, Code, Field, FieldKind, Form, Strong, Tone, quiet, text
from bot.errors import WrongInput, nearest
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.alert import Alert, DecisionKind, Silence
from bot.model.labels import Labels
from bot.model.money import counted
from bot.model.request import Request
from bot.model.window import Window, parse_duration, rounded_duration, write_duration
from bot.ports import Ports, StateUpdate
from bot.watch.feedback import fits, pattern_of, patterns

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
