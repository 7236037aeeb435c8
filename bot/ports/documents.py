"""Keep the nouns of a feature in the document store: one line names the collection and its noun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from bot.model.codec import decode, encode
from bot.ports.stores import DocumentStore

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
        every: Sequence[tuple[str, Any]] = store.newest(self.collection, most)
        return [key for key, _ in every]

    def drop(self, store: DocumentStore, key: str) -> None:
        """Forget one noun."""
        store.drop(self.collection, key)
