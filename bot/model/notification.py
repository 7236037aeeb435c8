"""Say why a channel is notified, of which alerts, and what was sent there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from bot.model.alert import Alert


class Reason(StrEnum):
    """Name the reason for a notification; FIRST makes a message, every other edits it."""

    FIRST = "FIRST"
    MORE = "MORE"
    FEWER = "FEWER"
    WORSE = "WORSE"
    OVER = "OVER"
    REMINDER = "REMINDER"
    DECIDED = "DECIDED"
    UPDATED = "UPDATED"
    """Only its dollars went on; once an hour the message says them anew."""


@dataclass(frozen=True)
class Notification:
    """Join alerts of one incident for one channel; `id` names the incident there."""

    id: str
    channel: str
    reason: Reason
    at: datetime
    alerts: tuple[Alert, ...]
    owed: bool = False
    """Whether it was decided before, and only its sending is still owed."""


@dataclass(frozen=True)
class NotificationLogEntry:
    """Remember the last notification of one incident in one channel, and the message that holds it.

    It is written before anything is sent, and is `pending` until the message shows it. `message` is
    "" until the platform's first answer.
    """

    id: str
    channel: str
    reason: Reason
    at: datetime
    alerts: tuple[str, ...]
    """Ids of the alerts told."""
    things: int
    usd_per_hour: Decimal
    digest: str
    """Fingerprint of everything that was shown, so that an unchanged card is not sent again."""
    message: str = ""
    over: bool = False
    usd_so_far: Decimal = Decimal(0)
    pending: bool = False
    """Whether the message does not show this yet."""
    version: int = 1
    """Counts what was decided for this message, so that an answer about an older state is told from one about this."""


@dataclass(frozen=True)
class Receipt:
    """State that a platform took a message, and which version of its state the message shows."""

    id: str
    channel: str
    message: str
    version: int


@dataclass(frozen=True)
class Line:
    """Hold one line of a message's thread.

    Written in words when it was decided, said once, after those before it.

    `id` is the key by which the platform finds it again; `notification` and `channel` name the
    message.
    """

    id: str
    notification: str
    channel: str
    at: datetime
    card: Mapping[str, Any]
    """The card, as a document."""
    sent: str = ""
    """Id of what says it: the line, or the message that was posted later and shows it.

    "" until then.
    """
