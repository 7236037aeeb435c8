"""A small account of clusters and training runs, and what its bot answers: what tests of advice are asked over."""

from __future__ import annotations

import asyncio
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from adapters.store.memory import MemoryStore
from bot.app import App
from bot.cards.card import Card, Facts, Table, Text, plain
from bot.errors import Unavailable
from bot.grammar.access import Access
from bot.knowledge import load_knowledge
from bot.model.anomaly import Detection, NodeState
from bot.model.fleet import Instance, Inventory, Market
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.price import AccountRates, Basis, Price
from bot.model.reading import Reading
from bot.model.request import Request, User
from bot.model.run import Run
from tests.belonging import MEMBER
from tests.builders import FIVE, NOON, ports_over

TYPES, CLAIMS = load_knowledge().types(), load_knowledge().claims()
STEPS = 288


def quote(
    kind: str,
    usd: str,
    region: str,
    market=Market.ON_DEMAND,
    basis=Basis.LISTED,
    asof=date(2026, 11, 17),
) -> Price:
    return Price(kind, Decimal(usd), market, basis, region, asof, "a test")


OFFERED = quote("trn2.48xlarge", "36.10", "us-east-2", Market.CAPACITY_BLOCK, Basis.CAPACITY_BLOCK)
"""An offering of this week; the dated fallback says 35.7608 of July."""


class World:
    """Clusters that say their type, region, number of nodes, use and memory; runs that say what a node gains in an hour."""

    def __init__(
        self, *clusters: tuple[str, str, str, int, float, float], quotes=(), runs=()
    ) -> None:
        things, values, instances = [], [], {}
        for name, kind, region, count, used, gib in clusters:
            for n in range(count):
                labels = Labels(
                    cluster=name, instance=f"i-{name}{n}", instance_type=kind, region=region
                )
                things.append(labels)
                values.append(np.tile([used, gib * 2**30], (STEPS, 1)))
                instances[labels.instance] = Instance(labels, NOON - timedelta(days=3))
        metrics = ("neuroncore_utilization_ratio", "neuron_runtime_memory_used_bytes")
        start = NOON - STEPS * FIVE
        frames = {
            "node": Frame(
                "node", tuple(things), start, FIVE, metrics, np.array(values, dtype=np.float64)
            )
        }
        self.count = {name: count for name, _, _, count, _, _ in clusters}
        labels = [Labels(cluster=cluster, job=job) for job, cluster, _, _ in runs]
        if runs:
            gained = [
                np.arange(STEPS)[:, None] * self.count[cluster] * rate / 12
                for _, cluster, rate, _ in runs
            ]
            frames["run"] = Frame(
                "run", tuple(labels), start, FIVE, ("run_tokens_count",), np.array(gained)
            )
        told = tuple(
            Run(x, start, NOON, parameters=run[3]) for x, run in zip(labels, runs, strict=True)
        )
        self.reading = Reading(NOON, frames, Inventory(NOON, instances), told)
        self.quoted = quotes

    def read(self, _now):
        return self.reading

    def deltas(self, now, _days):
        return Reading(now)

    def tally(self, *_):
        raise Unavailable("No bill.")

    def rates(self, _now):
        return AccountRates()

    def commitment_offers(self, *_):
        return ()

    def quotes(self, name, region, _now):
        return [x for x in self.quoted if x.instance_type == name and region in ("", x.region)]


def ask(world: World, line: str, *, who: str = "u", knowledge: Any = None) -> Card:
    def detect(reading, _policy, _known):
        return Detection(states=dict.fromkeys(reading.inventory.instances, NodeState.BUSY))

    facts = knowledge or load_knowledge()
    ports = ports_over(world, MemoryStore(), knowledge=facts, detect=detect, compiles=lambda *_: ())
    app = App(ports, (), Access(), lambda: 0.0)
    return asyncio.run(app.answer(Request(line, User(who, who), NOON, "slack", MEMBER)))


def words(card: Card) -> str:
    found = [card.title]
    for block in card.blocks:
        match block:
            case Text():
                found.append(plain(block.spans))
            case Facts():
                found += [f"{name}: {value}" for name, value in block.pairs]
            case Table():
                found += [block.caption, *(" | ".join(row) for row in block.rows)]
    return "\n".join(found)


GPUS, CHIPS = (
    ("gpus", "p5.48xlarge", "us-east-2", 2, 0.9, 100.0),
    ("llama", "trn1.32xlarge", "us-west-2", 4, 0.9, 400.0),
)
RUNS = (("on-gpus", "gpus", 60e6, 70e9), ("on-chips", "llama", 36e6, 70e9))
ACCOUNT = World(GPUS, CHIPS, quotes=(OFFERED,), runs=RUNS)
