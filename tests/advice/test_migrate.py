import asyncio
import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest

from adapters.store.memory import MemoryStore
from bot.advice.migrate import break_even_hours, compare, default_target, fp8_gain, speed_range
from bot.advice.obstacles import Standing, doubts, refusals
from bot.cards.card import Chart, Facts, Table, Text, Tone, plain
from bot.commands.migrate import migrate
from bot.errors import WrongInput
from bot.knowledge import load_knowledge
from bot.model.alert import Alert
from bot.model.anomaly import Anomaly, Cause, Detection, NodeState
from bot.model.claims import ClaimKind
from bot.model.codec import encode
from bot.model.fleet import Instance, Inventory, Market
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.price import Basis, Price
from bot.model.reading import Reading
from bot.model.request import Request, User
from bot.model.window import Window
from bot.policy.schema import default_policy
from bot.ports import Changes, Ports

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)
TYPES, CLAIMS = load_knowledge().types(), load_knowledge().claims()
FALLBACK = load_knowledge().fallback_prices()
TRN1, TRN2, P5 = TYPES["trn1.32xlarge"], TYPES["trn2.48xlarge"], TYPES["p5.48xlarge"]


def price(
    usd="21.50", kind="trn1.32xlarge", market=Market.ON_DEMAND, basis=Basis.LISTED, region="us-east-2", asof=date(2026, 11, 1)
):
    return Price(kind, Decimal(usd), market, basis, region, asof, "a test")


def standing(**changes):
    made = Standing("llama", TRN1, 64, "us-east-2", price(), 0.9, {NodeState.BUSY: 64})
    return replace(made, **changes)


def told(cause, things=64):
    labels = Labels(cluster="llama")
    names = tuple(f"i-{n}" for n in range(things))
    return Alert("a", Anomaly("r", cause, labels, labels, names, Window(NOW, NOW), 0.9, 0.2, "%"), NOW, NOW)


def migration(quotes=FALLBACK, **changes):
    now = standing(**changes)
    return compare(now, TRN2, speed_range(now.type, TRN2, TYPES, CLAIMS), quotes, CLAIMS, NOW.date())


def test_the_range_of_speeds_holds_every_voice_with_its_source():
    found = speed_range(TRN1, TRN2, TYPES, CLAIMS)
    assert found.each() == (2.0, 3.4, 4.0)
    assert all(voice.source for voice in found.voices)


def test_gpus_are_compared_by_cases_and_the_peak():
    found = speed_range(P5, TRN2, TYPES, CLAIMS)
    assert (found.low, found.high) == (0.83, pytest.approx(10700 / 7912))
    assert [voice.kind for voice in found.voices].count(ClaimKind.PEAK) == 1


def test_a_smaller_node_does_its_share():
    one_chip, full = TYPES["trn1.2xlarge"], speed_range(TRN1, TRN2, TYPES, CLAIMS)
    assert speed_range(one_chip, TYPES["trn2.3xlarge"], TYPES, CLAIMS).each() == full.each()
    assert speed_range(one_chip, TRN2, TYPES, CLAIMS).mid == pytest.approx(16 * full.mid)


def test_types_that_no_source_compares_are_refused():
    with pytest.raises(WrongInput, match=r"No source compares g5.xlarge with trn2.48xlarge"):
        speed_range(TYPES["g5.xlarge"], TRN2, TYPES, CLAIMS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("trn1.32xlarge", "trn2.48xlarge"),
        ("trn1.2xlarge", "trn2.3xlarge"),
        ("p4d.24xlarge", "trn1.32xlarge"),
        ("p5.48xlarge", "trn2.48xlarge"),
    ],
)
def test_the_target_left_out_is_what_sources_compare(old, new):
    found = default_target(TYPES[old], TYPES, CLAIMS)
    assert found.chips == TYPES[new].chips
    assert found.family == TYPES[new].family


