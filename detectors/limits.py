"""Spread a policy's thresholds over nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property

import numpy as np

from bot.model.causes import CAUSES, About
from bot.model.policy import Policy, Value
from detectors.arrays import Mask, Numbers
from detectors.roster import Roster

_OF_NODES = {cause.value for cause, facts in CAUSES.items() if facts.about is About.NODES}


def _looks_back(key: str, value: Value) -> bool:
    """Return whether some rule looks back as long as a setting says.

    A length of time of a cause about nodes, unless ahead.
    """
    cause, _, name = key.partition(".")
    return isinstance(value, timedelta) and cause in _OF_NODES and name != "ahead"


@dataclass
class Limits:
    """Spread the policy's thresholds over the nodes, each by the overrides for its cluster, team, region and account."""

    policy: Policy
    roster: Roster
    _cache: dict[tuple[str, float], Numbers] = field(default_factory=dict)

    @cached_property
    def _policies(self) -> list[Policy]:
        return [self.policy.at(x) for x in self.roster.labels]

    def number(self, key: str) -> Numbers:
        """Return a number per node, (n,)."""
        return self._spread(key, 0.0, lambda policy: policy.number(key))

    def steps(self, key: str, step: timedelta) -> Numbers:
        """Return a length of time per node in whole steps, at least one, (n,)."""
        return self._spread(
            key, step.total_seconds(), lambda policy: max(1, -(-policy.duration(key) // step))
        )

    def on(self, key: str) -> Mask:
        """Return a switch per node, (n,)."""
        return self._spread(key, 0.0, lambda policy: float(policy.on(key))) > 0

    @cached_property
    def longest(self) -> timedelta:
        """Return the longest span that any rule looks back over."""
        policies = set(map(id, self._policies))
        chosen = [
            p for p in (self.policy, *self._policies) if id(p) in policies or p is self.policy
        ]
        spans = [key for key, value in self.policy.values.items() if _looks_back(key, value)]
        return max(p.duration(key) for p in chosen for key in spans)

    def _spread(self, key: str, step: float, of: Callable[[Policy], float]) -> Numbers:
        if (key, step) not in self._cache:
            values = np.array([of(policy) for policy in self._policies], dtype=np.float64)
            self._cache[key, step] = values
        return self._cache[key, step]
