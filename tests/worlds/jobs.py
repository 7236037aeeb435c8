"""Normal life: how the jobs of each group look, and how their nodes come and go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

import numpy as np

from tests.worlds.fleet import DAY, FOREVER, HOUR, STEP, Group, Pod, Run, World

MODELS = ["bloom", "falcon", "gemma", "mamba", "olmo", "pythia", "starcoder", "yi"]


@dataclass(frozen=True)
class Look:
    """Hold how one job looks on a node that is busy with it."""

    level: float
    tensors: float
    latency: float
    efa: float
    code: float = 0.06
    cpu: float = 14
    host: float = 22
    jitter: float = 1.0
    spread: float = 2.0


def draw(world: World, single: bool = False) -> Look:
    """Draw the look of a job."""
    rng = world.rng
    return Look(
        level=rng.uniform(68, 93),
        tensors=rng.uniform(0.4, 0.72),
        latency=rng.uniform(0.08, 0.9),
        efa=0.0 if single else rng.uniform(0.15, 0.4),
        code=rng.uniform(0.04, 0.09),
        cpu=rng.uniform(8, 24),
        host=rng.uniform(14, 40),
        jitter=rng.uniform(0.4, 1.6),
        spread=rng.uniform(1, 4),
    )


def job_name(world: World) -> str:
    """Draw a name for a job."""
    return f"{world.rng.choice(MODELS)}-{world.hexadecimal(4)}"


def paint(world: World, slots: list[int], start: int, end: int, look: Look) -> None:
    """Let a job work on some nodes for [start, end)."""
    start, end = max(0, start), min(world.steps, end)
    if end <= start:
        return

    signals, here = world.signals, (slots, slice(start, end))
    rows, columns = len(slots), end - start
    shared, single = world.noise(1, columns, 18), world.noise(rows, columns, 4)
    level = look.level + look.jitter * (shared + 0.6 * single)
    signals["util"][here] = np.clip(level, 0.5, 99.2)
    signals["spread"][here] = look.spread
    signals["tensors"][here], signals["code"][here] = look.tensors, look.code
    signals["latency"][here] = look.latency * (1 + 0.012 * world.noise(rows, columns, 3))
    signals["efa"][here] = look.efa * (1 + 0.03 * world.noise(rows, columns, 3))
    signals["cpu"][here] = np.clip(look.cpu * (1 + 0.08 * world.noise(rows, columns)), 1, 99)
    signals["host"][here] = look.host
    signals["peak"][here] = signals["floor"][here] = np.nan


def prepare(world: World, slots: list[int], start: int, end: int) -> None:
    """Let a job compile or load before it works: busy CPUs, no runtime yet."""
    world.clear(slots, start, end)
    signals, here = world.signals, (slots, slice(start, end))
    signals["cpu"][here] = world.rng.uniform(55, 92)
    signals["host"][here] = world.rng.uniform(12, 30)


def reserve(world: World, group: Group, name: str, slots: list[int], start: int, end: int) -> None:
    """Give all cores of some nodes to the pods of a job."""
    start, end = max(0, start), min(world.steps, end)
    cores = group.hardware.cores
    world.signals["reserved"][slots, start:end] = cores
    for slot in slots:
        world.pods.append(Pod(group, name, slot, start, end, cores))


def settle(world: World, group: Group) -> None:
    """Let every slot hold one old instance to the end."""
    for slot in group.slots:
        world.launch(group, slot, -FOREVER, world.steps + 1)


def run_of(world: World, group: Group, name: str) -> Run:
    """Let a group's job tell of its progress."""
    run = Run(
        name,
        group,
        np.ones(world.steps),
        steps_per_minute=float(world.rng.uniform(5, 30)),
        tokens_per_step=int(2 ** world.integer(17, 21)),
        checkpoint_every=world.integer(6, 11),
    )
    world.runs.append(run)
    group.run = run
    return run


