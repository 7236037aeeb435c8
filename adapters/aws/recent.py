"""Remember the newest few values of a function.

A replay of the past goes on beside the watch, and each asks of its own time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")
_MOST = 8


class Recent(Generic[T]):
    """Remember values by their keys, those asked for last."""

    def __init__(self) -> None:
        self._values: dict[Hashable, T] = {}
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value for `key`, made where it is not remembered.

        Threads that ask at once may make it twice.
        """
        value = self._values.get(key)
        if value is None:
            value = make()
        with self._lock:
            self._values.pop(key, None)
            self._values[key] = value
            if len(self._values) > _MOST:
                del self._values[next(iter(self._values))]
        return value
