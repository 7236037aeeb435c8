"""What goes wrong, each with the label that says so.

An incident is given its group and its hours before normal life is drawn, which then keeps the
group's jobs steady there. It changes the finished arrays, and so its label never says more than they show.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tests.worlds.fleet import DAY, HOUR, Group, Pod, World
from tests.worlds.jobs import job_name, prepare


@dataclass
class Incident:
    """Hold what is to happen, to whom and when."""

    kind: str
    group: Group
    start: int
    end: int


@dataclass(frozen=True)
class Kind:
    """Hold how an incident changes the arrays, in whose groups it may, and for how long (hours)."""

    befall: Callable[[World, Incident], dict]
    groups: tuple[str, ...]
    hours: tuple[int, int]
    cause: str
    grace_minutes: int = 0
    also: tuple[str, ...] = ()


def lost_dollars(world: World, incident: Incident, slots: list[int], share: float) -> float:
    """Return the price of some nodes in the hours of an incident, times the share that is lost."""
    start, end = incident.start, incident.end
    hours = float(world.alive[slots, start:end].sum()) / HOUR
    return round(hours * incident.group.hardware.usd_per_hour * share, 2)


def result(world: World, incident: Incident, slots: list[int], share: float | None) -> dict:
    """Return the part of a label that tells whom it befell and what that cost."""
    ids = world.ids(slots, incident.start, incident.end)
    usd = None if share is None else lost_dollars(world, incident, slots, share)
    return {"instances": ids, "nodes": len(ids), "usd": usd}


def scale(world: World, incident: Incident, slots: list[int], **factors: float) -> None:
    """Multiply some quantities of some nodes for the incident's hours."""
    for name, factor in factors.items():
        world.signals[name][slots, incident.start : incident.end] *= factor


def slow_down(incident: Incident, speed: float) -> None:
    """Slow the group's run, where it has one that speaks."""
    if incident.group.run:
        incident.group.run.speed[incident.start : incident.end] *= speed


def starve(world: World, incident: Incident) -> dict:
    """Let the cores wait for input: from CPUs that are full, or from a storage that is slow."""
    slots, left = incident.group.slots, float(world.rng.uniform(0.25, 0.5))
    if incident.group.name == "trials":
        slots = slots[:1]
    scale(world, incident, slots, util=left, efa=left)
    busy = 96.0 if world.rng.random() < 0.6 else 5.0
    hours = slice(incident.start, incident.end)
    world.signals["cpu"][slots, hours] = busy + world.noise(
        len(slots), incident.end - incident.start
    )
    slow_down(incident, left)
    return result(world, incident, slots, 1 - left)


def congest(world: World, incident: Incident) -> dict:
    """Lose packets: collectives take twice as long, and cores that wait for them look busy."""
    slots, hours = incident.group.slots, slice(incident.start, incident.end)
    lost = float(np.exp(world.rng.uniform(np.log(300), np.log(3000))))
    for name, level in (("dropped", lost), ("resent", 3 * lost)):
        noise = world.rng.uniform(0.4, 1.6, (len(slots), incident.end - incident.start))
        world.signals[name][slots, hours] = level * noise
    slots, speed = slow_collectives(world, incident)
    return result(world, incident, slots, 1 - speed)


def detour(world: World, incident: Incident) -> dict:
    """Slow the collectives without a loss, as after nodes were placed far from each other."""
    slots, speed = slow_collectives(world, incident)

    # Larger batches look alike: that it is slower, only a run's steps tell.
    also = [] if incident.group.run else ["odd"]
    return result(world, incident, slots, 1 - speed) | {"also": also}


def slow_collectives(world: World, incident: Incident) -> tuple[list[int], float]:
    """Let steps take twice as long, and return whose and the speed that is left."""
    slots, speed = incident.group.slots, float(world.rng.uniform(0.42, 0.52))
    scale(world, incident, slots, efa=speed, latency=1 / speed)
    slow_down(incident, speed)
    return slots, speed


