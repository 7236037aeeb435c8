"""Compare readings."""

from typing import Any

import numpy as np

from bot.model.reading import Reading


def differences(live: Reading, recorded: Reading) -> list[Any]:
    """Return what differs; cores are read on request only."""
    found: list[Any] = []
    if set(live.frames) - {"core"} != set(recorded.frames) - {"core"}:
        found.append(sorted(set(live.frames) ^ set(recorded.frames)))
    for kind in set(live.frames) & set(recorded.frames) - {"core"}:
        one, other = live.frames[kind], recorded.frames[kind]
        axes = ("things", "metrics", "start", "step")
        found += [
            (kind, x, getattr(one, x), getattr(other, x))
            for x in axes
            if getattr(one, x) != getattr(other, x)
        ]
        if one.values.shape != other.values.shape or not np.allclose(
            one.values, other.values, rtol=1e-5, equal_nan=True
        ):
            found.append((kind, "values"))
    described = ("instances", "volumes", "file_systems", "reservations")
    found += [
        name
        for name in described
        if getattr(live.inventory, name) != getattr(recorded.inventory, name)
    ]
    return found + (["runs"] if live.runs != recorded.runs else [])
