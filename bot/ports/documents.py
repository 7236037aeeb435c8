"""Keep the nouns of a feature in the document store: one line names the shelf and the noun that lies there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from bot.model.codec import decode, encode
from bot.ports.stores import DocumentStore

N = TypeVar("N")


@dataclass(frozen=True)
class Documents(Generic[N]):
    """Read and write the nouns of one shelf; the codec writes them, and reads those of older versions. Every call may block."""

    shelf: str
    noun: type[N]

    def get(self, store: DocumentStore, key: str) -> N | None:
        """Return one noun, or None."""
        document = store.get(self.shelf, key)
        return None if document is None else decode(self.noun, document)

    def put(self, store: DocumentStore, key: str, noun: N) -> None:
        """Write one noun over the one before."""
        store.put(self.shelf, key, encode(noun))

    def newest(self, store: DocumentStore, most: int) -> Sequence[tuple[str, N]]:
        """Return up to `most` (key, noun), the last written first."""
        return [(key, decode(self.noun, document)) for key, document in store.newest(self.shelf, most)]

    def keys(self, store: DocumentStore, most: int) -> list[str]:
        """Return up to `most` keys, the last written first."""
        every: Sequence[tuple[str, Any]] = store.newest(self.shelf, most)
        return [key for key, _ in every]

    def drop(self, store: DocumentStore, key: str) -> None:
        """Forget one noun."""
        store.drop(self.shelf, key)
