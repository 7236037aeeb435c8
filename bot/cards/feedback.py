"""Show what people muted, and how they judged each rule."""

from __future__ import annotations

from collections.abc import Sequence

from bot.alerts.feedback import Score
from bot.cards.alert_words import cause_words, where
from bot.cards.card import Align, Block, Button, Buttons, Card, Code, Column, Strong, Table, Tone, quiet, text
from bot.cards.decided import pattern_words
from bot.cards.money import usd
from bot.cards.words import clock, counted, period
from bot.model.alert import Alert, Silence
from bot.model.window import Window

_COLUMNS = (Column("muted"), Column("how"), Column("by"), Column("until"), Column("quiet now", Align.RIGHT), Column("id"))
_SCORES = (Column("rule"), Column("useful", Align.RIGHT), Column("wrong", Align.RIGHT), Column("right", Align.RIGHT))
_MOST = 12

Muted = tuple[Silence, Alert | None, Sequence[Alert]]
"""A silence, the one opening it is about (None: a pattern), and the firing alerts it keeps quiet."""


def silences_card(rows: Sequence[Muted]) -> Card:
    """List silences, those that keep the most quiet first."""
    ranked = sorted(rows, key=lambda row: (-len(row[2]), row[0].ends))
    data = {"silences": [_data(*row) for row in ranked]}
    if not rows:
        return Card("Nothing is muted by anybody", Tone.GOOD, (text("No snooze and no pattern holds now."),), data)
    table = Table(_COLUMNS, tuple(_row(*row) for row in ranked[:_MOST]), rest=_rest(len(ranked)))
    buttons = Buttons(tuple(Button(f"Drop {row[0].id}", f"silences drop {row[0].id}") for row in ranked[:4]))
    held = sum(len(row[2]) for row in rows)
    title = f"{counted(len(rows), 'silence')}, {counted(held, 'firing alert')} quiet"
    how = quiet("A pattern mutes what is of the same rule and place at its level; what is worse or dearer speaks.")
    return Card(title, Tone.INFO, (table, how, buttons), data)


def dropped_card(silence: Silence) -> Card:
    """Confirm that a silence is over."""
    words = quiet(f"{_what(silence, None)}, {_how(silence)}, by {silence.who}")
    return Card(f"{silence.id} is dropped: it speaks again", Tone.GOOD, (words,), {"silence": silence.id})


def feedback_card(found: Sequence[Score], window: Window) -> Card:
    """Show useful and wrong by rule; suggestions are lines to press, nothing is changed by itself."""
    useful, wrong = sum(one.useful for one in found), sum(one.wrong for one in found)
    data = {"rules": [_score_data(one) for one in found], "useful": useful, "wrong": wrong}
    if not found:
        none = text(
            "Press ",
            Strong("Not an anomaly"),
            " on a wrong alert; ",
            Strong("Useful"),
            " stands on the answer to ",
            Code("why ID"),
            ".",
        )
        return Card(f"Nobody judged an alert · {period(window)}", Tone.INFO, (none,), data)
    rows = tuple((one.rule, str(one.useful), str(one.wrong), f"{one.precision:.0%}") for one in found[:_MOST])
    blocks: list[Block] = [Table(_SCORES, rows, rest=_rest(len(found)))]
    lines = [one for one in found if one.suggestion][:4]
    blocks += [text(f"{one.rule} is mostly wrong; try ", Code(one.suggestion)) for one in lines]
    blocks += [Buttons(tuple(Button(f"Try: {one.rule}"[:40], one.suggestion) for one in lines))] if lines else []
    blocks.append(quiet("Judgements change no threshold by themselves; a suggestion is previewed before it is applied."))
    return Card(f"{useful} useful, {wrong} wrong · {period(window)}", Tone.INFO, tuple(blocks), data)


def _rest(n: int) -> str:
    return f"and {n - _MOST} more" if n > _MOST else ""


def _row(silence: Silence, alert: Alert | None, held: Sequence[Alert]) -> tuple[str, ...]:
    by = silence.who
    return _what(silence, alert), _how(silence), by, f"{clock(silence.ends)} UTC", str(len(held)), silence.id


def _what(silence: Silence, alert: Alert | None) -> str:
    """Say what is muted: `starved · llama, 64 x trn1.32xlarge, us-west-2`."""
    if silence.pattern:
        place = " ".join(value for _, value in silence.pattern.scope)
        return " · ".join(part for part in (silence.pattern.rule, place) if part)
    return f"{cause_words(alert.cause)} · {where(alert)}" if alert else silence.alert or str(silence.selector)


def _how(silence: Silence) -> str:
    """Say how it is muted: `snoozed up to $5,000: moving the data`, or `not an anomaly at 4 to 6 %`."""
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
        "quiet": [one.id for one in held],
    }


def _score_data(one: Score) -> dict[str, object]:
    return {
        "rule": one.rule,
        "useful": one.useful,
        "wrong": one.wrong,
        "precision": round(one.precision, 4),
        "suggestion": one.suggestion,
    }
