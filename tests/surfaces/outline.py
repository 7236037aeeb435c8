"""Write what a chat shows as a few lines of text, alike for Slack's blocks and Teams' elements, so that a reader can compare them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import chain
from typing import Any

Json = Mapping[str, Any]
WIDTH, LINES = 150, 14
"""Characters of a line, and lines of one message: what tells it from another."""
TONES = {"🔴": "attention", "⚠️": "attention", "🟠": "warning", "⚪": "emphasis", "🟢": "good"}
"""Teams' style of a title by the sign that Slack puts before it; `accent` is that of none."""


def cut(text: str, most: int = WIDTH) -> str:
    line = re.sub("[\u200b\u200c]", "", " ".join(text.split()))
    return line if len(line) <= most else f"{line[: most - 1]}…"


def shortened(lines: Sequence[str]) -> list[str]:
    """Keep the first lines and every control."""
    kept = [line for n, line in enumerate(lines) if n < LINES or line.startswith(("[", "("))]
    left = len(lines) - len(kept)
    return [*kept, *([f"... {left} more lines"] if left else [])]


def of_blocks(blocks: Sequence[Json]) -> list[str]:
    """Return the outline of Slack's blocks."""
    lines = [cut(dated(line)) for block in blocks for line in _of_block(block)]
    buttons = [x for block in blocks if block["type"] == "actions" for x in block["elements"]]
    opening = [x["text"]["text"] for x in buttons if x["action_id"].startswith("opens")]
    return [*shortened(lines), *([f"a window opens at {', '.join(opening)}"] if opening else [])]


def dated(text: str) -> str:
    """Write instants alike, whose reader sees them in a zone of their own."""
    text = re.sub(r"<!date\^[^|]*\|(.{16}) UTC>", r"@\1", text)
    date, time = (
        rf"\{{\{{{kind}\((.{{10}})T(.{{5}}):00Z(?:, SHORT)?\)\}}\}}" for kind in ("DATE", "TIME")
    )
    return re.sub(rf"{date} {time}", r"@\1 \2", text)


def _of_block(block: Json) -> Iterator[str]:
    match block["type"]:
        case "header":
            yield f"# {_titled(block['text']['text'])}"
        case "section" if "fields" in block:
            yield from (f"· {field['text']}" for field in block["fields"])
        case "section":
            yield from _marked(block["text"]["text"])
        case "context":
            yield from (f"~ {element['text']}" for element in block["elements"])
        case "image":
            yield f"(picture: {block['alt_text']})"
        case "data_table":
            yield f"(table: {block['caption']}, {len(block['rows']) - 1} rows of {len(block['rows'][0])})"
        case "data_visualization":
            yield f"(chart: {block['title']})"
        case "actions":
            yield from (_button(button) for button in block["elements"])
        case "input":
            yield _input(block)
        case _:
            yield f"?{block['type']}"


def _titled(title: str) -> str:
    sign, _, words = title.partition(" ")
    return f"{TONES[sign]}: {words}" if sign in TONES else f"accent: {title}"


def _marked(text: str) -> Iterator[str]:
    """Yield the lines of mrkdwn, of a monospaced table the head alone, a quiet card's title as a title."""
    sign = text.strip("*").partition(" ")[0]
    if sign in TONES:
        yield f"# {_titled(text.replace('*', ''))}"
        return
    before, _, body = text.partition("```\n")
    rows = [line for line in body.replace("```", "").split("\n") if line]
    yield from filter(None, before.split("\n"))
    if rows:
        yield f"(text table: {re.sub(r'  +', ' | ', rows[0].strip())}; {len(rows) - 2} rows)"


def _button(button: Json) -> str:
    style = f" {button['style']}" if "style" in button else ""
    asks = f" asks '{button['confirm']['text']['text']}'" if "confirm" in button else ""
    return f"[{button['text']['text']}]{style} {button['value']}{asks}"


def _input(block: Json) -> str:
    element, optional = block["element"], " optional" if block.get("optional") else ""
    start = element.get("initial_value") or element.get("initial_option", {}).get("value", "")
    start = start or ("on" if element.get("initial_options") else "")
    choices = ",".join(x["value"] for x in element.get("options", ()))
    hint = f" ({block['hint']['text']})" if "hint" in block else ""
    return f"<{block['block_id']}> {block['label']['text']}: {element['type']} '{start}' {cut(choices, 60)}{optional}{hint}"


