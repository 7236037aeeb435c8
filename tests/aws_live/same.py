"""Compare readings."""

from typing import Any

import numpy as np

from bot.model.reading import Reading


def differences(live: Reading, recorded: Reading) -> list[Any]:
    """Return what differs; cores are read on request only."""
    found: list[Any] = []
    if set(live.frames) != set(recorded.frames) - {"core"}:
        found.append(sorted(set(live.frames) ^ set(recorded.frames)))
    for kind in set(live.frames) & set(recorded.frames):
        one, other = live.frames[kind], recorded.frames[kind]
        for name in ("things", "metrics", "start", "step"):
            if getattr(one, name) != getattr(other, name):
                found.append((kind, name, getattr(one, name), getattr(other, name)))
        if one.values.shape != other.values.shape or not np.allclose(one.values, other.values, rtol=1e-5, equal_nan=True):
            found.append((kind, "values"))
    for name in ("instances", "volumes", "file_systems", "reservations"):
        if getattr(live.inventory, name) != getattr(recorded.inventory, name):
            found.append(name)
    return found + (["runs"] if live.runs != recorded.runs else [])
