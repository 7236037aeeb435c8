"""A run's nodes by how they worked: none without a runtime, none that goes up and down by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from adapters.store.memory import MemoryStore
from bot.answers.cost.goodput import node_time
from bot.answers.runs.costed import strangers, without_runtime
from bot.knowledge import load_knowledge
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import utilization_of
from tests.answers.advice_world import STEPS, World, ask
from tests.builders import FIVE, NOON, ports_over

RANDOM = np.random.default_rng(7)
PACE = 0.8 - 0.2 * (RANDOM.random(STEPS) < 0.2)


def noisy(pace, scale=0.01):
    return pace + RANDOM.normal(0, scale, STEPS)


def nodes(*levels, memory=None) -> Frame:
    things = tuple(Labels(cluster="vision", instance=f"i-{n}") for n in range(len(levels)))
    held = np.full((len(levels), STEPS), np.nan) if memory is None else np.array(memory)
    values = np.stack([np.array(levels), held], axis=2)
    metrics = ("neuroncore_utilization_ratio", "neuron_runtime_memory_used_bytes")
    return Frame("node", things, NOON - STEPS * FIVE, FIVE, metrics, values)


def test_nodes_that_move_by_themselves_are_strangers() -> None:
    group = [noisy(PACE) for _ in range(12)]
    sweeps = [noisy(0.7 - 0.3 * (RANDOM.random(STEPS) < 0.2)) for _ in range(4)]
    found = strangers(utilization_of(nodes(*group, *sweeps)))
    assert found.tolist() == [False] * 12 + [True] * 4


def test_of_steady_work_nothing_is_told() -> None:
    assert not strangers(utilization_of(nodes(*(np.full(STEPS, 0.9) for _ in range(4))))).any()
    assert not strangers(utilization_of(nodes(*(noisy(0.9) for _ in range(6))))).any()


def test_a_node_that_failed_for_a_while_or_was_hardly_read_is_no_stranger() -> None:
    group = [noisy(PACE) for _ in range(6)]
    failed = np.where(np.arange(STEPS) < STEPS - 18, noisy(PACE), 0.0)
    short = np.where(np.arange(STEPS) < STEPS - 12, np.nan, 0.5)
    assert not strangers(utilization_of(nodes(*group, failed, short))).any()


@pytest.mark.parametrize(
    ("level", "memory", "expected"),
    [(0.0, 0.0, True), (0.0, 2.0**30, False), (0.5, 0.0, False), (np.nan, np.nan, False)],
)
def test_a_node_without_a_runtime_is_one_that_was_read(level, memory, expected) -> None:
    frame = nodes(np.full(STEPS, level), memory=[np.full(STEPS, memory)])
    assert without_runtime(frame).tolist() == [expected]


def vision(levels, names=()) -> World:
    world = World(
        ("vision", "trn1n.32xlarge", "us-east-1", len(levels), 0.9, 400.0),
        runs=(("vit", "vision", 36e6, 22e9),),
    )
    frame = world.reading.frame("node")
    values = frame.values.copy()
    values[:, :, 0] = levels
    values[np.array(levels).max(axis=1) == 0, :, 1] = 0.0
    reading = replace(
        world.reading, frames={**world.reading.frames, "node": replace(frame, values=values)}
    )
    instances = reading.inventory.instances
    for n, name in enumerate(names):
        key = f"i-vision{n}"
        instances[key] = replace(instances[key], tags={"Name": name})
    world.reading = reading
    return world


GROUP = [noisy(PACE) for _ in range(12)]
SWEEPS = [noisy(0.7 - 0.3 * (RANDOM.random(STEPS) < 0.2)) for _ in range(3)]
NONE = np.zeros(STEPS)


def test_a_run_is_charged_with_the_nodes_that_moved_with_it() -> None:
    """It was charged with all sixteen nodes of its cluster: a third too much."""
    card = ask(vision([*GROUP, *SWEEPS, NONE]), "runs vit")
    assert card.data["nodes"] == pytest.approx(12)
    assert card.data["counted_by"] == "how they worked, up and down together"


def test_a_run_is_never_charged_with_a_node_without_a_runtime() -> None:
    steady = [np.full(STEPS, 0.9)] * 3
    card = ask(vision([*steady, NONE]), "runs vit")
    assert (card.data["nodes"], card.data["counted_by"]) == (3, "the whole cluster")


def test_nodes_are_a_runs_by_their_names_unless_all_are_called_so() -> None:
    steady = [np.full(STEPS, 0.9)] * 4
    named = ask(vision(steady, ["vision-vit-0", "Vision-ViT-1", "vision-vit2-0", "x"]), "runs vit")
    assert (named.data["nodes"], named.data["counted_by"]) == (2, "their names")
    alike = ask(vision(steady, ["vit-0", "vit-1", "vit-2", "vit-3"]), "runs vit")
    assert (alike.data["nodes"], alike.data["counted_by"]) == (4, "the whole cluster")


@pytest.mark.parametrize(
    ("jobs", "llama", "longer"),
    [
        ({}, {"i-vision0"}, {"i-vision1", "i-vision2"}),
        # A tag names its job however the node is called.
        ({1: "llama"}, {"i-vision1"}, {"i-vision2"}),
    ],
)
def test_a_node_whose_name_holds_two_jobs_is_of_one_in_every_answer(jobs, llama, longer) -> None:
    """A node called llama-8b-0 was charged to `llama` and to `llama-8b`."""
    names = ("llama-0", "llama-8b-0", "llama-8b-1", "sweep")
    world = World(
        ("vision", "trn1n.32xlarge", "us-east-1", 4, 0.9, 400.0),
        runs=(("llama", "vision", 36e6, 8e9), ("llama-8b", "vision", 36e6, 8e9)),
    )
    instances = world.reading.inventory.instances
    for n, name in enumerate(names):
        node = instances[f"i-vision{n}"]
        labels = replace(node.labels, job=jobs.get(n, ""))
        instances[node.id] = replace(node, labels=labels, tags={"Name": name})

    for run, nodes in (("llama", llama), ("llama-8b", longer)):
        assert ask(world, f"runs {run}").data["nodes"] == len(nodes)

    ports = ports_over(world, MemoryStore(), knowledge=load_knowledge(), compiles=lambda *_: ())
    time = node_time(ports, world.reading, world.reading.frame("node").window)
    for run, nodes in (("llama", llama), ("llama-8b", longer)):
        (rows,) = np.where((time.jobs == time.job_names.index(run)).any(axis=1))
        assert {time.nodes.things[row].instance for row in rows} == nodes
