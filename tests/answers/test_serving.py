"""Serving on training chips is found by what it says and does; training and Trn3 are left alone."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from bot.answers.plan.sizing import inference, size
from bot.knowledge import load_knowledge
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.price import AccountRates
from bot.model.reading import Reading
from bot.model.request import Request, User
from bot.model.run import Run
from tests.belonging import MEMBER
from tests.builders import FIVE, NOON, inventory, nodes, ports_over, price

METRICS = ("neuroncore_utilization_ratio", "neuron_runtime_memory_used_bytes")


class World:
    """Two nodes whose utilization and memory the test says."""

    def __init__(
        self,
        used: np.ndarray,
        gib: float,
        runs: tuple[Run, ...] = (),
        tags=None,
        kind: str = "trn1.32xlarge",
    ) -> None:
        names = nodes(2)
        values = np.stack([np.stack([used, np.full_like(used, gib * 2**30)], axis=-1)] * 2).astype(
            np.float32
        )
        things = tuple(Labels(cluster="llama", instance=name) for name in names)
        found = inventory(names)
        made = {
            name: replace(one, labels=replace(one.labels, instance_type=kind), tags=tags or {})
            for name, one in found.instances.items()
        }
        frame = Frame("node", things, NOON - used.size * FIVE, FIVE, METRICS, values)
        self.reading = Reading(NOON, {"node": frame}, replace(found, instances=made), runs)

    def read(self, _at):
        return self.reading

    def rates(self, _at):
        return AccountRates()

    def quotes(self, name, *_):
        return (price("21.50"),) if name == "trn1.32xlarge" else ()


def ask(world: World, command=inference, **more):
    ports = ports_over(world, None, knowledge=load_knowledge())
    return asyncio.run(
        command(ports, Request("inference", User("u"), NOON, "terminal", MEMBER), **more)
    )


STEADY, WAVES = np.full(288, 0.2), np.tile([0.0, 0.9], 144)
TRAINING = Run(Labels(cluster="llama", job="a"), NOON, NOON, epochs=1.0)


def test_steady_light_work_without_a_run_is_serving_and_has_its_dollars():
    (found,) = ask(World(STEADY, 20.0)).data["clusters"]
    # 20 GiB of 32 and 0.2 x 3,040 of 1,140 x 0.9 TFLOPS: 6 chips of inf2.24xlarge.
    assert found["fits"] == "inf2.24xlarge"
    assert found["saves_usd_per_month"] == (
        (Decimal("21.50") - Decimal("6.49063")) * 2 * 730
    ).quantize(Decimal("0.01"))


def test_a_tag_that_says_so_is_enough_even_where_load_comes_in_waves():
    assert ask(World(WAVES * 0.2, 20.0, tags={"role": "inference"})).data["clusters"]
    assert not ask(World(WAVES, 20.0)).data["clusters"]


@pytest.mark.parametrize(
    "world",
    [
        World(STEADY, 20.0, (TRAINING,)),
        World(STEADY, 20.0, (TRAINING,), tags={"role": "inference"}),
        World(STEADY, 20.0, tags={"role": "inference"}, kind="trn3.48xlarge"),
        World(np.full(288, np.nan), 20.0, tags={"role": "inference"}),
        World(STEADY, 500.0, tags={"role": "inference"}),
    ],
    ids=[
        "a run reports",
        "a run reports beside the tag",
        "trn3",
        "nothing was read",
        "no inf2 holds it",
    ],
)
def test_what_trains_or_does_not_fit_is_left_alone(world):
    assert ask(world).data["clusters"] == []


def test_a_cluster_that_would_fit_one_chip_is_told_with_its_saving():
    (found,) = ask(World(np.full(288, 0.03), 12.0), size, what="llama").data["clusters"]
    assert found["fits"] == "trn1.2xlarge"
    (full,) = ask(World(np.full(288, 0.9), 400.0), size, what="llama").data["clusters"]
    assert full["fits"] is None