def drag(world: World, incident: Incident) -> dict:
    """Let one node be slow, for which all others wait."""
    slots, speed = incident.group.slots, float(world.rng.uniform(0.52, 0.65))
    slow, hours = slots[world.integer(0, len(slots) // 2)], slice(incident.start, incident.end)
    peers = [slot for slot in slots if slot != slow]
    scale(world, incident, peers, util=speed, efa=speed)
    scale(world, incident, [slow], efa=speed, latency=1 / speed)
    util = world.signals["util"]
    util[slow, hours] = np.minimum(99, util[slow, hours] * 1.05)
    slow_down(incident, speed)
    return result(world, incident, slots, 1 - speed) | {
        "straggler": world.ids([slow], 0, world.steps)
    }


def hang(world: World, incident: Incident) -> dict:
    """Stop every node with its memory held: waiting at nothing, or spinning."""
    slots, hours = incident.group.slots, slice(incident.start, incident.end)
    if incident.group.name == "trials":
        slots = slots[-1:]
    spins = incident.group.name != "rl" and world.rng.random() < 0.4
    for name in ("util", "spread", "latency", "efa"):
        world.signals[name][slots, hours] = 0
    for name in ("peak", "floor"):
        world.signals[name][slots, hours] = np.nan
    if spins:
        world.signals["util"][slots, hours] = 100
    world.signals["cpu"][slots, hours] = 3.0
    slow_down(incident, 0)
    if spins:
        return result(world, incident, slots, 1.0) | {"form": "spinning"}

    # Whether a job hangs, or sleeps with its model loaded, only its steps would tell.
    also = [] if incident.group.run else ["allocated_unused"]
    return result(world, incident, slots, 1.0) | {"form": "zero", "also": also}


def pair_of(world: World, incident: Incident) -> list[int]:
    """Return the nodes of one job of the group."""
    slots = incident.group.slots
    if incident.group.name != "karpenter":
        return slots
    first = 2 * world.integer(0, 1)
    return slots[first : first + 2]


def end_jobs(world: World, incident: Incident, slots: list[int], next_job: int) -> None:
    """Let the pods on some nodes end; those of another job follow at a later step."""
    start, name = incident.start, job_name(world)
    for pod in [x for x in world.pods if x.slot in slots and x.start < start < x.end]:
        later = Pod(pod.group, name, pod.slot, next_job, pod.end, pod.cores)
        world.pods.append(later)
        pod.end = start


def desert(world: World, incident: Incident) -> dict:
    """End a job and keep its nodes."""
    slots = pair_of(world, incident)
    world.clear(slots, incident.start, incident.end)
    world.signals["reserved"][slots, incident.start : incident.end] = 0
    end_jobs(world, incident, slots, incident.end)
    prepare(world, slots, incident.end, incident.end + 1)
    if incident.group.run:
        incident.group.run.speed[incident.start : incident.end] = np.nan
        incident.group.run.restarts.append(incident.end)
    return result(world, incident, slots, 1.0)


def hoard(world: World, incident: Incident) -> dict:
    """Hold all cores by a pod that sleeps, or by a notebook's kernel with a small model."""
    slots = pair_of(world, incident)
    world.clear(slots, incident.start, incident.end)
    end_jobs(world, incident, slots, incident.start)
    kernel = world.rng.random() < 0.5
    if kernel:
        world.signals["tensors"][slots, incident.start : incident.end] = 0.08
        world.signals["code"][slots, incident.start : incident.end] = 0.01
    prepare(world, slots, incident.end, incident.end + 1)
    return result(world, incident, slots, 1.0) | {"form": "kernel" if kernel else "sleep"}


def compile_long(world: World, incident: Incident) -> dict:
    """Let a new job compile for hours."""
    slots = pair_of(world, incident)
    prepare(world, slots, incident.start, incident.end)
    end_jobs(world, incident, slots, incident.start)
    return result(world, incident, slots, 1.0)


def compile_again(world: World, incident: Incident) -> dict:
    """Restart a job that lost its compiled graphs."""
    slots = incident.group.slots
    prepare(world, slots, incident.start, incident.end)
    slow_down(incident, 0)
    if incident.group.run:
        incident.group.run.restarts.append(incident.start)
    return result(world, incident, slots, 1.0)


def swell(world: World, incident: Incident) -> dict:
    """Fill the device memory hour by hour; the label begins at 92 %."""
    slots, hours = incident.group.slots, slice(incident.start, incident.end)
    length = incident.end - incident.start
    tensors = world.signals["tensors"]
    top = 0.975 - world.signals["code"][slots[0], incident.start]
    rise = np.minimum(1, np.linspace(0, 1.6, length))
    tensors[slots, hours] += (top - tensors[slots, hours]) * rise
    used = tensors[slots, hours] + world.signals["code"][slots, hours]
    crossed = incident.start + int(np.argmax(used.max(0) >= 0.92))
    return result(world, incident, slots, None) | {"start": world.at(crossed)}


def one_of(world: World, incident: Incident) -> list[int]:
    """Return one node of the group."""
    return [incident.group.slots[world.integer(0, len(incident.group.slots) - 1)]]


def err(world: World, incident: Incident) -> dict:
    """Let executions fail on one node, and go on."""
    slots, length = one_of(world, incident), incident.end - incident.start
    rate = world.integer(20, 120)
    world.signals["errors"][slots, incident.start : incident.end] = world.rng.poisson(rate, length)
    return result(world, incident, slots, None)


def wear(world: World, incident: Incident) -> dict:
    """Let the memory of one node's chips fail, and some executions with it."""
    slots, length = one_of(world, incident), incident.end - incident.start
    hours = slice(incident.start, incident.end)
    world.signals["ecc"][slots, hours] = world.rng.poisson(world.integer(25, 150), length)
    world.signals["errors"][slots, hours] = world.rng.poisson(4, length)
    return result(world, incident, slots, None)


def skip_checkpoints(world: World, incident: Incident) -> dict:
    """Let no checkpoint finish; the label begins where the next one was due."""
    run = incident.group.run
    before = [x for x in run.checkpoints() if x < incident.start]
    due = before[-1] + run.checkpoint_every
    run.missed.append((incident.start, incident.end))
    label = {"start": world.at(max(due, incident.start)), "run": run.name}
    label["grace_min"] = run.checkpoint_every * 5
    return result(world, incident, incident.group.slots, None) | label


def silence_node(world: World, incident: Incident) -> dict:
    """Let the agent of one node die while the node works on."""
    slots = one_of(world, incident)
    world.read[slots, incident.start : incident.end] = False
    return result(world, incident, slots, None)


def silence_all(world: World, incident: Incident) -> dict:
    """Let the collector of a cluster die."""
    cluster = incident.group.cluster
    slots = [x for group in world.groups.values() if group.cluster is cluster for x in group.slots]
    world.read[slots, incident.start : incident.end] = False
    return result(world, incident, slots, None) | {"notices_expected": 1}


WORKERS = ("elastic", "pipeline", "hyperpod")
KINDS = {
    "starved": Kind(starve, WORKERS, (3, 6), "starved"),
    "starved trial": Kind(starve, ("trials",), (3, 6), "starved"),
    "lossy network": Kind(congest, ("elastic", "pipeline"), (3, 6), "network_bound"),
    "slow collectives": Kind(detour, ("pipeline", "elastic"), (3, 6), "collective_path"),
    "straggler": Kind(drag, ("hyperpod", "elastic"), (3, 6), "straggler", 0, ("hardware_fault",)),
    "hung phases": Kind(hang, ("rl",), (3, 6), "hung"),
    "hung": Kind(hang, ("trials", "pipeline", "hyperpod"), (2, 5), "hung"),
    "idle": Kind(desert, ("karpenter",), (4, 9), "idle", 30),
    "idle cluster": Kind(desert, ("hyperpod",), (4, 8), "idle", 30),
    "hoarded": Kind(hoard, ("karpenter",), (4, 8), "allocated_unused", 30, ("idle",)),
    "long compile": Kind(compile_long, ("karpenter",), (2, 4), "long_compile", 60, ("cold_cache",)),
    "cold cache": Kind(compile_again, ("elastic",), (2, 2), "cold_cache", 60, ("long_compile",)),
    "memory": Kind(swell, ("pipeline", "elastic"), (5, 8), "memory_pressure"),
    "errors": Kind(err, ("rl", "trials"), (2, 5), "execution_errors", 0, ("hardware_fault",)),
    "failing chip": Kind(
        wear, ("rl", "pipeline"), (3, 6), "hardware_fault", 0, ("execution_errors",)
    ),
    "checkpoints": Kind(skip_checkpoints, ("elastic", "hyperpod"), (6, 9), "checkpoint_at_risk"),
    "silent node": Kind(silence_node, ("pipeline", "elastic"), (2, 4), "no_data", 15),
    "silent cluster": Kind(silence_all, ("rl",), (2, 3), "no_data", 15),
}


def plan(world: World) -> list[Incident]:
    """Give every incident a group and hours of its own, and have the group steady there."""
    shares: dict[str, list[str]] = defaultdict(list)
    for kind in world.rng.permutation(list(KINDS)):
        name = min(KINDS[kind].groups, key=lambda group: len(shares[group]))
        shares[name].append(str(kind))

    planned = []
    first, last = int(world.steps * 0.32), world.steps - 8 * HOUR
    for name, kinds in sorted(shares.items()):
        edges = np.linspace(first, last, len(kinds) + 1).astype(int)
        for kind, (begin, until) in zip(kinds, pairwise(edges), strict=True):
            length = world.integer(*KINDS[kind].hours) * HOUR + world.integer(0, 9)
            room = until - begin - length - 3 * HOUR
            if room < 1:
                continue
            start = int(begin) + world.integer(0, room)
            group = world.groups[name]
            group.steady.append((start, start + length))
            planned.append(Incident(kind, group, start, start + length))
    return sorted(planned, key=lambda incident: incident.start)


def befall(world: World, planned: list[Incident]) -> None:
    """Change the arrays and write the labels."""
    for incident in planned:
        kind, group = KINDS[incident.kind], incident.group
        label = {
            "cause": kind.cause,
            "variant": incident.kind,
            "labels": world.place(group.cluster),
            "start": world.at(incident.start),
            "end": world.at(incident.end),
            "severity": "major",
            "also": list(kind.also),
            "grace_min": kind.grace_minutes,
        }
        world.labels.append(label | kind.befall(world, incident))


def jump(world: World) -> None:
    """Let two lines of the bill jump for some days."""
    cluster = world.groups["karpenter"].cluster
    for line, service, cause, usd in (
        ("requests", "AmazonS3", "spend_jump", 60.0),
        ("transfer", "AmazonEC2", "transfer_route", 45.0),
    ):
        start = int(world.steps * 0.35) // HOUR * HOUR + world.integer(0, 20) * HOUR
        end = min(start + world.integer(40, 70) * HOUR, world.steps - 2 * DAY)
        if end <= start:
            continue
        world.jumps.append((line, start, end, usd))
        label = {"cause": cause, "variant": line, "start": world.at(start), "end": world.at(end)}
        place = {"account": world.account, "region": cluster.region, "service": service}
        label["labels"] = place
        money = {"usd": round(usd * (end - start) / HOUR, 2), "instances": [], "nodes": 0}
        also = [] if cause == "spend_jump" else ["spend_jump"]
        world.labels.append(label | money | {"severity": "major", "also": also, "grace_min": 1440})
