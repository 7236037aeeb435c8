"""Write a form as inputs and a button as `Action.Execute`.

Read a press back as the line it stands for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from adapters.teams.markup import OURS, bare, escape, short, words
from bot.cards.card import Buttons, ButtonStyle, Field, FieldKind, Form
from bot.cards.lines import form_line

Json = dict[str, Any]

VERB = "line"
LINE_MOST = 4000
_FIELDS_MOST = 40
_NAME_MOST = 100
_VALUE_MOST = 1000
_ROW = 6  # Teams shows six actions of a set and drops the rest
_PEOPLE = {"type": "Data.Query", "dataset": "graph.microsoft.com/users?scope=currentContext"}
"""Those who read the conversation.

Learn.microsoft.com, "People Picker in Adaptive Cards", read 2026-11-22.
"""
_STYLES = {ButtonStyle.PRIMARY: "positive", ButtonStyle.DANGER: "destructive"}


def button_sets(block: Buttons, *, stands: bool) -> list[Json]:
    """Draw buttons, six a row; `stands` marks a message that a press must not replace."""
    actions = [
        _action(b.text, {"line": b.line}, b.style, stands)
        for b in block.buttons
        if len(b.line) <= LINE_MOST
    ]
    return [
        {"type": "ActionSet", "actions": actions[i : i + _ROW]}
        for i in range(0, len(actions), _ROW)
    ]


def form_elements(form: Form, number: int, *, stands: bool) -> list[Json]:
    """Draw a form; input ids carry the form's number, so that two forms on one card stay apart."""
    names = [f.name for f in form.fields]
    people = {
        f.name: [value for value, _ in f.options] for f in form.fields if f.kind is FieldKind.PERSON
    }
    data = {"line": form.line, "form": number, "fields": names} | (
        {"people": people} if people else {}
    )
    submit = _action(form.submit, data, ButtonStyle.PRIMARY, stands)
    inputs = [_input(f, _id(number, f.name)) for f in form.fields]
    return [words(form.title, bold=True), *inputs, {"type": "ActionSet", "actions": [submit]}]


def pressed_line(data: object) -> str:
    """Return the line that a press or a submitted form stands for, "" when it is none of ours."""
    if not isinstance(data, Mapping) or not isinstance(data.get("line"), str):
        return ""
    line = str(data["line"])[:LINE_MOST]
    names = data.get("fields")
    return (
        form_line(line, dict(_filled(data, names[:_FIELDS_MOST])))
        if isinstance(names, list)
        else line
    )


def stands(data: object) -> bool:
    """Return whether the press came from a message that must keep its card."""
    return isinstance(data, Mapping) and data.get("stands") is True


def _filled(data: Mapping[str, object], names: Sequence[object]) -> Iterator[tuple[str, str]]:
    listed = data.get("people")
    people = listed if isinstance(listed, Mapping) else {}
    for name in names:
        value = data.get(_id(data.get("form"), name))
        if (
            isinstance(name, str)
            and len(name) <= _NAME_MOST
            and isinstance(value, str | int | float)
        ):
            yield (
                name,
                _picked(value, people[name])
                if name in people and isinstance(value, str)
                else _said(value),
            )


def _picked(value: str, offered: object) -> str:
    """Return a person as a line names them.

    One of those offered, else whom Teams gives by an id of its own.
    """
    said = _said(value)
    return said if not said or (isinstance(offered, list) and value in offered) else f"{OURS}{said}"


def _said(value: str | float) -> str:
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
            return _person(field, shared)
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
    choices = [
        {"title": short(bare(label), 100) or value, "value": value}
        for value, label in field.options[:100]
    ]
    picked = field.value if field.value in {value for value, _ in field.options} else None
    return {
        "type": "Input.ChoiceSet",
        "style": "compact",
        "choices": choices,
        **shared,
        **_hint(field),
        **_start(picked),
    }


def _person(field: Field, shared: Json) -> Json:
    """Draw a picker of the people of the conversation.

    Whoever the bot knows may be chosen where there is none.
    """
    return {**_choice(field, shared), "style": "filtered", "choices.data": dict(_PEOPLE)}


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
