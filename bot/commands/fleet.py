"""Answer what runs and what stands still."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import numpy as np

from bot.cards.card import Card
from bot.cards.fleet import NodeRow, fleet_card, idle_card
from bot.commands.registry import arg, command
from bot.errors import WrongInput, nearest
from bot.model.anomaly import NodeState
from bot.model.frame import Frame
from bot.model.reading import Reading
from bot.model.request import Request
from bot.ports import Ports
from bot.pricing import Pricing
from bot.watch import Watch

_STILL = {NodeState.IDLE, NodeState.LOADED_IDLE}


@command(
    "fleet", "What runs: nodes by cluster, state, utilization and price.", examples=("fleet", "fleet llama"), aliases=("status",)
)
async def fleet(ports: Ports, request: Request, cluster: str = arg("", "only this cluster")) -> Card:
    """Summarise the fleet, or list one cluster's nodes."""
    rows, reading = await asyncio.to_thread(look_over, ports, request)
    return fleet_card(_of_cluster(rows, cluster), cluster, reading)


@command("idle", "Nodes that do nothing, and what they cost an hour.", examples=("idle", "idle llama"))
async def idle(ports: Ports, request: Request, cluster: str = arg("", "only this cluster")) -> Card:
    """List idle nodes, those without a runtime apart from those that hold one."""
    rows, _ = await asyncio.to_thread(look_over, ports, request)
    return idle_card([row for row in _of_cluster(rows, cluster) if row.state in _STILL], cluster)


def look_over(ports: Ports, request: Request) -> tuple[list[NodeRow], Reading]:
    """Return every node with its state, utilization over the last hour and price; may block."""
    reading = Watch(ports, ()).read(request.at)
    memory = ports.store.load(request.at)
    states = ports.detect(reading, ports.policy, memory.alerts).states
    pricing = Pricing(ports).at(request.at)
    used = _used(reading.frame("node"))
    rows = []
    for instance in reading.inventory.instances.values():
        if instance.running:
            price = pricing.instance(instance)
            state = states.get(instance.id, NodeState.NO_DATA)
            rows.append(NodeRow(instance, state, used.get(instance.id), price))
    return rows, reading


def _used(frame: Frame | None) -> dict[str, float]:
    """Return each node's mean utilization over the last hour; nodes without a reading are left out."""
    if frame is None:
        return {}
    hour = frame.last(timedelta(hours=1))
    cores, gpus = hour.of("neuroncore_utilization_ratio"), hour.of("gpu_utilization_ratio")
    values = np.where(np.isnan(cores), gpus, cores)
    known = ~np.isnan(values)
    counts = known.sum(axis=1)
    means = np.nansum(values, axis=1) / counts.clip(1)
    return {thing.instance: float(mean) for thing, mean, n in zip(frame.things, means, counts, strict=True) if n}


def _of_cluster(rows: list[NodeRow], cluster: str) -> list[NodeRow]:
    if not cluster:
        return rows
    found = [row for row in rows if row.instance.labels.cluster == cluster]
    if not found:
        known = sorted({row.instance.labels.cluster for row in rows if row.instance.labels.cluster})
        raise WrongInput(f"No running cluster is called '{cluster}'{nearest(cluster, known)}.")
    return found
