"""The invented fleet itself: it repeats, its labels are true, and calm is calm."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

from tests.worlds.fleet import World
from tests.worlds.grade import MONEY, grade
from tests.worlds.incidents import KINDS
from tests.worlds.recording import write
from tests.worlds.scenario import GROUPS, build

SEEDS = (1, 2)


@cache
def world_of(scenario: str, seed: int) -> World:
    return build(scenario, seed)


def window(world: World, label: dict) -> tuple[list[int], slice]:
    """Return a label's slots and its steps."""
    starts = {world.at(step): step for step in range(world.steps + 1)}
    slots = [x.slot for x in world.instances if x.id in label["instances"]]
    return slots, slice(starts[label["start"]], starts[label["end"]])


def shows(world: World, label: dict) -> bool:
    """Return whether the arrays show what a label says."""
    slots, during = window(world, label)
    before = slice(during.start - 36, during.start)

    def mean(name: str, hours: slice) -> float:
        return float(world.signals[name][slots, hours].mean())

    def ratio(name: str) -> float:
        return mean(name, during) / max(mean(name, before), 1e-9)

    still = mean("util", during) < 0.5
    cause = label["cause"]
    if cause == "hung":
        loaded = mean("tensors", during) > 0.1
        return loaded and mean("latency", during) == 0
    if cause == "checkpoint_at_risk":
        run = next(x for x in world.runs if x.name == label["run"])
        return not any(during.start <= x < during.stop for x in run.checkpoints())
    if cause == "memory_pressure":
        used = world.signals["tensors"][slots, during] + world.signals["code"][slots, during]
        return bool(used.max() > 0.96)
    truths = {
        "starved": ratio("util") < 0.7,
        "network_bound": mean("dropped", during) > 200 and ratio("latency") > 1.6,
        "collective_path": mean("dropped", during) < 30 and ratio("latency") > 1.6,
        "straggler": ratio("efa") < 0.8,
        "idle": still and mean("reserved", during) == 0,
        "allocated_unused": still and mean("reserved", during) > 0,
        "long_compile": still and mean("cpu", during) > 50,
        "cold_cache": still and mean("cpu", during) > 50,
        "execution_errors": mean("errors", during) > 10,
        "hardware_fault": mean("ecc", during) > 10,
        "no_data": not world.read[slots, during].any(),
    }
    return bool(truths[cause])


@pytest.mark.parametrize("seed", SEEDS)
def test_calm_has_no_labels_and_no_faults(seed):
    world = world_of("calm", seed)
    assert world.labels == []
    assert world.jumps == []
    assert world.signals["errors"].max() <= 1
    assert world.signals["ecc"].max() <= 1
    assert world.signals["dropped"].max() < 300


@pytest.mark.parametrize("seed", [*SEEDS, 5])
def test_no_node_of_a_calm_fleet_is_silent_for_a_quarter_of_an_hour(seed):
    world = world_of("calm", seed)
    silent = ~world.read & world.alive
    assert not (silent[:, 2:] & silent[:, 1:-1] & silent[:, :-2]).any()


@pytest.mark.parametrize("seed", SEEDS)
def test_nearly_every_kind_of_incident_finds_a_place(seed):
    happened = {label["variant"] for label in world_of("mixed", seed).labels}
    assert len(KINDS.keys() - happened) <= 2
    assert {"requests", "transfer"} <= happened


@pytest.mark.parametrize("seed", SEEDS)
def test_every_label_has_its_effect_in_the_metrics(seed):
    world = world_of("mixed", seed)
    incidents = [label for label in world.labels if label["cause"] not in MONEY]
    assert [label for label in incidents if not shows(world, label)] == []


@pytest.mark.parametrize("seed", SEEDS)
def test_no_two_incidents_befall_one_node_at_once(seed):
    world = world_of("mixed", seed)
    taken = np.zeros((world.slots, world.steps))
    for label in world.labels:
        slots, during = window(world, label)
        taken[sorted(set(slots)), during] += 1
    assert taken.max() == 1


def test_a_slot_holds_one_instance_at_a_time():
    world = world_of("mixed", 1)
    held = np.zeros((world.slots, world.steps))
    for instance in world.instances:
        held[instance.slot, max(0, instance.start) : max(0, instance.end)] += 1
    assert held.max() == 1
    assert world.slots == sum(nodes for _, _, nodes, _, _ in GROUPS) == 40


def test_the_same_arguments_write_the_same_bytes(tmp_path):
    for name in ("once", "again"):
        world = build("calm", 3, days=2)
        # Some nodes stand for all.
        world.instances = [x for x in world.instances if x.end > world.steps][::4]
        slots = {x.slot for x in world.instances}
        world.pods = [pod for pod in world.pods if pod.slot in slots]
        write(world, tmp_path / name)
    files = [x for x in sorted((tmp_path / "once").rglob("*")) if x.is_file()]
    assert files
    for file in files:
        assert (
            file.read_bytes()
            == (tmp_path / "again" / file.relative_to(tmp_path / "once")).read_bytes()
        )


def test_one_who_knows_all_is_right_and_one_who_is_silent_misses_all():
    world = world_of("mixed", 1)
    labels = json.loads(json.dumps(world.labels))
    alerts = [
        {
            "key": label["id"],
            "cause": label["cause"],
            "labels": label["labels"],
            "things": label["instances"],
            "opened_at": label["start"],
            "closed_at": label["end"],
            "muted_by": "",
            "waste_usd": label["usd"] and {"so_far": str(label["usd"])},
        }
        for label in labels
    ]
    replay = {"start": world.at(0), "end": world.at(world.steps), "notices": [], "alerts": alerts}
    figures = grade(labels, replay, clusters=5)
    perfect = {"precision": 1.0, "recall": 1.0, "cause": 1.0, "dollars_ratio": 1.0}
    assert perfect.items() <= figures.items()
    assert grade(labels, replay | {"alerts": []}, clusters=5)["recall"] == 0.0
    elsewhere = [
        alert | {"things": ["i-0other"], "labels": {"region": "elsewhere"}} for alert in alerts
    ]
    assert grade(labels, replay | {"alerts": elsewhere}, clusters=5)["right"] == 0
