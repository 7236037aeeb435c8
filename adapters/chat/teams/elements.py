"""Write texts, buttons and forms as elements of an Adaptive Card, and read a press as its line.

Text is written as runs, where nothing is interpreted; as escaped markdown only to mention someone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from adapters.chat.config import Json
from bot.cards.card import (
    Buttons,
    ButtonStyle,
    Code,
    Field,
    FieldKind,
    Form,
    Link,
    Mention,
    Span,
    Strong,
    Style,
    Text,
    When,
)
from bot.cards.lines import form_line, visible
from bot.cards.words import short

_AT = re.compile(r"<\s*+(/?)\s*+at\b", re.IGNORECASE)  # possessive: a run of spaces is read once
_MARKS = re.compile(r"([\\`*\[\]<>~#|!])")
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_LIST = re.compile(r"^([^\S\n]*+)([-+=]|\d++(?=[.)]))", re.MULTILINE)
_GAP = "\u200b"


def bare(text: str) -> str:
    """Return text for a `TextRun`, which knows no markdown.

    Only mentions and card functions are taken apart.
    """
    return _AT.sub(rf"<{_GAP}\1at", visible(text)).replace("{{", "{" + _GAP + "{")


def escape(text: str) -> str:
    """Return text for a `TextBlock` or a fact, which are read as markdown.

    Every mark stands for itself.
    """
    marked = _UNDERSCORE.sub(r"\\_", _MARKS.sub(r"\\\1", bare(text)))
    return _LIST.sub(rf"\1{_GAP}\2", marked)


OURS = "teams:"
TEXT_MOST = 4000
_SPANS_MOST = 60
_NAME_MOST = 40
_ID_MOST = 200
_LINKS = ("https://", "http://")


class Mentions:
    """Collect whom a card pings.

    Teams refuses a card whose entity has no matching text, and the other way round.
    """

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}
        self._marked: dict[str, Json] = {}

    def mark(self, mention: Mention) -> str:
        """Return the text that Teams turns into a ping, different for two people of one name."""
        user = mention.user.removeprefix(OURS)
        # Of letters and digits, for any other sign could end the mention or format it.
        signs = (sign if sign.isalnum() or sign in ".-'@" else " " for sign in bare(mention.name))
        name = short(" ".join("".join(signs).split()) or "someone", _NAME_MOST)
        while self._ids.setdefault(name, user) != user:
            name += "'"
        text = f"<at>{name}</at>"
        self._marked[text] = {
            "type": "mention",
            "text": text,
            "mentioned": {"id": user, "name": name},
        }
        return text

    def take(self) -> list[Json]:
        """Return the entities marked since the last call."""
        marked, self._marked = list(self._marked.values()), {}
        return marked


def pings(mention: Mention) -> bool:
    """Return whether Teams knows the person."""
    return mention.user.startswith(OURS) and len(mention.user) <= _ID_MOST


def paragraph(block: Text, mentions: Mentions) -> Json:
    """Draw one paragraph.

    Runs, or a `TextBlock` when it pings (Teams reads mentions only there and in facts).
    """
    if any(isinstance(span, Mention) and pings(span) for span in block.spans[:_SPANS_MOST]):
        words = "".join(_markdown(span, mentions) for span in block.spans[:_SPANS_MOST])
        return {"type": "TextBlock", "text": words, "wrap": True, **_LOOKS[block.style]}
    return runs(block.spans, block.style)


def runs(
    spans: tuple[Span, ...], style: Style = Style.NORMAL, *, align: str = "left", bold: bool = False
) -> Json:
    """Draw spans as a `RichTextBlock`, cut at `TEXT_MOST` characters."""
    inlines: list[Json] = []
    room = TEXT_MOST
    for span in spans[:_SPANS_MOST]:
        run = _run(span, room) | _LOOKS[style] | ({"weight": "bolder"} if bold else {})
        room -= len(run["text"])
        if run["text"]:
            inlines.append({"type": "TextRun", **run})
        if room <= 0:
            break
    block: Json = {
        "type": "RichTextBlock",
        "inlines": inlines or [{"type": "TextRun", "text": " "}],
    }
    return block if align == "left" else block | {"horizontalAlignment": align}


def words(
    text: str, style: Style = Style.NORMAL, *, align: str = "left", bold: bool = False
) -> Json:
    """Draw bare words as a `RichTextBlock`."""
    return runs((text,), style, align=align, bold=bold)


def _run(span: Span, most: int) -> Json:
    """Return the properties of one run."""
    match span:
        case str():
            return {"text": _cut(span, most)}
        case Strong(text=text):
            return {"text": _cut(text, most), "weight": "bolder"}
        case Code(text=text):
            return {"text": _cut(text, most), "fontType": "monospace"}
        case When(at=at):
            return {"text": _instant(at)}
        case Mention(name=name):
            return {"text": _cut(f"@{name}", most)}
        case Link(text=text, url=url):
            opens = {"selectAction": {"type": "Action.OpenUrl", "url": url}}
            run = {"text": _cut(text, most), "color": "accent"}
            return run | opens if url.startswith(_LINKS) else run


def _markdown(span: Span, mentions: Mentions) -> str:
    """Return one span as the markdown of a `TextBlock`."""
    match span:
        case str():
            return escape(short(span, TEXT_MOST))
        case Strong(text=text):
            return f"**{escape(text.strip())}**" if text.strip() else ""
        case Code(text=text):
            return escape(text)
        case When(at=at):
            return _instant(at)
        case Mention(name=name):
            return mentions.mark(span) if pings(span) else escape(f"@{name}")
        case Link(text=text, url=url):
            safe = url.replace("(", "%28").replace(")", "%29").replace(" ", "%20")
            return f"[{escape(text)}]({safe})" if url.startswith(_LINKS) else escape(text)


def _instant(at: datetime) -> str:
    """Return the card functions that show an instant in the reader's zone."""
    iso = f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return f"{{{{DATE({iso}, SHORT)}}}} {{{{TIME({iso})}}}}"


