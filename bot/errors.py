"""Name the ways in which a line or a call can fail, the nearest right word, and what to hide.

TrnbotError
+-- WrongInput       the line, setting or file a person gave is wrong (exit 2)
|   +-- NotAllowed   the person may not do this
+-- Standby          another process leads the watch now
+-- Unavailable      something outside failed or is missing (exit 1)
    +-- StoreFailed  the bot's own database failed
    +-- Refused      it will go on failing until a person does something
    +-- Unanswered   it may have done what was asked
    +-- OverBudget   a person, a surface or the whole bot is asked for more than its share; later it
      works
    +-- OutOfTime    the line worked for longer than it may, or nobody waits for its answer any more
    +-- Limited      a platform's limit holds it back for so many seconds; nothing was done
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar
from urllib.parse import quote, quote_plus, unquote, urlsplit

T = TypeVar("T")
_LONG_WORD = re.compile(r"(\S{300})\S+")
"""Typed to fill the answer; no name or address is as long."""


class TrnbotError(Exception):
    """Carry one clear sentence that a person may read; never a secret."""

    status = 500
    """How HTTP calls the failure, here and in the classes below."""

    def __init__(self, sentence: str = "") -> None:
        sentence = _LONG_WORD.sub(r"\1…", sentence)
        # A suggestion ends where its question mark stands: `did you mean 'cost'? Type`.
        sentence = re.sub(r"\?; (\w)", lambda found: f"? {found[1].upper()}", sentence)
        super().__init__(sentence.replace("?.", "?"))


class WrongInput(TrnbotError):
    """Refuse a person's input, naming the mistake and the nearest right form.

    `argument` is the one that is wrong, if one is.
    """

    status = 400

    def __init__(self, sentence: str = "", argument: str = "") -> None:
        super().__init__(sentence)
        self.argument = argument


def refuse(*checks: tuple[object, str]) -> None:
    """Raise `WrongInput` with the sentence of the first check that holds.

    All conditions are worked out before: none may rely on an earlier one.
    """
    for is_wrong, sentence in checks:
        if is_wrong:
            raise WrongInput(sentence)


class NothingToWatch(WrongInput):
    """Mean that no source is set, whatever else was asked."""


class NotAllowed(WrongInput):
    """Refuse a person who may not do this.

    `admin` is the address of one who may, where the person can reach one.
    """

    status = 403

    def __init__(self, sentence: str = "", admin: str = "") -> None:
        super().__init__(sentence)
        self.admin = admin


class Standby(TrnbotError):
    """Mean that another process leads: nothing of this one's is written or sent for the watch."""


class Unavailable(TrnbotError):
    """Report a failure outside the bot, and the remedy."""

    status = 503


class StoreFailed(Unavailable):
    """Report that the database in which the bot keeps its state failed."""


class Refused(Unavailable):
    """Report a failure outside that lasts until a person acts: a deleted channel, a revoked token."""


class Unanswered(Unavailable):
    """Report a call outside that may have been carried out.

    The answer is missing, late, or a failure halfway.
    """


class OverBudget(Unavailable):
    """Refuse a line that asks for more than a share of the bot, saying when or how it will be answered."""

    status = 429


class OutOfTime(Unavailable):
    """Stop a line that worked for too long, or whose answer nobody waits for."""

    status = 504


class Limited(Unavailable):
    """Report a call that a limit holds back.

    Nothing was done, and it may be tried again after `seconds`.
    """

    status = 429

    def __init__(self, sentence: str, seconds: float) -> None:
        super().__init__(sentence)
        self.seconds = seconds


def shortened(text: str, most: int = 60) -> str:
    """Return a text as an error may quote it: on one line, its beginning where it is long."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[:most]}…"


def nearest(word: str, known: Iterable[str], *, most: int = 20, otherwise: str = "") -> str:
    """Return the tail of an error sentence.

    The closest known word, or all of them when few, else the words of `otherwise`.
    """
    every = list(known)
    close = get_close_matches(word.lower(), every, n=1, cutoff=0.6)
    if close:
        return f"; did you mean '{close[0]}'?"
    if 0 < len(every) <= most:
        return f"; known: {', '.join(every)}"
    return f"; {otherwise}" if otherwise else ""


def not_known(
    sentence: str, word: str, known: Iterable[str], *, most: int = 20, otherwise: str = ""
) -> WrongInput:
    """Return the refusal of a word that names nothing: a sentence, and its tail by `nearest`."""
    return WrongInput(f"{sentence}{nearest(word, known, most=most, otherwise=otherwise)}.")


def require_known(
    sentence: str, word: str, known: Collection[str], *, most: int = 20, otherwise: str = ""
) -> None:
    """Raise `WrongInput` for a word that names nothing known."""
    if word not in known:
        raise not_known(sentence, word, known, most=most, otherwise=otherwise)


def find_named(
    sentence: str, word: str, known: Mapping[str, T], *, most: int = 20, otherwise: str = ""
) -> T:
    """Return what a word names; raise `WrongInput` where it names nothing known."""
    require_known(sentence, word, known.keys(), most=most, otherwise=otherwise)
    return known[word]


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
            # Of an address only its passwords and tokens are secret of themselves.
            try:
                address = urlsplit(secret)
            except ValueError:
                continue
            pairs = [*address.query.split("&"), *address.path.split(";")]
            queried = [
                value
                for name, _, value in (pair.partition("=") for pair in pairs)
                if name in ("password", "token")
            ]
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
