"""Do a few large pieces of work side by side: numpy and DuckDB let Python's lock go while they count."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")
BESIDE = 2
"""Pieces at a time; more would wait for memory."""


def side_by_side(work: Callable[[A], B], pieces: Iterable[A]) -> list[B]:
    """Return what the work makes of each piece, in order; the first failure is raised."""
    every = list(pieces)
    if len(every) < BESIDE:
        return [work(piece) for piece in every]
    with ThreadPoolExecutor(BESIDE, thread_name_prefix="beside") as pool:
        return list(pool.map(work, every))