def _cut(text: str, most: int) -> str:
    return bare(short(text, max(1, most)))


_LOOKS: dict[Style, Json] = {
    Style.NORMAL: {},
    Style.QUIET: {"isSubtle": True, "size": "small"},
    Style.DETAIL: {"isSubtle": True, "size": "small"},
    Style.LEAD: {"size": "medium"},
}


VERB = "line"
LINE_MOST = 4000
_FIELDS_MOST = 40
_FIELD_NAME_MOST = 100
_VALUE_MOST = 1000
ROW_MOST = 6
"""Actions that Teams shows of a set; it drops the rest."""
_ROW_WIDTH, _BUTTON_EDGE, _BUTTON_LETTER = 326, 34, 8
"""Pixels of a row on a phone 390 wide, of a button beside its words, and of one of their letters."""
_PEOPLE = {"type": "Data.Query", "dataset": "graph.microsoft.com/users?scope=currentContext"}
"""Those who read the conversation.

Learn.microsoft.com, "People Picker in Adaptive Cards", read 2026-11-22.
"""
_STYLES = {ButtonStyle.PRIMARY: "positive", ButtonStyle.DANGER: "destructive"}


def button_sets(block: Buttons, *, stands: bool) -> list[Json]:
    """Draw rows of buttons; `stands` marks a message that a press must not replace."""
    return action_rows(
        [
            _action(b.text, {"line": b.line}, b.style, stands)
            for b in block.buttons
            if len(b.line) <= LINE_MOST
        ]
    )


def action_rows(actions: Sequence[Json]) -> list[Json]:
    """Return actions in rows that a phone shows whole, as Teams cuts off all beyond its edge."""
    rows: list[list[Json]] = []
    room = 0
    for action in actions:
        width = _BUTTON_EDGE + _BUTTON_LETTER * len(action["title"])
        if room < width or len(rows[-1]) == ROW_MOST:
            rows.append([])
            room = _ROW_WIDTH
        rows[-1].append(action)
        room -= width
    return [{"type": "ActionSet", "actions": row} for row in rows]