def of_view(view: Json) -> list[str]:
    """Return the outline of a modal or of App Home."""
    title = [f"== {view['title']['text']}"] if "title" in view else [f"== {view['type']}"]
    foot = [f"[{view['submit']['text']}] primary, of the window"] if "submit" in view else []
    return [*title, *of_blocks(view["blocks"]), *foot]


def of_card(card: Json) -> list[str]:
    """Return the outline of an Adaptive Card."""
    lines = [cut(dated(line)) for element in card["body"] for line in _of_element(element)]
    pinged = [x["mentioned"]["id"] for x in card.get("msteams", {}).get("entities", ())]
    actions = [x for element in card["body"] for x in element.get("actions", ())]
    stands = any(x.get("data", {}).get("stands") for x in actions)
    return [
        *shortened(lines),
        *([f"pings {', '.join(pinged)}"] if pinged else []),
        *(["a press leaves it as it stands"] if stands else []),
    ]


def _of_element(element: Json) -> Iterator[str]:
    hidden = "hidden: " if element.get("isVisible") is False else ""
    match element["type"]:
        case "Container":
            (head,) = element["items"]
            yield f"# {element['style']}: {_runs(head, title=True)}"
        case "RichTextBlock":
            quiet = "~ " if element["inlines"][0].get("isSubtle") else ""
            yield from (f"{hidden}{quiet}{line}" for line in _runs(element).split("\n"))
        case "TextBlock":
            yield f"{hidden}{element['text']}"
        case "FactSet":
            yield from (f"{hidden}· {x['title']} {x['value']}" for x in element["facts"])
        case "Table":
            rows = [
                [_runs(cell["items"][0], title=True) for cell in row["cells"]]
                for row in element["rows"]
            ]
            yield f"(table: {' | '.join(rows[0])}; {len(rows) - 1} rows)"
        case "Image":
            yield f"(picture: {element['altText']})"
        case "Chart.Line" | "Chart.VerticalBar" | "Chart.VerticalBar.Grouped":
            yield f"(chart: {element['title']})"
        case "ActionSet":
            yield from map(_action, element["actions"])
        case kind if kind.startswith("Input."):
            yield _field(element)
        case kind:
            yield f"?{kind}"


def _runs(block: Json, *, title: bool = False) -> str:
    parts = []
    for run in block["inlines"]:
        lead = run.get("size") == "medium" and not title
        bold = run.get("weight") == "bolder" and not title
        code = run.get("fontType") == "monospace"
        mark = "*" if bold or lead else "`" if code else ""
        parts.append(f"{mark}{run['text']}{mark}" if mark else run["text"])
    return re.sub(r"(\s*)\*(\s*)\Z", r"*", "".join(parts).replace("**", ""))


def _action(action: Json) -> str:
    if action["type"] == "Action.ToggleVisibility":
        return f"[{action['title']}] shows what is hidden"
    style = f" {STYLES[action['style']]}" if "style" in action else ""
    fields = action["data"].get("fields")
    of = f" with {', '.join(fields)}" if fields else ""
    return f"[{action['title']}]{style} {action['data']['line']}{of}"


STYLES = {"positive": "primary", "destructive": "danger"}


def _field(element: Json) -> str:
    choices = ",".join(x["value"] for x in element.get("choices", ()))
    needed = "" if element.get("isRequired") else " optional"
    hint = f" ({element['placeholder']})" if "placeholder" in element else ""
    label = element.get("label") or element.get("title")
    return f"<{element['id']}> {label}: {element['type']} '{element.get('value', '')}' {cut(choices, 60)}{needed}{hint}"


def side_by_side(slack: Sequence[str], teams: Sequence[str]) -> Iterator[str]:
    """Yield lines of both, those that are the same once: `=` both, `S` Slack alone, `T` Teams alone."""
    for kind, a, b, c, d in SequenceMatcher(None, slack, teams, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from (f"  = {line}" for line in slack[a:b])
        else:
            yield from chain(
                (f"  S {line}" for line in slack[a:b]), (f"  T {line}" for line in teams[c:d])
            )
