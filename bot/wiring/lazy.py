"""Open a part of the world when it is first asked, and once."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, TypeVar, cast

Part = TypeVar("Part")


class Once(Generic[Part]):
    """Make a thing at the first call and keep it; a failure is not kept."""

    def __init__(self, make: Callable[[], Part]) -> None:
        self._make = make
        self._lock = Lock()
        self._made: list[Part] = []

    def __call__(self) -> Part:
        """Return the thing."""
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]


class AtMostEvery:
    """Return whether something is due: at the first call, and again when `seconds` have passed."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds, self._clock = seconds, clock
        self._last: float | None = None

    def __call__(self) -> bool:
        """Return whether it is due, and take it as done then."""
        seconds = self._clock()
        if self._last is not None and seconds - self._last < self._seconds:
            return False
        self._last = seconds
        return True


class _Lazy:
    """Stand for a part of the world until somebody asks it something."""

    def __init__(self, opened: Callable[[], Any]) -> None:
        self._opened = opened

    def __getattr__(self, name: str) -> Any:
        def ask(*asked: Any, **named: Any) -> Any:
            return getattr(self._opened(), name)(*asked, **named)

        return ask

    def __call__(self, *asked: Any, **named: Any) -> Any:
        return self._opened()(*asked, **named)


def lazy(opened: Callable[[], Part]) -> Part:
    """Return a port that is opened by the first call of one of its methods."""
    return cast("Part", _Lazy(opened))
