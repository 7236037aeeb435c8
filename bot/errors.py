"""Name the ways in which a line or a call can fail, and suggest the nearest right word.

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

import re
from collections.abc import Iterable
from difflib import get_close_matches

_LONG_WORD = re.compile(r"(\S{300})\S+")
"""Typed to fill the answer; no name or address is as long."""


class TrnbotError(Exception):
    """Carry one clear sentence that a person may read; never a secret."""

    def __init__(self, sentence: str = "") -> None:
        super().__init__(_after_question(_LONG_WORD.sub(r"\1…", sentence)))


class WrongInput(TrnbotError):
    """Refuse a person's input, naming the mistake and the nearest right form.

    `argument` is the one that is wrong, if one is.
    """

    def __init__(self, sentence: str = "", argument: str = "") -> None:
        super().__init__(sentence)
        self.argument = argument


class NothingToWatch(WrongInput):
    """Mean that no source is set, whatever else was asked."""


class NotAllowed(WrongInput):
    """Refuse a person who may not do this.

    `admin` is the address of one who may, where the person can reach one.
    """

    def __init__(self, sentence: str = "", admin: str = "") -> None:
        super().__init__(sentence)
        self.admin = admin


class Standby(TrnbotError):
    """Mean that another process leads: nothing of this one's is written or sent for the watch."""


class Unavailable(TrnbotError):
    """Report a failure outside the bot, and the remedy."""


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


class OutOfTime(Unavailable):
    """Stop a line that worked for too long, or whose answer nobody waits for."""


class Limited(Unavailable):
    """Report a call that a limit holds back.

    Nothing was done, and it may be tried again after `seconds`.
    """

    def __init__(self, sentence: str, seconds: float) -> None:
        super().__init__(sentence)
        self.seconds = seconds


def _after_question(sentence: str) -> str:
    """End a suggestion where its question mark stands: `did you mean 'cost'?; type` becomes `.

    'cost'? Type`.
    """
    begun = re.sub(r"\?; (\w)", lambda found: f"? {found[1].upper()}", sentence)
    return begun.replace("?.", "?")


def shortened(text: str, most: int = 60) -> str:
    """Return a text as an error may quote it: its beginning where it is long."""
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
