"""Write spans as Slack's mrkdwn so that text from data stays text, and make the small objects of Block Kit.

Slack has no escape for `* _ ~` and the grave accent. Where one of them could begin or end markup it
is replaced by the sign of another script that looks like it, so that nothing from data is ever read
as markup; inside words (`cold_cache`) Slack reads none, and the sign stays. Text objects are sent
`verbatim`, so that addresses and `#names` are not linked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any
from urllib.parse import urlsplit

from bot.cards.card import Code, Link, Mention, Span, Strong, When

_LOOKALIKES = {"*": "∗", "_": "ˍ", "~": "∼", "`": "ˋ"}  # U+2217, U+02CD, U+223C, U+02CB
_MARKUP = re.compile(r"[*~`]|(?<![^\W_])_|_(?![^\W_])")
_EMOJI = re.compile(r":(?=(?:[\d_+'-]*[^\W\d_][\w+'-]*|100|1234):)")
_QUOTE = re.compile(r"^([^\S\n]*)>", re.MULTILINE)
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]"
)
_USER = re.compile(r"slack:(?:T[A-Z0-9]{1,20}/)?([UW][A-Z0-9]{1,20})")
_LONGEST_WORD = 200
_LONGEST_MARKED = 390
_LONGEST_URL = 700


def escape_controls(text: str) -> str:
    """Return `text` with the three characters Slack reads as control, escaped."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def bare(text: str) -> str:
    """Return `text` without control characters and without signs that turn the direction of writing."""
    return _CONTROL.sub("", text.replace("\t", " "))


def one_line(text: str) -> str:
    """Return `text` bare and on one line."""
    return " ".join(bare(text.replace("\n", " ")).split())


def escape(text: str) -> str:
    """Return `text` from data as mrkdwn that shows it and does nothing else."""
    shown = _without_emoji(_QUOTE.sub(r"\1›", bare(text)))
    return escape_controls(_MARKUP.sub(lambda sign: _LOOKALIKES[sign[0]], shown))


def _without_emoji(text: str) -> str:
    """Return `text` with the first colon of each emoji's name replaced by U+A789, which looks like it."""
    return _EMOJI.sub("\ua789", text)


def code(text: str) -> str:
    """Return `text` as inline code; nothing inside is markup but the grave accent."""
    shown = escape_controls(one_line(text).replace("`", _LOOKALIKES["`"]))
    return f"`{shown}`" if shown else ""


def strong(text: str) -> str:
    """Return `text` bold."""
    shown = escape(one_line(text))
    return f"*{shown}*" if shown else ""


def user_id(user: str) -> str:
    """Return Slack's own id of `slack:U01ALICE` or `slack:T1/U01ALICE`, "" for people of other surfaces."""
    address = _USER.fullmatch(user)
    return address[1] if address else ""


def when(span: When) -> str:
    """Return an instant in the reader's own zone, UTC where the client is too old to know."""
    return f"<!date^{int(span.at.timestamp())}^{{date_short_pretty}} {{time}}|{span.at:%Y-%m-%d %H:%M} UTC>"


def link(span: Link) -> str:
    """Return a link the bot made; one that is not http(s) stays text."""
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
                yield from (
                    escape(part) for part in _words(_without_emoji(bare(span)))
                )  # a cut may part an emoji's colons
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
        glued = joined and part and _touch(joined[-1], part[0])
        joined += f"\u200b{part}" if glued else part
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
    """Yield spans with neighbouring texts joined, plain or bold, so that no markup hides between two of them."""
    held: Span = ""
    for span in spans:
        if isinstance(held, str) and isinstance(span, str):
            held += span
        elif isinstance(held, Strong) and isinstance(span, Strong):
            held = Strong(held.text + span.text)
        else:
            yield held
            held = span
    yield held


def _touch(left: str, right: str) -> bool:
    return (left in "*`" and (right.isalnum() or right in "*`")) or (
        right in "*`" and left.isalnum()
    )


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


Json = dict[str, Any]
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
