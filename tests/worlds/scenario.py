"""From a scenario's name and a seed to everything that happens."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime, timedelta

import numpy as np

from tests.worlds.fleet import DAY, Cluster, Group, World
from tests.worlds.incidents import befall, jump, plan
from tests.worlds.jobs import LIFE, hiccups, job_name

SCENARIOS = ("calm", "mixed")
CHANGES = (
    (datetime(2026, 3, 8, tzinfo=UTC), "America/New_York", "us-east-1"),
    (datetime(2026, 11, 1, tzinfo=UTC), "America/New_York", "us-east-1"),
    (datetime(2026, 3, 29, tzinfo=UTC), "Europe/Berlin", "eu-central-1"),
    (datetime(2026, 10, 25, tzinfo=UTC), "Europe/Berlin", "eu-central-1"),
)
"""Days on which clocks change, where, and a region with inf2 there."""
GROUPS = (
    # name, cluster, nodes, type, purpose
    ("elastic", "train", 16, "trn1.32xlarge", ""),
    ("pipeline", "train", 4, "trn1.32xlarge", ""),
    ("rl", "align", 4, "trn1.32xlarge", ""),
    ("block", "align", 1, "trn2.48xlarge", ""),
    ("karpenter", "queue", 4, "trn1.32xlarge", ""),
    ("shared", "queue", 1, "trn1.32xlarge", ""),
    ("trials", "queue", 2, "trn1.32xlarge", ""),
    ("standby", "queue", 1, "trn1.2xlarge", "standby"),
    ("interactive", "queue", 1, "trn1.2xlarge", "interactive"),
    ("debug", "queue", 1, "trn1.2xlarge", "debug"),
    ("hyperpod", "pod", 3, "ml.trn1.32xlarge", ""),
    ("serve", "serve", 2, "inf2.48xlarge", ""),
)
NAMES_OF_JOBS = ("elastic", "pipeline", "rl")
"""Groups whose nodes carry their job's name as a tag."""


def build(scenario: str, seed: int, days: int = 8) -> World:
    """Let a scenario happen."""
    rng = np.random.default_rng([seed, zlib.crc32(scenario.encode())])
    change, zone, served = CHANGES[seed % len(CHANGES)]
    world = World(
        scenario=scenario,
        seed=seed,
        start=change - timedelta(days=days // 2),
        steps=days * DAY,
        zone=zone,
        account="".join(map(str, rng.integers(1, 10, 12))),
        rng=rng,
        slots=sum(nodes for _, _, nodes, _, _ in GROUPS),
    )
    people(world, served)

    planned = plan(world) if scenario == "mixed" else []
    for name, group in world.groups.items():
        LIFE[name](world, group)
    hiccups(world)
    lose_points(world)
    befall(world, planned)
    if scenario == "mixed":
        jump(world)

    # What is not there shows nothing.
    world.read &= world.alive
    world.labels.sort(key=lambda label: (label["start"], label["cause"]))
    for number, label in enumerate(world.labels):
        label["id"] = f"L{number:02d}"
    return world


def people(world: World, served: str) -> None:
    """Give every group its cluster, slots and tags."""
    word = str(
        world.rng.choice(["amber", "basalt", "cedar", "dune", "elm", "flint", "grove", "heath"])
    )
    regions = {"train": "us-east-1", "align": "us-east-2", "queue": "us-west-2", "pod": "us-west-2"}
    clusters = {
        name: Cluster(f"{word}-{name}", region, hyperpod=name == "pod")
        for name, region in (regions | {"serve": served}).items()
    }
    first = 0
    for name, cluster, nodes, kind, purpose in GROUPS:
        slots = list(range(first, first + nodes))
        first += nodes
        tags = {"purpose": purpose} if purpose else {}
        if name in NAMES_OF_JOBS:
            tags["job"] = job_name(world)
        if name == "serve":
            tags["job"] = "serve-" + job_name(world)
        team = str(world.rng.choice(["language", "robotics", "research", "products"]))
        world.groups[name] = Group(name, clusters[cluster], slots, kind, team, tags)


def lose_points(world: World) -> None:
    """Lose a point here and there, and ten minutes of each cluster while its agents are upgraded."""
    world.read &= world.rng.random(world.read.shape) > 0.0003
    for cluster in {group.cluster.name: group.cluster for group in world.groups.values()}.values():
        slots = [x for g in world.groups.values() if g.cluster is cluster for x in g.slots]
        for slot in slots if world.rng.random() < 0.5 else [slots]:
            start = world.integer(DAY, world.steps - DAY)
            end = start + world.integer(1, 2)
            # A point lost right beside an upgrade would make a silence that is worth an alert.
            world.read[slot, start - 1 : end + 1] = True
            world.read[slot, start:end] = False