def elastic(world: World, group: Group) -> None:
    """Train on sixteen nodes, on twelve while four are elsewhere, on sixteen again."""
    look, name = draw(world), group.tags["job"]
    core, guests = group.slots[:12], group.slots[12:]
    run = run_of(world, group, name)
    paint(world, group.slots, 0, world.steps, look)
    reserve(world, group, name, core, 0, world.steps)
    for slot in core:
        world.launch(group, slot, -FOREVER, world.steps + 1)

    leave, came = 0, -FOREVER
    for day in range(1, world.steps // DAY):
        leave = day * DAY + world.integer(2, 12) * HOUR
        back = leave + world.integer(3, 8) * HOUR
        if not group.is_free(leave, back + 3) or world.rng.random() < 0.3:
            continue
        for slot in guests:
            world.launch(group, slot, came, leave)
        reserve(world, group, name, guests, came, leave)
        world.clear(guests, leave, back)
        world.signals["reserved"][guests, leave:back] = 0

        # With fewer peers each node has more to do, and the whole is slower by a quarter.
        smaller = replace(look, level=min(96, look.level * 1.02), efa=look.efa * 0.94)
        paint(world, core, leave + 1, back, smaller)
        run.speed[leave:back] = 0.75
        for change in (leave, back):
            restart(world, group, change, core if change == leave else group.slots)
        came = back - 1
    for slot in guests:
        world.launch(group, slot, came, world.steps + 1)
    reserve(world, group, name, guests, came, world.steps)


def restart(world: World, group: Group, step: int, slots: list[int]) -> None:
    """Let a job begin again from its checkpoint, its compiled graphs at hand."""
    prepare(world, slots, step, step + 1)
    if group.run:
        group.run.speed[step] = 0
        group.run.restarts.append(step)


def pipeline(world: World, group: Group) -> None:
    """Train with stages that have unequal work."""
    settle(world, group)
    look = draw(world)
    levels = np.array([91, 74, 66, 53]) + world.rng.uniform(-4, 4, 4)
    for slot, level in zip(group.slots, levels, strict=True):
        stage = replace(look, level=level, tensors=look.tensors * world.rng.uniform(0.75, 1.2))
        paint(world, [slot], 0, world.steps, stage)
    reserve(world, group, group.tags["job"], group.slots, 0, world.steps)


def reinforcement(world: World, group: Group) -> None:
    """Train with half of the nodes, which wait with their models loaded while the others roll out."""
    settle(world, group)
    half = len(group.slots) // 2
    trainers, actors = group.slots[:half], group.slots[half:]
    learn, act = draw(world), draw(world)
    paint(world, trainers, 0, world.steps, learn)
    paint(world, actors, 0, world.steps, replace(act, efa=learn.efa * 0.3, spread=6))
    reserve(world, group, group.tags["job"], group.slots, 0, world.steps)

    # By the minute, as a wait is rarely a whole number of steps: every 25 minutes, 5 to 22 of them.
    waits = world.rng.integers(5, 23, world.steps // 5 + 1)
    busy = (np.arange(25)[None, :] >= waits[:, None]).reshape(-1)[: world.steps * 5]
    share = busy.reshape(world.steps, 5).mean(1)
    signals = world.signals
    top = signals["util"][trainers] + learn.spread
    signals["peak"][trainers] = np.where(share > 0, top, 0)
    signals["floor"][trainers] = np.where(share < 1, 0, signals["util"][trainers] - learn.spread)
    for name in ("util", "efa"):
        signals[name][trainers] *= share
    signals["latency"][trainers] *= share > 0
    signals["util"][actors] *= 0.35 + 0.55 * (1 - share)
    signals["efa"][actors] *= 0.4 + 0.6 * share


def block(world: World, group: Group) -> None:
    """Train in a Capacity Block until shortly before AWS takes the node back."""
    first, last = -11 * DAY, int(world.steps * 0.75) // DAY * DAY + 11 * HOUR + 6
    world.block, group.tags["job"] = (first, last), job_name(world)
    slot = group.slots[0]
    world.launch(group, slot, first + 1, last - 1)
    stop = last - world.integer(6, 8)
    paint(world, group.slots, 0, stop, draw(world, single=True))
    reserve(world, group, group.tags["job"], group.slots, 0, stop)
    benign(world, "idle", "last half hour of a Capacity Block", group, stop, last)


def karpenter(world: World, group: Group) -> None:
    """Run one job after another on pairs of nodes that are made and taken away with the queue."""
    for pair in (group.slots[:2], group.slots[2:]):
        steps, came = world.integer(-40, 0), -FOREVER
        array, look = 0, draw(world)
        while steps < world.steps:
            hours = world.integer(2, 7) * HOUR
            if array:
                hours = world.integer(12, 24)
            end = beyond(world, group, steps, min(steps + hours, world.steps) + 1, 60)
            single_job(world, group, pair, steps, end, look, compiled=array > 0)

            # Members of a job array are alike, and 20 minutes apart; else the next job is another.
            pause = 4
            if array:
                array -= 1
            else:
                array = world.integer(0, 1) * world.integer(2, 4)
            if not array:
                look, pause = draw(world), 1
            if not array and world.rng.random() < 0.3 and end < world.steps:
                for slot in pair:
                    world.launch(group, slot, came, end + 2)
                came = end + world.integer(9, 40)
                pause = came + 1 - end
            steps = end + pause
        for slot in pair:
            world.launch(group, slot, came, world.steps + 1)


def beyond(world: World, group: Group, start: int, end: int, margin: int) -> int:
    """Return a job's end that is not within, nor shortly before, what must stay steady."""
    for first, last in sorted(group.steady):
        if start < last and first < end + margin:
            end = last + world.integer(4, 20)
    return end + world.integer(0, 3)


def single_job(
    world: World, group: Group, slots: list[int], start: int, end: int, look: Look, compiled: bool
) -> None:
    """Run one job from its compile to its end."""
    start = max(0, start)
    if start >= min(end, world.steps):
        return
    length = 1
    if not compiled:
        length = world.integer(1, 2) if world.rng.random() < 0.8 else world.integer(4, 8)
    prepare(world, slots, start, min(end, start + length))
    if length > 2:
        benign(world, "compiling", "compile of a new job", group, start, start + length)
    paint(world, slots, start + length, end, look)
    reserve(world, group, job_name(world), slots, start, end)


def shared(world: World, group: Group) -> None:
    """Share a node among four jobs, a quarter of the cores each, which end one by one."""
    settle(world, group)
    slot, quarter = group.slots[0], group.hardware.cores // 4
    signals, looks = world.signals, [draw(world, single=True) for _ in range(4)]
    busy = np.zeros((4, world.steps))
    for tenant, look in enumerate(looks):
        begin = 0
        while begin < world.steps:
            end = min(world.steps, begin + world.integer(14, 50) * HOUR)
            level = look.level + look.jitter * world.noise(1, end - begin)[0]
            busy[tenant, begin:end] = np.clip(level, 1, 99)
            pod = Pod(group, job_name(world), slot, begin, end, quarter, busy[tenant])
            world.pods.append(pod)
            # One tenant's jobs follow each other at once: the node is never without work.
            begin = end + (world.integer(1, 9) * HOUR if tenant else 1)
    works = busy > 0
    signals["util"][slot] = busy.mean(0)
    signals["peak"][slot], signals["floor"][slot] = busy.max(0) + 1, np.maximum(busy.min(0) - 1, 0)
    signals["reserved"][slot] = quarter * works.sum(0)
    signals["tensors"][slot] = sum(x.tensors / 4 * on for x, on in zip(looks, works, strict=True))
    signals["code"][slot] = 0.015 * works.sum(0)
    latencies = np.array([[x.latency] for x in looks])
    mean = np.where(works, latencies, 0).sum(0) / np.maximum(1, works.sum(0))
    signals["latency"][slot] = mean
    signals["cpu"][slot] = 2 + 4 * works.sum(0)


def trials(world: World, group: Group) -> None:
    """Try one setting after another, whose memory differs by a hair."""
    settle(world, group)
    base = draw(world, single=True)
    for slot in group.slots:
        begin, look = 0, base
        while begin < world.steps:
            end = beyond(world, group, begin, begin + world.integer(6, 14) * HOUR, 20)
            prepare(world, [slot], begin, min(begin + 1, world.steps))
            paint(world, [slot], begin + 1, end, look)
            reserve(world, group, job_name(world), [slot], begin, end)
            look = replace(look, tensors=base.tensors * (1 + world.rng.uniform(0.006, 0.021)))
            begin = end + 1
    world.signals["reserved"][group.slots] = group.hardware.cores


def hyperpod(world: World, group: Group) -> None:
    """Train and evaluate in turns on nodes that EC2 does not list; one is scaled in some nights."""
    look, name = draw(world), job_name(world)
    run = run_of(world, group, name)
    paint(world, group.slots, 0, world.steps, look)
    checks = replace(look, level=look.level * world.rng.uniform(0.4, 0.55), efa=look.efa * 0.05)
    checks = replace(checks, latency=look.latency * 0.45, tensors=look.tensors * 0.93)
    begin = world.integer(8, 14)
    while begin < world.steps:
        end = begin + world.integer(2, 4)
        paint(world, group.slots, begin, end, checks)
        run.speed[begin:end] = 0
        begin = end + world.integer(8, 14)

    guest, came = group.slots[-1], -FOREVER
    for slot in group.slots[:-1]:
        world.launch(group, slot, -FOREVER, world.steps + 1)
    for day in range(1, world.steps // DAY):
        leave = day * DAY + world.integer(1, 14) * HOUR
        back = leave + world.integer(3, 7) * HOUR
        if world.rng.random() < 0.5 or not group.is_free(leave, back):
            continue
        world.launch(group, guest, came, leave)
        world.clear([guest], leave, back)
        run.speed[leave:back] *= 0.68
        for change in (leave, back):
            restart(world, group, change, group.slots)
        came = back - 1
    world.launch(group, guest, came, world.steps + 1)
    reserve(world, group, name, group.slots, 0, world.steps)


def serving(world: World, group: Group) -> None:
    """Answer requests, as many as people send by their own clock."""
    settle(world, group)
    paint(world, group.slots, 0, world.steps, draw(world, single=True))
    zone = ZoneInfo(world.zone)
    local = [(world.start + i * STEP).astimezone(zone) for i in range(world.steps)]
    hours = np.array([moment.hour + moment.minute / 60 for moment in local])
    weekend = np.array([moment.weekday() >= 5 for moment in local])
    demand = np.exp(-(((hours - 14) / 4.2) ** 2)) * np.where(weekend, 0.6, 1)
    signals = world.signals
    rows = len(group.slots)
    level = 7 + 55 * demand + 1.5 * world.noise(rows, world.steps, 4)
    signals["util"][group.slots] = np.clip(level, 1, 95)
    signals["latency"][group.slots] = 0.02 + 0.01 * demand
    signals["cpu"][group.slots] = 4 + 20 * demand
    reserve(world, group, group.tags["job"], group.slots, 0, world.steps)


def standby(world: World, group: Group) -> None:
    """Keep a model loaded for the case that another node fails."""
    settle(world, group)
    signals = world.signals
    signals["tensors"][group.slots], signals["code"][group.slots] = 0.5, 0.05
    signals["host"][group.slots] = 30
    reserve(world, group, "standby-" + world.hexadecimal(4), group.slots, 0, world.steps)


def interactive(world: World, group: Group) -> None:
    """Let a person try things now and then in office hours, on a node that stays."""
    settle(world, group)
    for day in range(world.steps // DAY):
        begin = day * DAY + world.integer(13, 15) * HOUR
        while begin < day * DAY + 22 * HOUR:
            look = replace(draw(world, single=True), level=world.rng.uniform(5, 60))
            end = begin + world.integer(2, 14)
            paint(world, group.slots, begin, end, look)
            begin = end + world.integer(3, 30)
    reserve(world, group, "notebook-" + world.hexadecimal(4), group.slots, 0, world.steps)


def hiccups(world: World) -> None:
    """Let small things happen that everybody lives with: five or ten minutes of slow input or network.

    A few packets are lost all the time, a bit flips now and then, a checkpoint comes late.
    """
    signals, rng = world.signals, world.rng
    for name in ("elastic", "pipeline", "rl", "trials", "hyperpod"):
        group = world.groups[name]
        for _ in range(world.steps // DAY):
            start = world.integer(HOUR, world.steps - HOUR)
            here = (group.slots, slice(start, start + world.integer(1, 2)))
            if not group.is_free(start, start + 2, 3 * HOUR):
                continue
            speed = rng.uniform(0.6, 0.85)
            signals["efa"][here] *= speed
            if rng.random() < 0.5:
                signals["util"][here] *= speed
            else:
                signals["latency"][here] /= speed
                signals["dropped"][here] += rng.uniform(20, 200)
            if group.run:
                group.run.speed[here[1]] *= speed
        if group.run:
            late = world.integer(DAY, world.steps - DAY)
            if group.is_free(late, late + 2 * group.run.checkpoint_every):
                group.run.missed.append((late, late + group.run.checkpoint_every // 2))
        if name in ("elastic", "pipeline"):
            signals["dropped"][group.slots] += np.rint(
                rng.exponential(6, (len(group.slots), world.steps))
            )

    signals["ecc"] += rng.random(signals["ecc"].shape) < 2e-5
    failed = rng.random(signals["errors"].shape) < 1e-5
    signals["errors"] += failed & (signals["latency"] > 0)


def benign(world: World, cause: str, why: str, group: Group, start: int, end: int) -> None:
    """Note for the grader what may be taken for an incident and is none."""
    end = min(end, world.steps)
    note = {"cause": cause, "why": why, "labels": world.place(group.cluster)}
    world.benign.append(note | {"start": world.at(start), "end": world.at(end)})


LIFE: dict[str, Callable[[World, Group], None]] = {
    "elastic": elastic,
    "pipeline": pipeline,
    "rl": reinforcement,
    "block": block,
    "karpenter": karpenter,
    "shared": shared,
    "trials": trials,
    "hyperpod": hyperpod,
    "serve": serving,
    "standby": standby,
    "interactive": interactive,
    "debug": interactive,
}
"""What each group does, by its name."""
