"""Remember the newest value of a pure function, so that it is computed anew only when its key changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Memo(Generic[T]):
    """Remember one value by its key."""

    def __init__(self) -> None:
        self._newest: tuple[object, T] | None = None

    def get(self, key: object, make: Callable[[], T]) -> T:
        """Return the value for `key`, made anew only when the key has changed."""
        if self._newest is None or self._newest[0] != key:
            self._newest = (key, make())
        return self._newest[1]
