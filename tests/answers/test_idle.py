"""What `idle` says of nodes whose host nobody reads: they may compile."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from adapters.store.memory import MemoryStore
from bot.answers.fleet.command import fleet, idle
from bot.cards.card import Chart, Table, Text, plain
from bot.knowledge import load_knowledge
from bot.model.anomaly import Detection, NodeState
from bot.model.frame import Frame
from bot.model.price import AccountRates
from bot.model.reading import Reading
from bot.model.request import Request, User
from bot.ports import StateUpdate
from tests.belonging import MEMBER
from tests.builders import FIVE, NOON, alert, anomaly, instance, ports_over, reading


@dataclass
class Still:
    """A source, a bill and a price list of two idle nodes."""

    cpu: float

    def read(self, now):
        known = reading(now, 2)
        things = tuple(instance(name).labels for name in known.inventory.instances)
        values = np.full((2, 24, 2), [0.0, self.cpu], dtype=np.float32)
        metrics = ("neuroncore_utilization_ratio", "host_cpu_utilization_ratio")
        return replace(
            known, frames={"node": Frame("node", things, now - 24 * FIVE, FIVE, metrics, values)}
        )

    def deltas(self, now, days):
        return Reading(now)

    def rates(self, now):
        return AccountRates()

    def quotes(self, instance_type, region, now):
        return ()


@pytest.mark.parametrize(("cpu", "unsure"), [(0.02, False), (float("nan"), True)])
async def test_nodes_whose_host_is_not_read_may_be_compiling(cpu, unsure):
    fleet, store = Still(cpu), MemoryStore()
    states = dict.fromkeys(fleet.read(NOON).inventory.instances, NodeState.IDLE)
    ports = ports_over(
        fleet, store, knowledge=load_knowledge(), detect=lambda *_: Detection(states=states)
    )
    card = await idle(ports, Request("idle", User("web:me"), NOON, "web", MEMBER), "")
    said = " ".join(plain(block.spans) for block in card.blocks if isinstance(block, Text))
    assert ("host CPU of 2 is not read, so they may be compiling" in said) is unsure


async def test_a_node_is_shown_with_its_alerts_and_what_it_measured():
    source, store = Still(0.04), MemoryStore()
    first, *_ = source.read(NOON).inventory.instances
    store.save(StateUpdate(alerts=[alert(anomaly(things=(first,)))]))
    states = dict.fromkeys(source.read(NOON).inventory.instances, NodeState.IDLE)
    ports = ports_over(
        source, store, knowledge=load_knowledge(), detect=lambda *_: Detection(states=states)
    )
    asking = Request("fleet", User("web:me"), NOON, "web", MEMBER)
    card = await fleet(ports, asking, first)
    assert card.title.startswith(f"{first}: {NodeState.IDLE.value}, ")
    charts = [block for block in card.blocks if isinstance(block, Chart)]
    assert [chart.title for chart in charts] == ["NeuronCore utilization", "Host"]
    assert charts[1].summary == "Host: CPU 4 %."
    assert len(card.data["alerts"]) == 1
    cluster = next(thing.labels.cluster for thing in source.read(NOON).inventory.instances.values())
    nodes = next(
        block for block in (await fleet(ports, asking, cluster)).blocks if isinstance(block, Table)
    )
    assert f"fleet {first}" in nodes.lines
    whole = await fleet(ports, asking, "")
    table = next(block for block in whole.blocks if isinstance(block, Table))
    assert all(line.startswith("fleet ") or not line for line in table.lines)
