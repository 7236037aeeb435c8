"""Hide in a text whatever grants access: the secrets that are known, and what looks like one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote, quote_plus, unquote, urlsplit

HIDDEN = "(hidden)"
_SHORTEST = 6
"""Characters of a known secret; a shorter one stands in too many words to be hidden."""
_NAMES = r"(?:secret|token|password|passwd|signature|assertion|credential)(?:_?key)?|(?:access|private|api)_?key"
"""Words that a secret's name ends with.

Where one stands without a value after it, nothing is hidden.
"""
_SECRET = re.compile(
    r"xox[a-z](?:\.xox[a-z])?-\w[\w%.-]*"  # tokens of Slack
    r"|xapp-\w[\w-]*"
    r"|(?P<kept>//hooks\.\w+\.com)/[^\s\"'<>]+"  # addresses that let anybody answer
    r"|wss?://[^\s\"'<>]+|/_hooks/[^\s\"'<>]+"
    r"|(?i:bearer) [\w+/=.~-]{8,}|(?:(?<=Authorization: )|(?<=Authorization['\"]: ['\"]))Basic [\w+/=]+"
    r"|eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?"  # JSON web tokens
    r"|(?:AKIA|ASIA)[A-Z0-9]{12,}"
    r"|(?P<scheme>://)[^\s/@:\"']{0,128}:[^\s/@\"']{1,256}@"
    r"|(?<=['\"]code['\"]: ['\"])[^'\"]+|(?<=[?&]code=)[^&\s\"']+"  # codes of OAuth
    rf"|(?P<name>(?i:{_NAMES})[\"']?\s{{0,2}}[=:>]\s{{0,2}}[\"']?)(?!\s|\(hidden\)|None\b|True\b|False\b)[^\s\"'&,;}}<>)\]]{{4,}}"
)


def redact(text: str, known: Sequence[str] = ()) -> str:
    """Return `text` with every known secret, and everything that looks like one, replaced by `(hidden)`."""
    for secret in known:
        text = text.replace(secret, HIDDEN)
    return _SECRET.sub(_hidden, text)


def _hidden(match: re.Match[str]) -> str:
    """Keep what names the secret, hide the secret."""
    if match["scheme"]:
        return f"://{HIDDEN}@"
    return f"{match['name'] or match['kept'] or ''}{HIDDEN}"


def spellings(secrets: Iterable[str]) -> tuple[str, ...]:
    """Return each secret as it may stand in a text.

    Bare, as part of a list or an address, quoted for URLs, JSON and Python.
    """
    parts = {part for secret in secrets for part in _parts(secret) if len(part) >= _SHORTEST}
    ways = (
        str,
        lambda text: quote(text, ""),
        quote_plus,
        _quoted,
        lambda text: _quoted(_quoted(text)),
        _printed,
    )
    written = {spell(part) for part in parts for spell in ways}
    return tuple(sorted(written, key=len, reverse=True))


def _quoted(text: str) -> str:
    """Return a text as it stands between the quotes of JSON.

    An answer that repeats a request quotes it twice.
    """
    return json.dumps(text)[1:-1]


def _printed(text: str) -> str:
    """Return a text as Python prints it between single quotes."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _parts(secret: str) -> Iterable[str]:
    """Yield the parts that are secret of themselves: members of a list, the password of an address."""
    if "://" not in secret:
        yield from (secret, *(part.strip() for part in secret.split(",")))
        return
    try:
        address = urlsplit(secret)
    except ValueError:
        return
    queried = (
        part.partition("=")[2] for part in address.query.split("&") if part.startswith("password=")
    )
    for password in (address.password or "", *queried):
        yield from (password, unquote(password))
