"""Tell small stories: what befalls some nodes or a bill, and when the watch looks at them.

The modules `stories_*` tell them, by topic. They walk every branch of the detectors; `test_goldens.py` has what is told of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
from builder import START, STEP, Fleet, World, hours

from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.policy.schema import default_policy


@dataclass(frozen=True)
class Story:
    """Hold what a world is called, how it is made, and when the watch looks at it."""

    title: str
    world: Callable[[], World]
    looks: tuple[datetime, ...]


STORIES: dict[str, list[Story]] = {}
"""By topic: each has one golden."""


def story(topic: str, *looks: float | datetime) -> Callable[[Callable[[], World]], None]:
    """Register a world under a topic, with the hours after its start at which it is looked at."""
    times = {look if isinstance(look, datetime) else on_the_grid(look) for look in looks}

    def register(make: Callable[[], World]) -> None:
        title = make.__name__.replace("_", " ").strip().capitalize()
        STORIES.setdefault(topic, []).append(Story(title, make, tuple(sorted(times))))

    return register


def every(minutes: float, start: float, end: float) -> tuple[datetime, ...]:
    """Return the times every so many minutes from one hour after the start to another, both included."""
    step, length = timedelta(minutes=minutes), timedelta(hours=end - start)
    return tuple(on_the_grid(start) + i * step for i in range(round(length / step) + 1))


def on_the_grid(hour: float) -> datetime:
    """Return the tick nearest to an hour after the start."""
    return START + round(hour * 60 / 5) * STEP


def policy(**values: object) -> Policy:
    """Return the default policy with some settings changed; `__` stands for a point."""
    changed = {key.replace("__", "."): value for key, value in values.items()}
    return replace(default_policy(), values={**default_policy().values, **changed})


NAN = float("nan")
STILL = {"neuroncore_utilization": 0, "neuron_execution_latency": NAN, "efa": 0, "host_cpu": 0.03}
SOME, ONE = slice(0, 2), slice(0, 1)


def unread(fleet: Fleet, *prefixes: str) -> Fleet:
    """Take away some metrics for good."""
    return fleet.set(START, START + timedelta(days=fleet.days), **dict.fromkeys(prefixes, NAN))


def rarely_read(fleet: Fleet, steps: int = 2) -> Fleet:
    """Let the agents send one reading in so many steps."""
    for name, values in fleet.metrics.items():
        fleet.metrics[name] = np.repeat(values[:, ::steps], steps, axis=1)[:, : values.shape[1]]
    return fleet


def with_nodes(world: World, **changes: object) -> World:
    """Let the inventory tell something else of each node."""
    plain = world.inventory

    def changed(now: datetime):
        inventory = plain(now)
        nodes = {k: replace(x, **changes) for k, x in inventory.instances.items()}
        return replace(inventory, instances=nodes)

    world.inventory = changed
    return world


def progress(fleet, slow_from=None, slow_to=None, share=0.5, job="", metric="run_step_count"):
    """Return the frame of the fleet's run, which goes on at a share of its rate for a time."""
    frame = fleet.frame()
    rates = np.full(frame.n_steps, 30.0)
    if slow_from is not None:
        rates[fleet.cut(hours(slow_from), hours(slow_to))[1]] *= share
    counts = np.cumsum(rates)[None, :, None].astype(np.float32)
    things = (Labels(cluster=fleet.cluster, job=job),)
    return replace(frame, kind="run", things=things, metrics=(metric,), values=counts)