def form_elements(form: Form, number: int, *, stands: bool) -> list[Json]:
    """Draw a form; input ids carry the form's number, so that two forms on one card stay apart."""
    people = {
        f.name: [value for value, _ in f.options] for f in form.fields if f.kind is FieldKind.PERSON
    }
    data = {"line": form.line, "form": number, "fields": [f.name for f in form.fields]} | (
        {"people": people} if people else {}
    )
    return [
        words(form.title, bold=True),
        *[_input(f, _id(number, f.name)) for f in form.fields],
        {"type": "ActionSet", "actions": [_action(form.submit, data, ButtonStyle.PRIMARY, stands)]},
    ]


def pressed_line(data: object) -> str:
    """Return the line that a press or a submitted form stands for, "" when it is none of ours."""
    if not isinstance(data, Mapping) or not isinstance(data.get("line"), str):
        return ""
    line, names = str(data["line"])[:LINE_MOST], data.get("fields")
    if not isinstance(names, list):
        return line

    filled: dict[str, str] = {}
    listed = data.get("people")
    people = listed if isinstance(listed, Mapping) else {}
    for name in names[:_FIELDS_MOST]:
        value = data.get(_id(data.get("form"), name))
        usable = isinstance(name, str) and len(name) <= _FIELD_NAME_MOST
        if not usable or not isinstance(value, str | int | float):
            continue
        filled[name] = _typed(value)
        # A person who was not offered is one whom Teams gives by an id of its own.
        if name in people and isinstance(value, str) and filled[name]:
            offered = people[name]
            if not (isinstance(offered, list) and value in offered):
                filled[name] = f"{OURS}{filled[name]}"
    return form_line(line, filled)


def stands(data: object) -> bool:
    """Return whether the press came from a message that must keep its card."""
    return isinstance(data, Mapping) and data.get("stands") is True


def _typed(value: str | float) -> str:
    """Return an input's value as a person would type it; Teams sends numbers as numbers or text."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:.10g}"
    return " ".join(str(value)[:LINE_MOST].split())[:_VALUE_MOST]


def _id(number: object, name: object) -> str:
    return f"f{number}.{name}"


def _action(text: str, data: Json, style: ButtonStyle, stands: bool) -> Json:
    title = short(bare(text), 80) or "…"
    carried = data | {"stands": True} if stands else data
    action: Json = {"type": "Action.Execute", "title": title, "verb": VERB, "data": carried}
    return action | {"style": _STYLES[style]} if style in _STYLES else action


def _input(field: Field, name: str) -> Json:
    """Draw one input."""
    label = short(bare(field.label or field.name), 200)
    shared: Json = {"id": name, "label": label}
    if field.required:
        shared |= {"isRequired": True, "errorMessage": f"{label}: please fill this in."}
    match field.kind:
        case FieldKind.CHOICE:
            return _choice(field, shared)
        case FieldKind.PERSON:
            # The people of the conversation; where there are none, whoever the bot knows.
            picker = {"style": "filtered", "choices.data": dict(_PEOPLE)}
            return {**_choice(field, shared), **picker}
        case FieldKind.SWITCH:
            on = field.value.lower() in ("on", "true", "yes")
            title = escape(short(field.hint or field.label or field.name, 200))
            if not field.hint:
                del shared["label"]  # the title says it
            ends = {"valueOn": "on", "valueOff": "off", "value": "on" if on else "off"}
            return {"type": "Input.Toggle", "title": title or "on", **shared, **ends}
        case FieldKind.NUMBER if _number(field.value) is not None or not field.value:
            return {
                "type": "Input.Number",
                **shared,
                **_hint(field),
                **_start(_number(field.value)),
            }
        case FieldKind.TEXT | FieldKind.NUMBER | FieldKind.WHEN:
            return {
                "type": "Input.Text",
                **shared,
                **_hint(field),
                **_start(bare(field.value) or None),
                "maxLength": _VALUE_MOST,
            }


def _choice(field: Field, shared: Json) -> Json:
    picked = field.value if field.value in {value for value, _ in field.options} else None
    return {
        "type": "Input.ChoiceSet",
        "style": "compact",
        "choices": [
            {"title": short(bare(label), 100) or value, "value": value}
            for value, label in field.options[:100]
        ],
        **shared,
        **_hint(field),
        **_start(picked),
    }


def _hint(field: Field) -> Json:
    return {"placeholder": short(bare(field.hint), 200)} if field.hint else {}


def _start(value: str | float | None) -> Json:
    return {} if value is None else {"value": value}


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
