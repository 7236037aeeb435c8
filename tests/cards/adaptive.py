"""State what Teams requires of the Adaptive Card elements that the bot draws, as a JSON schema."""

from __future__ import annotations

from typing import Any

MOST_ACTIONS = 6
TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
WORD: dict[str, Any] = {"type": "string"}


def of(kind: str) -> dict[str, Any]:
    """Return a reference to the rules of a kind of element."""
    return {"$ref": f"#/$defs/{kind}"}


def several(rules: dict[str, Any], **bounds: int) -> dict[str, Any]:
    return {"type": "array", "items": rules, "minItems": 1} | bounds


def one_of(*words: str) -> dict[str, Any]:
    return {"enum": list(words)}


def element(kind: str, needs: dict[str, Any], may: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the rules of one type: properties it must have, properties it may have, and no others."""
    rules = {"type": {"const": kind}, **needs, **(may or {})}
    return {
        "type": "object",
        "properties": rules,
        "required": ["type", *needs],
        "additionalProperties": False,
    }


def chart(kind: str, **needs: Any) -> dict[str, Any]:
    axes = dict.fromkeys(("title", "xAxisTitle", "yAxisTitle"), WORD)
    data = {"type": "array", "minItems": 1, "items": {"type": "object"}}
    bounds = {"yMin": {"type": "number"}, "yMax": {"type": "number"}, "colorSet": WORD}
    return element(kind, {"data": data, **axes, **needs}, {**bounds, "fallback": FALLBACK})


FALLBACK = {"anyOf": [{"const": "drop"}, of("element")]}
_LABELLED = {"id": TEXT, "label": WORD}
_ASKED = {"isRequired": {"type": "boolean"}, "errorMessage": WORD, "placeholder": WORD}
_PAIR = {"type": "object", "required": ["title", "value"], "additionalProperties": False}
_PEOPLE = element(
    "Data.Query",
    {
        "dataset": one_of(
            "graph.microsoft.com/users", "graph.microsoft.com/users?scope=currentContext"
        )
    },
)
_ALIGNED = {"horizontalAlignment": one_of("left", "center", "right")}
_LOOKS = {
    "isSubtle": {"type": "boolean"},
    "weight": one_of("default", "lighter", "bolder"),
    "size": one_of("small", "default", "medium", "large", "extraLarge"),
    "fontType": one_of("default", "monospace"),
    "color": one_of("default", "accent", "good", "warning", "attention"),
    "wrap": {"type": "boolean"},
}
_PLACED = {
    "spacing": WORD,
    "separator": {"type": "boolean"},
    "id": TEXT,
    "isVisible": {"type": "boolean"},
}
_BOXED = {
    "style": one_of("default", "emphasis", "good", "attention", "warning", "accent"),
    "bleed": {"type": "boolean"},
}
_ELEMENTS = {
    "TextBlock": element("TextBlock", {"text": TEXT}, _LOOKS | _ALIGNED | _PLACED),
    "RichTextBlock": element(
        "RichTextBlock", {"inlines": several(of("TextRun"))}, _ALIGNED | _PLACED
    ),
    "Container": element("Container", {"items": several(of("element"))}, _BOXED | _PLACED),
    "FactSet": element(
        "FactSet",
        {"facts": several(_PAIR | {"properties": {"title": WORD, "value": WORD}})},
        _PLACED,
    ),
    "Table": element(
        "Table",
        {
            "columns": several({"type": "object", "required": ["width"]}),
            "rows": several(of("TableRow")),
        },
        {
            "showGridLines": {"type": "boolean"},
            "firstRowAsHeader": {"type": "boolean"},
            "fallback": FALLBACK,
        },
    ),
    "Image": element("Image", {"url": TEXT, "altText": WORD}, {"size": WORD, "width": WORD}),
    "ActionSet": element("ActionSet", {"actions": several(of("Action"), maxItems=MOST_ACTIONS)}),
    "Input.Text": element(
        "Input.Text", _LABELLED, _ASKED | {"value": WORD, "maxLength": {"type": "integer"}}
    ),
    "Input.Number": element("Input.Number", _LABELLED, _ASKED | {"value": {"type": "number"}}),
    "Input.ChoiceSet": element(
        "Input.ChoiceSet",
        _LABELLED | {"choices": several(_PAIR | {"properties": {"title": WORD, "value": WORD}})},
        _ASKED
        | {
            "value": WORD,
            "style": one_of("compact", "expanded", "filtered"),
            "choices.data": _PEOPLE,
        },
    ),
    "Input.Toggle": element(
        "Input.Toggle",
        _LABELLED | {"title": WORD, "valueOn": TEXT, "valueOff": TEXT},
        _ASKED | {"value": WORD},
    ),
    "Chart.Line": chart("Chart.Line"),
    "Chart.VerticalBar": chart("Chart.VerticalBar"),
    "Chart.VerticalBar.Grouped": chart("Chart.VerticalBar.Grouped", stacked={"type": "boolean"}),
}
_INSIDE = {
    "TextRun": element("TextRun", {"text": TEXT}, _LOOKS | {"selectAction": of("Action")}),
    "TableRow": element("TableRow", {"cells": several(of("TableCell"))}, {"style": WORD}),
    "TableCell": element("TableCell", {"items": several(of("element"))}),
    "Action.Execute": element(
        "Action.Execute",
        {"title": TEXT, "verb": TEXT, "data": {"type": "object"}},
        {"style": one_of("positive", "destructive", "default")},
    ),
    "Action.OpenUrl": element(
        "Action.OpenUrl", {"url": {"type": "string", "pattern": "^https://"}}, {"title": TEXT}
    ),
    "Action.ToggleVisibility": element(
        "Action.ToggleVisibility", {"title": TEXT, "targetElements": several(TEXT)}
    ),
}


def chosen(*kinds: str) -> dict[str, Any]:
    """Return the rules of an element that is one of these types, by its `type`."""
    by_type = [
        {"if": {"properties": {"type": {"const": kind}}}, "then": of(kind)} for kind in kinds
    ]
    return {
        "type": "object",
        "required": ["type"],
        "properties": {"type": one_of(*kinds)},
        "allOf": by_type,
    }


ADAPTIVE_CARD: dict[str, Any] = {
    **element(
        "AdaptiveCard",
        {"version": one_of("1.5"), "body": several(of("element")), "fallbackText": TEXT},
        {"$schema": WORD, "msteams": {"type": "object"}},
    ),
    "$defs": {
        **_ELEMENTS,
        **_INSIDE,
        "element": chosen(*_ELEMENTS),
        "Action": chosen("Action.Execute", "Action.OpenUrl", "Action.ToggleVisibility"),
    },
}
