"""Write spans as Adaptive Card text.

Runs where nothing is interpreted, escaped markdown only to mention someone.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from bot.cards.card import Code, Link, Mention, Span, Strong, Style, Text, When

_AT = re.compile(r"<\s*+(/?)\s*+at\b", re.IGNORECASE)  # possessive: a run of spaces is read once
_MARKS = re.compile(r"([\\`*\[\]<>~#|!])")
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_LIST = re.compile(r"^([^\S\n]*+)([-+=]|\d++(?=[.)]))", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_GAP = "\u200b"


def bare(text: str) -> str:
    """Return text for a `TextRun`, which knows no markdown.

    Only mentions and card functions are taken apart.
    """
    calm = _CONTROL.sub("\ufffd", text)
    return _AT.sub(rf"<{_GAP}\1at", calm).replace("{{", "{" + _GAP + "{")


def escape(text: str) -> str:
    """Return text for a `TextBlock` or a fact, which are read as markdown.

    Every mark stands for itself.
    """
    marked = _UNDERSCORE.sub(r"\\_", _MARKS.sub(r"\\\1", bare(text)))
    return _LIST.sub(rf"\1{_GAP}\2", marked)


def short(text: str, most: int) -> str:
    """Return at most `most` characters, the last of them an ellipsis where something was cut."""
    return text if len(text) <= most else text[: most - 1] + "…"


Json = dict[str, Any]

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
        name = short(_tame(mention.name) or "someone", _NAME_MOST)
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
        return {"type": "TextBlock", "text": words, "wrap": True, **_look(block.style)}
    return runs(block.spans, block.style)


def runs(
    spans: tuple[Span, ...], style: Style = Style.NORMAL, *, align: str = "left", bold: bool = False
) -> Json:
    """Draw spans as a `RichTextBlock`, cut at `TEXT_MOST` characters."""
    inlines: list[Json] = []
    left = TEXT_MOST
    for span in spans[:_SPANS_MOST]:
        run = _run(span, left) | _look(style) | ({"weight": "bolder"} if bold else {})
        left -= len(run["text"])
        if run["text"]:
            inlines.append({"type": "TextRun", **run})
        if left <= 0:
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
            shown = {"text": _cut(text, most), "color": "accent"}
            return (
                shown | {"selectAction": {"type": "Action.OpenUrl", "url": url}}
                if url.startswith(_LINKS)
                else shown
            )


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


def _tame(name: str) -> str:
    """Return a person's name of letters and digits, for any other sign could end the mention or format it."""
    return " ".join("".join(c if c.isalnum() or c in ".-'@" else " " for c in bare(name)).split())


def _look(style: Style) -> Json:
    match style:
        case Style.NORMAL:
            return {}
        case Style.QUIET:
            return {"isSubtle": True, "size": "small"}
        case Style.LEAD:
            return {"size": "medium"}
