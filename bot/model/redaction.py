"""Hide in a text whatever grants access: known secrets, and everything that looks like one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote, quote_plus, unquote, urlsplit

HIDDEN = "(hidden)"
_SHORTEST = 6
"""Characters of a known secret; a shorter one stands in too many words to be hidden."""
_NAMES = (
    r"(?:secret|token|password|passwd|signature|assertion|credential)(?:_?key)?"
    r"|(?:access|private|api)_?key"
)
"""Words that a secret's name ends with.

Where one stands without a value after it, nothing is hidden.
"""
_SECRET = re.compile(
    r"xox[a-z](?:\.xox[a-z])?-\w[\w%.-]*"  # tokens of Slack
    r"|xapp-\w[\w-]*"
    r"|(?P<kept>//hooks\.\w+\.com)/[^\s\"'<>]+"  # addresses that let anybody answer
    r"|wss?://[^\s\"'<>]+|/_hooks/[^\s\"'<>]+"
    r"|(?i:bearer) [\w+/=.~-]{8,}"
    r"|(?:(?<=Authorization: )|(?<=Authorization['\"]: ['\"]))Basic [\w+/=]+"
    r"|eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?"  # JSON web tokens
    r"|(?:AKIA|ASIA)[A-Z0-9]{12,}"
    r"|(?P<scheme>://)[^\s/@:\"']{0,128}:[^\s/@\"']{1,256}@"
    r"|(?<=['\"]code['\"]: ['\"])[^'\"]+|(?<=[?&]code=)[^&\s\"']+"  # codes of OAuth
    rf"|(?P<name>(?i:{_NAMES})[\"']?\s{{0,2}}[=:>]\s{{0,2}}[\"']?)"
    r"(?!\s|\(hidden\)|None\b|True\b|False\b)[^\s\"'&,;}<>)\]]{4,}"
)


def redact(text: str, known: Sequence[str] = ()) -> str:
    """Return `text` with known secrets, and all that look like one, replaced by `(hidden)`."""
    for secret in known:
        text = text.replace(secret, HIDDEN)

    def hidden(match: re.Match[str]) -> str:
        """Keep the name of the secret, hide the secret."""
        if match["scheme"]:
            return f"://{HIDDEN}@"
        return f"{match['name'] or match['kept'] or ''}{HIDDEN}"

    return _SECRET.sub(hidden, text)


def spellings(secrets: Iterable[str]) -> tuple[str, ...]:
    """Return each secret as it may stand in a text.

    Bare, as part of a list or an address, quoted for URLs, JSON and Python.
    """
    written: set[str] = set()
    for secret in secrets:
        parts = [secret, *(part.strip() for part in secret.split(","))]
        if "://" in secret:
            # Of an address only its passwords are secret of themselves.
            try:
                address = urlsplit(secret)
            except ValueError:
                continue
            pairs = [pair.partition("=") for pair in address.query.split("&")]
            queried = [value for name, equals, value in pairs if name == "password" and equals]
            passwords = [address.password or "", *queried]
            parts = [*passwords, *map(unquote, passwords)]
        for part in parts:
            if len(part) >= _SHORTEST:
                # An answer that repeats a request quotes it twice.
                once = json.dumps(part)[1:-1]
                printed = part.replace("\\", "\\\\").replace("'", "\\'")
                written |= {part, quote(part, ""), quote_plus(part), printed}
                written |= {once, json.dumps(once)[1:-1]}
    return tuple(sorted(written, key=len, reverse=True))
