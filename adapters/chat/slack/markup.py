"""Write spans as Slack's mrkdwn so that text from data stays text, within Slack's limits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate
from urllib.parse import urlsplit

from adapters.chat.config import Json
from bot.cards.card import Code, Link, Mention, Span, Strong, When
from bot.cards.lines import visible
from bot.model.window import utc_text

_LOOKALIKES = {"*": "∗", "_": "ˍ", "~": "∼", "`": "ˋ"}  # U+2217, U+02CD, U+223C, U+02CB
_MARKUP = re.compile(r"[*~`]|(?<![^\W_])_|_(?![^\W_])")
_EMOJI = re.compile(r":(?=(?:[\d_+'-]*[^\W\d_][\w+'-]*|100|1234):)")
_QUOTE = re.compile(r"^([^\S\n]*)>", re.MULTILINE)
_USER = re.compile(r"slack:(?:T[A-Z0-9]{1,20}/)?([UW][A-Z0-9]{1,20})")
_MARKS = "*`"
_LONGEST_WORD = 200
_LONGEST_MARKED = 390
_LONGEST_URL = 700


def escape_controls(text: str) -> str:
    """Return `text` with the three characters Slack reads as control, escaped."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def bare(text: str) -> str:
    """Return `text` without control characters, and signs that turn the direction of writing."""
    return visible(text.replace("\t", " "))


def one_line(text: str) -> str:
    """Return `text` bare and on one line."""
    return " ".join(bare(text.replace("\n", " ")).split())


def escape(text: str) -> str:
    """Return `text` from data as mrkdwn that shows it and does nothing else."""
    safe = _without_emoji(_QUOTE.sub(r"\1›", bare(text)))
    return escape_controls(_MARKUP.sub(lambda sign: _LOOKALIKES[sign[0]], safe))


def _without_emoji(text: str) -> str:
    """Return `text` with the first colon of each emoji's name replaced by its lookalike U+A789."""
    return _EMOJI.sub("\ua789", text)


def code(text: str) -> str:
    """Return `text` as inline code; nothing inside is markup but the grave accent."""
    safe = escape_controls(one_line(text).replace("`", _LOOKALIKES["`"]))
    return f"`{safe}`" if safe else ""


def strong(text: str) -> str:
    """Return `text` bold."""
    safe = escape(one_line(text))
    return f"*{safe}*" if safe else ""


def user_id(user: str) -> str:
    """Return Slack's id of `slack:U01ALICE` or `slack:T1/U01ALICE`, "" of other surfaces."""
    address = _USER.fullmatch(user)
    return address[1] if address else ""


def when(span: When) -> str:
    """Return an instant in the reader's own zone, UTC where the client is too old to know."""
    seconds, utc = int(span.at.timestamp()), utc_text(span.at)
    return f"<!date^{seconds}^{{date_short_pretty}} {{time}}|{utc}>"


def link(span: Link) -> str:
    """Return a link the bot made; an address that is not http(s) stays text."""
    text = cut(one_line(span.text), _LONGEST_WORD)
    if urlsplit(span.url).scheme not in ("http", "https") or len(span.url) > _LONGEST_URL:
        return escape(text)
    url = escape_controls(re.sub(r"[\s|<>]", lambda sign: f"%{ord(sign[0]):02X}", span.url))
    return f"<{url}|{escape(text).replace('|', '∣')}>"  # U+2223


def mention(span: Mention) -> str:
    """Return a ping where Slack knows the person, else the name."""
    person = user_id(span.user)
    return f"<@{person}>" if person else escape(f"@{cut(one_line(span.name), _LONGEST_WORD)}")


def pieces(spans: Iterable[Span]) -> Iterator[str]:
    """Yield mrkdwn in pieces that may be parted from each other but not cut."""
    for span in _merged(spans):
        match span:
            case str():
                # A cut may part an emoji's colons.
                yield from (escape(part) for part in _words(_without_emoji(bare(span))))
            case Strong(text=text):
                yield from _apart(text, strong)
            case Code(text=text):
                yield from _apart(text, code)
            case When():
                yield when(span)
            case Mention():
                yield mention(span)
            case Link():
                yield link(span)


def join(parts: Iterable[str]) -> str:
    """Return pieces as one text.

    A zero-width space keeps markup apart from a letter, or Slack would not read it.
    """
    joined = ""
    for part in parts:
        left, right = joined[-1:], part[:1]
        glued = (left in _MARKS and (right.isalnum() or right in _MARKS)) or (
            right in _MARKS and left.isalnum()
        )
        joined += f"\u200b{part}" if left and right and glued else part
    return joined


def chunks(spans: Iterable[Span], most: int) -> list[str]:
    """Return mrkdwn texts of up to `most` characters each, cut between words."""
    texts: list[list[str]] = [[]]
    length = 0
    for part in pieces(spans):
        if length + size(part) + 1 > most:
            texts.append([])
            length = 0
        texts[-1].append(part)
        length += size(part) + 1
    return [text for text in (join(parts).strip() for parts in texts) if text]


def size(text: str) -> int:
    """Return the length as Slack counts it: signs beyond the basic plane count twice."""
    return len(text) + sum(sign > "\uffff" for sign in text)