def test_a_type_without_voices_needs_a_target():
    with pytest.raises(WrongInput, match="No source compares g6 with another family"):
        default_target(TYPES["g6.xlarge"], TYPES, CLAIMS)


def test_the_same_work_costs_price_over_speed():
    option = migration().moves()[0]
    assert option.price.market is Market.CAPACITY_BLOCK
    assert [x.nodes for x in option.scenarios] == [32, 19, 16]
    assert option.scenarios[0].usd_per_hour == 32 * Decimal("35.7608")
    assert option.worst == pytest.approx(35.7608 / 21.50 / 2)
    assert option.best == pytest.approx(35.7608 / 21.50 / 4)


def test_the_advice_flips_with_how_the_hour_is_bought():
    found = migration()
    stay = found.stays()[0]
    assert (stay.price.market, stay.price.usd_per_hour) == (Market.CAPACITY_BLOCK, Decimal("9.532"))
    assert stay.middle < found.moves()[0].middle


def test_like_for_like_tells_what_the_chip_alone_changes():
    alike = migration().alike()
    assert alike.market is Market.CAPACITY_BLOCK
    assert (alike.best, alike.worst) == (pytest.approx(35.7608 / 9.532 / 4), pytest.approx(35.7608 / 9.532 / 2))
    assert migration([x for x in FALLBACK if x.instance_type == "trn2.48xlarge"]).alike() is None


def test_each_way_to_buy_is_quoted_once_from_what_it_rests_on_best():
    quotes = [
        price("30", "trn2.48xlarge", Market.CAPACITY_BLOCK, Basis.CAPACITY_BLOCK),
        price("14.56", "trn2.48xlarge", Market.SPOT, Basis.SPOT),
        price("20", "trn2.48xlarge", Market.SAVINGS_PLAN, Basis.BILLED),
        *FALLBACK,
    ]
    found = {x.price.market: x.price.usd_per_hour for x in migration(quotes).moves()}
    assert found == {Market.CAPACITY_BLOCK: 30, Market.SPOT: Decimal("14.56"), Market.SAVINGS_PLAN: 20}


def test_a_price_of_another_region_is_said_to_be_elsewhere():
    found = migration(region="us-west-2")
    assert not found.moves()[0].here
    assert any("no known price in us-west-2, only in us-east-2" in words for words in found.cautions)


def test_without_a_price_of_the_target_the_cost_is_not_compared():
    found = migration([])
    assert found.options == ()
    assert any("No price of trn2.48xlarge" in words for words in found.cautions)


def test_commitments_and_less_memory_are_cautioned():
    found = migration(price=price(market=Market.SAVINGS_PLAN), type=replace(TRN1, accelerator_memory_gib=5000))
    assert any("committed" in words for words in found.cautions)
    assert any("less accelerator memory" in words for words in found.cautions)


def test_vendor_texts_that_contradict_aws_come_along():
    assert any("$38.50" in x.vendor_says for x in migration().conflicts)


@pytest.mark.parametrize(("relative", "hours"), [(0.5, 40_000 / 688), (1.0, None), (1.3, None)])
def test_a_port_pays_only_when_something_is_saved(relative, hours):
    assert break_even_hours(Decimal(40_000), standing(), relative) == (hours and pytest.approx(hours))


def test_fp8_is_bound_by_its_peak():
    assert fp8_gain(TRN2) == pytest.approx(1.94, abs=0.01)
    assert fp8_gain(TRN1) == 1
    assert fp8_gain(TYPES["p4d.24xlarge"]) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alerts": (told(Cause.STARVED),)}, "a faster chip would wait longer"),
        ({"alerts": (told(Cause.IDLE),)}, "stopping nodes saves more"),
        ({"alerts": (told(Cause.NETWORK_BOUND),)}, "the network limits it"),
        ({"states": {NodeState.IDLE: 40, NodeState.BUSY: 24}}, "only 24 of 64 nodes work now (40 no runtime, 24 busy)"),
        ({"utilization": None}, "no utilization was read"),
        ({"price": None}, "no price of trn1.32xlarge"),
    ],
)
def test_a_cluster_that_does_not_work_is_refused(changes, words):
    assert words in " ".join(refusals(standing(**changes)))


