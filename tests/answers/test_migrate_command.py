"""The answer to migrate, over real knowledge, policy and store."""

import asyncio
import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import numpy as np
import pytest

from adapters.store.memory import MemoryStore
from bot.answers.plan.migrate import migrate
from bot.cards.card import Chart, Table, Tone
from bot.errors import WrongInput
from bot.knowledge import load_knowledge
from bot.model.anomaly import Detection, NodeState
from bot.model.causes import Cause
from bot.model.codec import encode
from bot.model.fleet import Instance, Inventory
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.price import AccountRates, Basis
from bot.model.reading import Reading
from bot.model.request import Request, User
from bot.model.run import Compile, Ending
from bot.model.window import Window
from bot.policy.schema import default_policy
from bot.ports import StateUpdate
from tests.answers.advice_world import words
from tests.answers.standing import NOW, price, told
from tests.belonging import MEMBER
from tests.builders import ports_over


class Fleet:
    """A source and a bill of one cluster."""

    def __init__(self, kind="trn1.32xlarge", used=0.9, region="us-east-2"):
        names = [f"i-{n}" for n in range(4)]
        labels = [
            Labels(cluster="llama", instance=name, instance_type=kind, region=region)
            for name in names
        ]
        values = np.full((4, 288, 1), used, dtype=np.float32)
        frame = Frame(
            "node",
            tuple(labels),
            NOW - timedelta(days=1),
            timedelta(minutes=5),
            ("neuroncore_utilization_ratio",),
            values,
        )
        instances = {x.instance: Instance(x, NOW - timedelta(days=3)) for x in labels}
        self.reading = Reading(NOW, {"node": frame}, Inventory(NOW, instances))

    def read(self, now):
        return self.reading

    def deltas(self, now, days):
        return Reading(now)

    def rates(self, now):
        return AccountRates((price("18.00", basis=Basis.BILLED),))

    def quotes(self, instance_type, region, now):
        return [price(kind=instance_type)] if instance_type.startswith("trn1") else []


def ask(
    cluster="llama",
    to="",
    port_usd=None,
    *,
    fleet=None,
    states=NodeState.BUSY,
    alerts=(),
    compiled=(),
    policy=None,
):
    fleet, store = fleet or Fleet(), MemoryStore()
    store.save(StateUpdate(alerts=alerts))

    def detect(reading, policy, known):
        return Detection(states=dict.fromkeys(reading.inventory.instances, states))

    ports = ports_over(
        fleet,
        store,
        knowledge=load_knowledge(),
        detect=detect,
        compiles=lambda *_: compiled,
        base=policy or default_policy(),
    )
    request = Request("migrate", User("terminal:me"), NOW, "terminal", MEMBER)
    return asyncio.run(migrate(ports, request, cluster, to, port_usd, "", None))


def test_the_answer_shows_an_hour_only_beside_the_cost_of_the_same_work():
    card = ask()
    table = next(block for block in card.blocks if isinstance(block, Table))
    assert [table.columns[n].name for n in (1, 4)] == ["same work costs", "node $/h"]
    assert all(re.search(r"\d %", row[1]) and row[4].startswith("$") for row in table.rows)
    assert table.rows[0][0] == "today, on-demand"
    assert table.rows[0][4] == "$18.00"


def test_the_answer_names_voices_dates_conflicts_and_the_next_step():
    shown = words(ask())
    for expected in (
        "2.00x | claim",
        "3.40x | peak",
        "4.00x | claim",
        "$38.50",
        "days old",
        "compile on one trn2.3xlarge (neuron_parallel_compile: $2.24 an hour, capacity block in ",
        "compare the loss curve",
        "at most 1.94x",
    ):
        assert expected in shown


def test_the_answer_does_not_praise_the_chip_for_how_the_hour_is_bought():
    shown = words(ask())
    assert "the same work on trn2.48xlarge costs 94-188 % of trn1.32xlarge's cost" in shown
    assert (
        "Like for like, both as capacity block in us-east-2, an hour: trn1.32xlarge $9.53 ("
        in shown
    )
    assert "Staying and buying as capacity block costs less than moving: 53 %" in shown
    assert ask().tone is Tone.INFO


def test_the_answer_has_typed_numbers_and_a_chart():
    card = ask(port_usd=Decimal(40000))
    assert card.data["speedup"]["mid"] == 3.4
    assert card.data["options"][0]["node_usd_per_hour"] == Decimal("9.532")
    assert encode(card)["data"]["options"][0]["node_usd_per_hour"] == "9.532"
    chart = next(block for block in card.blocks if isinstance(block, Chart))
    assert len(chart.categories) == len(chart.series[0].values)
    assert "When $40,000 of porting pays, recompiling included" in words(card)


def test_compiling_anew_is_counted_as_compiled_artifacts_do_not_move():
    card = ask(port_usd=Decimal(40000))
    assert card.data["recompile_usd"] > 0
    assert "an assumption, as long as compiling.grace allows" in words(card)
    seen = Compile(
        "i-0", Labels(cluster="llama"), Window(NOW - timedelta(minutes=30), NOW), Ending.USED
    )
    longer = ask(port_usd=Decimal(40000), compiled=(seen,))
    assert longer.data["recompile_usd"] == (card.data["recompile_usd"] / 2).quantize(
        Decimal("0.01")
    )
    assert "30 min, as the longest compile seen here" in words(longer)


def test_gpus_are_compared_with_trainium():
    fleet = Fleet("p5.48xlarge", region="us-east-2")
    fleet.rates = lambda now: AccountRates((price("55.04", "p5.48xlarge", basis=Basis.BILLED),))
    card = ask(fleet=fleet)
    assert card.data["to"] == "trn2.48xlarge"
    assert "30-50 % better price-performance" in words(card)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"states": NodeState.IDLE}, "Only 0 of 4 nodes work now"),
        ({"states": NodeState.STARVED}, "Only 0 of 4 nodes work now (4 starved)"),
        ({"fleet": Fleet(used=np.nan)}, "No utilization was read in the last 24 hours"),
        ({"alerts": (told(Cause.STARVED, things=4),)}, "Starved: it waits for data"),
    ],
)
def test_it_refuses_with_a_reason_while_the_cluster_does_not_work(changes, expected):
    card = ask(**changes)
    assert card.title == "Too early to move llama to trn2.48xlarge"
    assert expected in words(card)
    assert not any(isinstance(block, Table) for block in card.blocks)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"cluster": "lama"}, "No running cluster is called 'lama'; did you mean 'llama'"),
        ({"to": "trn2.48xlrge"}, "did you mean 'trn2.48xlarge'"),
        ({"to": "trn1.32xlarge"}, "already runs trn1.32xlarge"),
        ({"port_usd": Decimal(-5)}, "port_usd is an amount of USD"),
        ({"fleet": Fleet("c7i.large")}, "runs no instance type known here"),
    ],
)
def test_a_wrong_question_is_answered_with_the_nearest_right_one(arguments, expected):
    with pytest.raises(WrongInput, match=re.escape(expected)):
        ask(**arguments)


@pytest.mark.parametrize(("cluster", "doubted"), [("llama", True), ("vision", False)])
def test_how_full_chips_should_be_is_a_setting_of_the_cluster(cluster, doubted):
    override = (Labels(cluster=cluster), "advice.least_utilization", 0.95)
    policy = replace(default_policy(), overrides=(override,))
    assert ("under 95 %" in words(ask(policy=policy))) is doubted
