"""Say how much of the history that alerts are judged by is known so far."""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from bot.model.frame import Frame
from bot.model.policy import Policy
from bot.model.reading import Reading

_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)
_LEVELS = ("neuroncore_utilization_ratio", "gpu_utilization_ratio")


def learning(reading: Reading, policy: Policy) -> str:
    """Return how many days of history the watch has learnt from, and which alerts wait for more.

    "" once it knows them all.
    """
    nodes, days = reading.frame("node"), policy.number("alert.usual_days")
    known = _known(nodes) / _DAY if nodes else days
    said = []
    if known < days:
        waits = policy.number("odd.silent_days")
        later = (
            f"; nodes unlike their peers are told after {waits:g}"
            if known < waits and policy.on("odd.on")
            else ""
        )
        said.append(f"Learning: {int(known)} of {days:g} days of history are known{later}.")
    return " ".join([*said, reading.learning] if reading.learning else said)


def _known(nodes: Frame) -> timedelta:
    """Return how long ago the first reading is, to the hour.

    A frame may begin with steps that nobody has read.
    """
    every = nodes.steps(_HOUR)
    read = [
        ~np.isnan(nodes.of(name)[:, ::every]).all(axis=0) for name in _LEVELS if nodes.has(name)
    ]
    first = np.flatnonzero(np.logical_or.reduce(read)).tolist() if read else []
    return (nodes.n_steps - first[0] * every) * nodes.step if first else timedelta(0)
