"""Keep tokens and response addresses out of the log: whoever holds one may speak as the bot."""

from __future__ import annotations

import logging
import re

_SECRET = re.compile(
    r"xox[a-z]-[\w-]+|xapp-[\w-]+|(?P<host>https?://hooks\.slack\.com)/\S+|wss?://\S+|https?://\S+/_hooks/\S+|Bearer \S+"
    r"|(?<='code': ')[^']+"
)

_WRONG = ("`token` will be unused", "file-based InstallationStore")
"""Words of what bolt believes when it finds SLACK_BOT_TOKEN or SLACK_CLIENT_ID in the environment."""


def redact(text: str) -> str:
    """Return `text` with everything that grants access replaced by `(hidden)`."""
    return _SECRET.sub("(hidden)", text)


class Redacting(logging.Filter):
    """Rewrite each record before any handler sees it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact the message and the text of an error; drop what bolt says of variables that are ours to read."""
        record.msg, record.args = redact(record.getMessage()), None
        if record.exc_info and record.exc_info[1]:
            record.msg += f" ({type(record.exc_info[1]).__name__}: {redact(str(record.exc_info[1]))})"
            record.exc_info = record.exc_text = None
        return not any(wrong in record.msg for wrong in _WRONG)


def sdk_logger() -> logging.Logger:
    """Return the logger given to Slack's SDKs; they log addresses and payloads at DEBUG."""
    logger = logging.getLogger("trnbot.slack.sdk")
    if not any(isinstance(one, Redacting) for one in logger.filters):
        logger.addFilter(Redacting())
    return logger
