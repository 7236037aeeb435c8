"""Write the log.

One line for each record, no control character from outside, no secret, and no more text than can be
read.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from logging.handlers import SysLogHandler, WatchedFileHandler
from pathlib import Path

from bot.cards.lines import visible
from bot.errors import TrnbotError, Unavailable, redact, spellings

MESSAGE_CHARS = 2_000
TRACE_CHARS = 8_000
_READ_CHARS = 16_000
"""How much of a text is looked at: megabytes are neither searched for secrets nor escaped."""
_MARGIN = "  | "
"""Begins each line of a traceback, so that no text in it passes for a record."""
_NOISY = ("alembic", "botocore", "urllib3")
_known: tuple[str, ...] = ()
_root = logging.getLogger()


class LogFormatter(logging.Formatter):
    """Format what anybody logs, libraries included."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line, with the lines of its traceback behind."""
        try:
            message = record.getMessage()
        except Exception as error:
            # Arguments that do not fit would be printed bare by `logging` itself.
            message = f"{record.msg} ({type(error).__name__} in its arguments)"

        failure = record.exc_info[1] if record.exc_info else None
        # A failure that says what to do in a sentence needs no trace: a full disk fails at each try.
        explained = isinstance(failure, TrnbotError) and not _root.isEnabledFor(logging.DEBUG)
        if explained:
            message = f"{message}: {failure}"
        line = _escaped(_readable(message))
        if len(line) > MESSAGE_CHARS:
            missing = f"… ({len(message):,} characters)"
            line = line[: MESSAGE_CHARS - len(missing)] + missing
        record.message = line
        if self.usesTime():
            record.asctime = self.formatTime(record, self.datefmt)

        traced = record.exc_text or ""
        if record.exc_info:
            traced = "" if explained else self.formatException(record.exc_info)
        text = "\n".join(part for part in (traced, record.stack_info or "") if part)
        if not text:
            return self.formatMessage(record)

        lines = "\n".join(f"{_MARGIN}{_escaped(line)}" for line in _readable(text).split("\n"))
        if len(lines) > TRACE_CHARS:
            half = TRACE_CHARS // 2
            lines = f"{lines[:half]}\n{_MARGIN}…\n{_MARGIN}{lines[-half:].partition(_MARGIN)[2]}"
        return f"{self.formatMessage(record)}\n{lines}"


def start_log(level: int) -> None:
    """Write records of `level` and above to the standard error output."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
    for noisy in _NOISY:
        logging.getLogger(noisy).setLevel(logging.WARNING)


class AuditFormatter(logging.Formatter):
    """Format a record of the audit log as one line of JSON, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        texts = {
            name: visible(_readable(str(value)))[:MESSAGE_CHARS]
            for name, value in vars(record).get("record", {}).items()
            if value
        }
        return json.dumps({"at": at.replace("+00:00", "Z"), **texts}, ensure_ascii=True)


def audit_to(place: str) -> None:
    """Write the audit log to a file, `stdout`, `syslog` or `syslog:HOST:PORT`; "" for nowhere.

    Raises `Unavailable` where that cannot be written to.
    """
    if not place:
        return
    kind, _, address = place.partition(":")
    handler: logging.Handler
    try:
        if place == "stdout":
            handler = logging.StreamHandler(sys.stdout)
        elif kind == "syslog":
            host, _, port = address.rpartition(":")
            to = (host, int(port)) if host else address or "/dev/log"
            handler = SysLogHandler(to, SysLogHandler.LOG_AUTHPRIV)
            handler.ident = "trnbot: "
        else:
            # For this user alone, and begun anew where something else moved it away.
            Path(place).touch(0o600)
            handler = WatchedFileHandler(place, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise Unavailable(
            f"TRNBOT_AUDIT: '{place}' cannot be written to"
            f" ({getattr(error, 'strerror', None) or error})."
        ) from error
    handler.setFormatter(AuditFormatter())
    log = logging.getLogger("trnbot.audit")
    log.setLevel(logging.INFO)
    log.handlers[:] = [handler]


def quiet_log() -> None:
    """Write warnings alone, bare, as a terminal's line does."""
    if logging.lastResort:
        logging.lastResort.setFormatter(LogFormatter("%(message)s"))


def hide(secrets: Iterable[str]) -> None:
    """Hide these secrets in every line from now on."""
    global _known  # noqa: PLW0603 - the log is one for the whole process
    _known = spellings(secrets)


def _readable(text: str) -> str:
    """Return a text without secrets.

    Of a very long one the beginning and the end, cut where no secret can be cut in two.
    """
    if len(text) <= 2 * _READ_CHARS:
        return redact(text, _known)
    longest = max(map(len, _known), default=0)
    head = text[: _READ_CHARS - longest].rsplit(maxsplit=1)[:-1]
    tail = text[longest - _READ_CHARS :].partition("\n")[2]
    return redact("".join(head), _known) + " …\n" + redact(tail, _known)


def _escaped(text: str) -> str:
    """Return a text without control characters, marks that turn its direction, and line ends."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\u00a0" else char.encode("unicode_escape").decode()
        for char in text
    )
