"""Say which few dimension values explain a growth of the bill.

After Adtributor (Bhagwan et al., NSDI 2014): a value's explanatory power is its share of the
growth, its surprise how far its share of the money moved. Adtributor ranks dimensions apart; here
each next dimension narrows what the ones before left, so that one place is named and not a list for
each dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bot.model.labels import Labels
from detectors.arrays import Numbers
from detectors.words import percent

DIMENSIONS = ("usage_type", "service", "region", "account", "cluster", "team", "project")
ENOUGH = 0.8
"""Share of the growth that the named values hold together."""
MOST = 3
"""Values of one dimension that still explain; more of them are a description of the bill."""
_WORDS = {
    "region": "in {}",
    "account": "account {}",
    "cluster": "cluster {}",
    "team": "team {}",
    "project": "project {}",
}


@dataclass(frozen=True)
class RootCause:
    """Name the values that hold `share` of a growth, by dimension."""

    share: float
    named: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def labels(self) -> Labels:
        """Return the dimensions that have a single value."""
        return Labels.of({name: values[0] for name, values in self.named if len(values) == 1})

    def __str__(self) -> str:
        """Read as `88 % of it: NatGateway-Bytes in us-west-2, account 1234, team search`."""
        names = {name for name, _ in self.named}
        kept = [
            (name, values)
            for name, values in self.named
            if name != "service" or "usage_type" not in names
        ]
        words = [_WORDS.get(name, "{}").format(" and ".join(values)) for name, values in kept]
        return f"{percent(self.share)} of it: {', '.join(words).replace(', in ', ' in ')}"


def explain(things: Sequence[Labels], value: Numbers, usual: Numbers) -> RootCause | None:
    """Return the fewest values that hold most of the growth from `usual` to `value` (each (n_things,)); None without any."""
    growth = value - usual
    total = float(growth.sum())
    if total <= 0:
        return None
    kept = np.ones(len(things), dtype=bool)
    named: dict[str, tuple[str, ...]] = {}
    left = list(DIMENSIONS)
    while left:
        choices = {name: _smallest(things, name, growth, kept, total) for name in left}
        fitting = [name for name in left if choices[name]]
        if not fitting:
            break
        best = max(
            fitting,
            key=lambda name: (
                _surprise(things, name, choices[name], value, usual),
                -left.index(name),
            ),
        )
        named[best] = choices[best]
        kept &= np.array([thing.get(best) in choices[best] for thing in things])
        left.remove(best)
    ordered = tuple(
        (name, named[name]) for name in DIMENSIONS if name in named and all(named[name])
    )
    return RootCause(min(1.0, float(growth[kept].sum()) / total), ordered) if ordered else None


def _smallest(
    things: Sequence[Labels], name: str, growth: Numbers, kept: np.ndarray, total: float
) -> tuple[str, ...]:
    """Return the fewest values of a dimension that still hold enough of the growth.

    () when many or all of them do.
    """
    sums: dict[str, float] = {}
    for thing, more, inside in zip(things, growth.tolist(), kept.tolist(), strict=True):
        if inside:
            sums[thing.get(name)] = sums.get(thing.get(name), 0.0) + more
    ranked = sorted(sums, key=lambda word: (-sums[word], word))
    reached = np.cumsum([sums[word] for word in ranked])
    n = int(np.argmax(reached >= ENOUGH * total)) + 1
    if n > MOST or reached[n - 1] < ENOUGH * total or (n > 1 and n == len(ranked)):
        return ()
    return tuple(ranked[:n])


def _surprise(
    things: Sequence[Labels], name: str, words: tuple[str, ...], value: Numbers, usual: Numbers
) -> float:
    """Return how far the share of these values moved.

    Half the Jensen-Shannon terms of now and before, in nats.
    """
    inside = np.array([thing.get(name) in words for thing in things])
    now = float(value[inside].sum()) / max(float(value.sum()), 1e-9)
    before = float(usual[inside].sum()) / max(float(usual.sum()), 1e-9)
    middle = (now + before) / 2
    return sum(0.5 * share * float(np.log(share / middle)) for share in (now, before) if share > 0)