def cut(text: str, most: int) -> str:
    """Return `text`, or its beginning and `…`, no longer than `most`."""
    if size(text) <= most:
        return text
    ends = accumulate(1 + (sign > "\uffff") for sign in text[:most])
    return f"{text[: sum(end < most for end in ends)].rstrip()}…"


def _merged(spans: Iterable[Span]) -> Iterator[Span]:
    """Yield spans with neighbouring texts joined, plain or bold.

    No markup hides between two of them.
    """
    previous: Span = ""
    for span in spans:
        if isinstance(previous, str) and isinstance(span, str):
            previous += span
        elif isinstance(previous, Strong) and isinstance(span, Strong):
            previous = Strong(previous.text + span.text)
        else:
            yield previous
            previous = span
    yield previous


def _apart(text: str, draw: Callable[[str], str]) -> Iterator[str]:
    """Yield drawn pieces of a long text, with the spaces at its ends outside the markup."""
    if text[:1].isspace():
        yield " "
    for part in _words(one_line(text), _LONGEST_MARKED):
        yield draw(part.strip())
        if part[-1:].isspace():
            yield " "
    if text[-1:].isspace():
        yield " "


def _words(text: str, most: int = _LONGEST_WORD) -> Iterator[str]:
    """Yield runs of up to `most` characters, cut at spaces where there are some."""
    start = 0
    while len(text) - start > most:
        end = (
            max(text.rfind(" ", start, start + most), text.rfind("\n", start, start + most)) + 1
            or start + most
        )
        yield text[start:end]
        start = end
    yield text[start:]


_OURS = re.compile(r"<[^<>]*>")
_LINKED = re.compile(r"://|www\.|mailto:|[#@]\w|\w\.[^\W\d_]{2}")


def plain_text(text: str, most: int) -> Json:
    """Return a plain_text object, where Slack reads no markup; no emoji names either."""
    return {"type": "plain_text", "text": cut(one_line(text), most) or "-", "emoji": False}


def mrkdwn_object(text: str) -> Json:
    """Return a mrkdwn object.

    Where the text holds an address or a name Slack would link by itself, `verbatim` keeps it text.

    Only there, because some clients and renderers take `verbatim` to mean that nothing at all is
    formatted.
    """
    drawn: Json = {"type": "mrkdwn", "text": text}
    return {**drawn, "verbatim": True} if _LINKED.search(_OURS.sub("", text)) else drawn


def section(text: str) -> Json:
    """Return a section of mrkdwn."""
    return {"type": "section", "text": mrkdwn_object(text)}


def context(texts: Sequence[str]) -> Json:
    """Return a context block, small and grey."""
    return {"type": "context", "elements": [mrkdwn_object(text) for text in texts]}


# Slack's limits, those of one element on a line.
BLOCKS, TOTAL, FALLBACK = 50, 13_000, 3_000
HEADER, SECTION, CONTEXT_ELEMENTS, ALT_TEXT = 150, 3_000, 10, 2_000
FIELDS, FIELD = 10, 2_000
BUTTONS, BUTTON_TEXT, BUTTON_VALUE = 25, 75, 2_000
CONFIRM_TITLE, CONFIRM_TEXT, CONFIRM_BUTTON = 100, 300, 30
VIEW_BLOCKS, VIEW_TITLE, VIEW_BUTTON, VIEW_METADATA = 100, 24, 24, 3_000
LABEL, PLACEHOLDER, INPUT = 2_000, 150, 3_000
OPTIONS, OPTION_TEXT, OPTION_VALUE = 100, 75, 150


_NOTE_LENGTH = 700


class Rank(IntEnum):
    """Order blocks by how willingly they are dropped: the first paragraph never, buttons late."""

    NEVER = 0
    LATE = 1
    FIRST = 2


@dataclass(frozen=True)
class SizeUnit:
    """Hold one Slack block, its name for when it is left out, and its rank."""

    name: str
    block: Json
    rank: Rank


def fit(units: Sequence[SizeUnit], most: int) -> list[Json]:
    """Return up to `most` blocks within Slack's total, dropped from the last by rank.

    The last one names the dropped.
    """
    fitting = list(units)
    lengths = [_length(unit.block) for unit in units]
    dropped: list[SizeUnit] = []
    while (
        len(fitting) + bool(dropped) > most or sum(lengths) + _NOTE_LENGTH * bool(dropped) > TOTAL
    ):
        rank = max(unit.rank for unit in fitting)
        if rank is Rank.NEVER:
            break
        last = max(n for n, unit in enumerate(fitting) if unit.rank is rank)
        lengths.pop(last)
        dropped.insert(0, fitting.pop(last))

    blocks = [unit.block for unit in fitting]
    if not dropped:
        return blocks
    names = ", ".join(dict.fromkeys(unit.name for unit in dropped))
    note = cut(f"Left out, too long for one Slack message: {names}.", 300)
    return [*blocks, context([cut(escape(note), 600)])]


def _length(block: Json) -> int:
    """Return the length of the block as JSON, the strictest reading of the undocumented total."""
    written = json.dumps(block, ensure_ascii=False)
    return size(written.replace('\\"', '"').replace("\\n", " ").replace("\\\\", " ")) + 2
