"""Ask the database, and keep the nouns of a feature in its documents."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from bot.errors import Unavailable
from bot.model.alert import Alert, Decision
from bot.model.codec import decode, encode
from bot.model.labels import Labels
from bot.model.notification import Line, NotificationLogEntry, State, StateUpdate
from bot.model.policy import Attempt, Version
from bot.model.reading import Report, Shares
from bot.model.window import Window

_log = logging.getLogger("trnbot.seen")


class AlertStore(Protocol):
    """Keep state."""

    def load(self, now: datetime) -> State:
        """Return the state that the watch needs at `now`."""

    def save(self, changes: StateUpdate) -> None:
        """Write all of it or none of it."""

    def history(self, window: Window, selector: Labels) -> Sequence[Alert]:
        """Return the alerts that the labels select, open within the window, newest first."""

    def decisions(self, *alerts: str) -> Sequence[Decision]:
        """Return people's decisions about these alert ids, oldest first of each."""


class Outbox(Protocol):
    """Tell what a message and its thread are owed, and let one process at a time send it."""

    def owed(
        self, notification: str, channel: str
    ) -> tuple[NotificationLogEntry | None, Sequence[Line]]:
        """Return a message's newest entry, and the unsaid lines of its thread in their order."""

    def hold(self, name: str) -> int:
        """Return the token by which this process alone may send a message now, 0 for none.

        Others may once it is released, or was not renewed for a while.
        """

    def holds(self, name: str, token: int) -> bool:
        """Return whether the token is still this process's."""

    def release(self, name: str, token: int) -> None:
        """Let others send the message."""


class Versions(Protocol):
    """Keep every version of the policy, and every attempt to change it."""

    def versions(self, most: int) -> Sequence[Version]:
        """Return up to `most` versions, the newest first."""

    def add(self, version: Version) -> None:
        """Write one version; raise `WrongInput` when somebody else took its number."""

    def attempts(self, most: int) -> Sequence[Attempt]:
        """Return up to `most` attempts, the newest first."""

    def note(self, attempt: Attempt) -> None:
        """Write one attempt."""


class DocumentStore(Protocol):
    """Keep small JSON documents for surfaces.

    Conversation references, installations, the console's messages.
    """

    def put(self, collection: str, key: str, document: Mapping[str, Any]) -> None:
        """Write one document over the one before."""

    def get(self, collection: str, key: str) -> Mapping[str, Any] | None:
        """Return one document, or None."""

    def newest(self, collection: str, most: int) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Return up to `most` (key, document), the last written first."""

    def drop(self, collection: str, key: str) -> None:
        """Forget one document."""


class Shards(Protocol):
    """Know the processes that share the watch out among themselves."""

    def processes(self) -> Sequence[str]:
        """Return the processes that live, by the database's clock; this one is the first."""

    def reports(self, shares: Shares) -> Sequence[Report] | None:
        """Wait for the reports of all other processes that hold a share.

        Return those that came in time, or None as soon as one of the processes is gone.
        """


class IdempotencyKeys(Protocol):
    """Let each key through once, in whichever process it comes.

    A platform's repeated event, a state of an installation.
    """

    def first(self, collection: str, key: str) -> bool:
        """Return whether the key came for the first time, and keep it.

        Of processes that ask at once, one is answered yes.
        """


class Deduplicator:
    """Recognise repeated events of one platform by their keys, in a store that processes share."""

    def __init__(self, keys: IdempotencyKeys, collection: str) -> None:
        self._keys, self._collection = keys, collection

    async def again(self, key: str) -> bool:
        """Return whether the key came before, and remember it.

        "" is never remembered, and without a store every key is new.
        """
        try:
            return bool(key) and not await asyncio.to_thread(
                self._keys.first, self._collection, key
            )
        except Unavailable as error:
            _log.warning("whether it is answered already is not known: %s", error)
            return False


N = TypeVar("N")


@dataclass(frozen=True)
class Documents(Generic[N]):
    """Read and write the nouns of one collection by the codec, which reads those of older versions.

    Every call may block.
    """

    collection: str
    noun: type[N]

    def get(self, store: DocumentStore, key: str) -> N | None:
        """Return one noun, or None."""
        document = store.get(self.collection, key)
        return None if document is None else decode(self.noun, document)

    def put(self, store: DocumentStore, key: str, noun: N) -> None:
        """Write one noun over the one before."""
        store.put(self.collection, key, encode(noun))

    def newest(self, store: DocumentStore, most: int) -> Sequence[tuple[str, N]]:
        """Return up to `most` (key, noun), the last written first."""
        return [
            (key, decode(self.noun, document))
            for key, document in store.newest(self.collection, most)
        ]

    def keys(self, store: DocumentStore, most: int) -> list[str]:
        """Return up to `most` keys, the last written first."""
        return [key for key, _ in store.newest(self.collection, most)]

    def drop(self, store: DocumentStore, key: str) -> None:
        """Forget one noun."""
        store.drop(self.collection, key)


SHARES = Documents("shards", Shares)
"""The newest shares, under one key."""
REPORTS = Documents("shards.reports", Report)
"""The newest report of each process, by its name."""