def test_a_busy_cluster_is_not_refused():
    assert refusals(standing()) == ()
    assert refusals(standing(alerts=(told(Cause.SPEND_JUMP), told(Cause.IDLE, things=3)))) == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"utilization": 0.42}, "Utilization was 42 % over 24 hours, under 60 %"),
        ({"alerts": (told(Cause.IDLE, things=3),)}, "3 of 64 nodes are idle"),
        ({"other_types": ("c7i.large",)}, "also runs c7i.large"),
    ],
)
def test_what_speaks_against_is_said(changes, words):
    assert words in " ".join(doubts(standing(**changes), 0.6))


# The command, over real knowledge, policy and store.


class Fleet:
    """A source and a bill of one cluster."""

    def __init__(self, kind="trn1.32xlarge", used=0.9, region="us-east-2"):
        names = [f"i-{n}" for n in range(4)]
        labels = [Labels(cluster="llama", instance=name, instance_type=kind, region=region) for name in names]
        values = np.full((4, 288, 1), used, dtype=np.float32)
        frame = Frame(
            "node", tuple(labels), NOW - timedelta(days=1), timedelta(minutes=5), ("neuroncore_utilization_ratio",), values
        )
        instances = {x.instance: Instance(x, NOW - timedelta(days=3)) for x in labels}
        self.reading = Reading(NOW, {"node": frame}, Inventory(NOW, instances))

    def read(self, now):
        return self.reading

    def deltas(self, now, days):
        return Reading(now)

    def rates(self, now):
        return [price("18.00", basis=Basis.BILLED)]

    def quotes(self, instance_type, region, now):
        return [price(kind=instance_type)] if instance_type.startswith("trn1") else []


def ask(cluster="llama", to="", port_usd=None, *, fleet=None, states=NodeState.BUSY, alerts=()):
    fleet, store = fleet or Fleet(), MemoryStore()
    store.save(Changes(alerts=alerts))

    def detect(reading, policy, known):
        return Detection(states=dict.fromkeys(reading.inventory.instances, states))

    ports = Ports(
        fleet,
        fleet,
        fleet,
        load_knowledge(),
        store,
        detect,
        base=default_policy(),
        versions=store,
        shelf=store,
        replays=None,
        interval=timedelta(minutes=5),
    )
    request = Request("migrate", User("terminal:me"), NOW, "terminal")
    return asyncio.run(migrate(ports, request, cluster, to, port_usd))


def words(card):
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
        "compile on one node",
        "at most 1.94x",
    ):
        assert expected in shown


def test_the_answer_does_not_praise_the_chip_for_how_the_hour_is_bought():
    shown = words(ask())
    assert "Like for like, both as capacity block, the same work costs 94-188 % of staying: it depends" in shown
    assert "Staying and buying as capacity block costs less than moving: 53 %" in shown
    assert ask().tone is Tone.INFO


def test_the_answer_has_typed_numbers_and_a_chart():
    card = ask(port_usd=Decimal(40000))
    assert card.data["speedup"]["mid"] == 3.4
    assert card.data["options"][0]["node_usd_per_hour"] == Decimal("9.532")
    assert encode(card)["data"]["options"][0]["node_usd_per_hour"] == "9.532"
    chart = next(block for block in card.blocks if isinstance(block, Chart))
    assert len(chart.categories) == len(chart.series[0].values)
    assert "When $40,000 of porting pays" in words(card)


def test_gpus_are_compared_with_trainium():
    fleet = Fleet("p5.48xlarge", region="us-east-2")
    fleet.rates = lambda now: [price("55.04", "p5.48xlarge", basis=Basis.BILLED)]
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
