"""Keep text from tags, metrics and people inert: it may be read, never ping, link, format or compute."""

from __future__ import annotations

import re

_AT = re.compile(r"<\s*(/?)\s*at\b", re.IGNORECASE)
_MARKS = re.compile(r"([\\`*\[\]<>~#|!])")
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_LIST = re.compile(r"^(\s*)([-+=]|\d+(?=[.)]))", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_GAP = "\u200b"


def bare(text: str) -> str:
    """Return text for a `TextRun`, which knows no markdown: only mentions and card functions are taken apart."""
    calm = _CONTROL.sub("\ufffd", text)
    return _AT.sub(rf"<{_GAP}\1at", calm).replace("{{", "{" + _GAP + "{")


def escaped(text: str) -> str:
    """Return text for a `TextBlock` or a fact, which are read as markdown: every mark stands for itself."""
    marked = _UNDERSCORE.sub(r"\\_", _MARKS.sub(r"\\\1", bare(text)))
    return _LIST.sub(rf"\1{_GAP}\2", marked)


def short(text: str, most: int) -> str:
    """Return at most `most` characters, the last of them an ellipsis where something was cut."""
    return text if len(text) <= most else text[: most - 1] + "…"
