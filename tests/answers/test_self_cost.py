"""Answer what the bot itself costs and how much quota is left."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from adapters.store.memory import MemoryStore
from bot.__main__ import main
from bot.answers.about.self_cost import Watched, self_cost_card
from bot.app import App
from bot.cards.card import Card, Facts, Link, Table, Text, Tone
from bot.grammar.access import Access
from bot.model.price import CallUse, SelfCost
from bot.model.request import Request, User
from bot.ports import StateUpdate
from bot.settings.settings import read_settings
from bot.wiring.source import OpenedSource, memory_stores
from tests.belonging import MEMBER
from tests.builders import FIVE, NOON, with_parts
from tests.e2e.product import recording


@pytest.fixture(scope="module")
def tiny() -> Path:
    return recording("tiny")


def ask(folder: Path, line: str, **more) -> Card:
    settings = read_settings({"TRNBOT_SOURCE": f"recording:{folder}"})
    opened = OpenedSource(settings.source, settings)
    ports = with_parts(opened.ports(memory_stores(), settings.policy), **more)
    return asyncio.run(
        App(ports, (), Access(), lambda: 0.0).answer(
            Request(line, User("u", ""), opened.end(), "terminal", MEMBER)
        )
    )


def words(card: Card) -> str:
    texts = [block for block in card.blocks if isinstance(block, Text)]
    return " ".join(
        span if isinstance(span, str) else getattr(span, "text", "")
        for block in texts
        for span in block.spans
    )


def bill(**more) -> SelfCost:
    uses = (
        CallUse(
            "cloudwatch:GetMetricData",
            6,
            60_000,
            "metric",
            Decimal("0.60"),
            price_usd=Decimal("0.00001"),
            asof="2026-11-20",
        ),
        CallUse("ec2:DescribeInstances", 288, 288, "request", Decimal(0)),
        CallUse("pricing:GetProducts", 0, 0, "request", Decimal(0), failed=2, stopped=7),
    )
    made = SelfCost(NOON.date(), uses, Decimal("0.60"), Decimal("18.25"), retries=3, throttled=1)
    return replace(made, **more)


def watched(minutes: int) -> Watched:
    return Watched(
        NOON - timedelta(minutes=minutes),
        NOON,
        FIVE,
        {"missed": 2, "tick_seconds": 1.5, "problem": ""},
    )


def test_the_card_says_what_each_call_costs_and_that_it_is_an_estimate():
    card = self_cost_card(bill(), watched(3), ())
    assert card.title == "Own AWS calls: $0.60 today, about $18.25 a month"
    (table,) = (block for block in card.blocks if isinstance(block, Table))
    assert table.rows[0] == ("cloudwatch:GetMetricData", "6", "60,000 metrics", "$0.60", "–", "–")
    assert table.rows[1] == ("ec2:DescribeInstances", "288", "free", "–", "–", "–")
    assert table.total == ("total", "294", "", "$0.60", "2", "7")
    assert (
        "Estimated from the calls counted here at list prices of Nov 20, 2026; free tiers are not"
        " deducted." in words(card)
    )
    assert "Retries: 3; calls abandoned because of throttling: 1." in words(card)
    assert card.data["bill"]["month_usd"] == Decimal("18.25")


@pytest.mark.parametrize(("minutes", "late"), [(3, False), (10, False), (11, True)])
def test_a_watch_that_is_late_is_said_so(minutes, late):
    card = self_cost_card(bill(uses=()), watched(minutes), ())
    (facts,) = (block for block in card.blocks if isinstance(block, Facts))
    assert dict(facts.pairs)["last complete tick"] == f"{minutes} min ago{', late' if late else ''}"
    assert ("missed", "2") in facts.pairs
    assert "problem" not in dict(facts.pairs)
    assert card.tone is (Tone.WARNING if late else Tone.GOOD)
    assert card.data["watch"]["lag_seconds"] == minutes * 60


def test_the_budget_says_its_share_and_its_order():
    stops = ((60, ("a closer look at one node",)), (100, ("s3:GetObject",)))
    card = self_cost_card(bill(budget_usd=Decimal("2.50"), stops=stops), watched(3), ())
    assert "24 % of today's budget of $2.50 is used." in words(card)
    assert (
        "at 60 %: a closer look at one node; at 100 %: s3:GetObject. Metrics and inventory never"
        " stop." in words(card)
    )
    assert card.tone is Tone.WARNING, "something was stopped"
    assert "100 % of today's budget of $0.00" in words(
        self_cost_card(bill(budget_usd=Decimal(0)), watched(3), ())
    )


def test_self_without_an_account(tiny):
    card = ask(tiny, "self")
    assert card.title == "Status of the watch"
    assert "No AWS account is being read" in words(card)
    assert card.data["bill"] is None


def test_self_shows_what_this_process_counted(tiny):
    store = MemoryStore()
    store.save(StateUpdate(ticked_at=NOON))
    card = ask(tiny, "self", self_cost=bill, health=lambda: {"ok": True, "missed": 4}, store=store)
    assert card.data["watch"]["missed"] == 4
    assert "ok" not in card.data["watch"]
    assert card.data["watch"]["ticked_at"] == NOON


def test_quota_counts_what_runs_and_what_still_fits(tiny):
    card = ask(tiny, "quota")
    (table,) = (block for block in card.blocks if isinstance(block, Table))
    name = "Running On-Demand Trn instances"
    assert table.rows == (
        (name, "111122223333 us-west-2", "384 vCPU (75 %)", "512", "1 x trn1.32xlarge"),
    )
    assert card.tone is Tone.GOOD
    assert "Any AWS customer may launch these types within the quota" in words(card)
    assert any(
        isinstance(span, Link)
        for block in card.blocks
        if isinstance(block, Text)
        for span in block.spans
    )
    first = next(x for x in card.data["quotas"] if x["name"] == name)
    assert (first["used_vcpus"], first["limit_vcpus"], first["room"]) == (
        384,
        512.0,
        {"instance_type": "trn1.32xlarge", "nodes": 1},
    )


def test_quota_warns_before_a_launch_fails(tiny):
    card = ask(tiny, "quota trn2.48xlarge")
    assert card.title == "1 quota leaves no room for one more node"
    assert card.tone is Tone.WARNING
    (link,) = (
        span
        for block in card.blocks
        if isinstance(block, Text)
        for span in block.spans
        if isinstance(span, Link)
    )
    assert (
        link.url
        == "https://us-west-2.console.aws.amazon.com/servicequotas/home/services/ec2/quotas/L-2C3B7624"
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("quota trn1.32", "did you mean 'trn1.32xlarge'"),
        ("quota g5.xlarge", "No vCPU quota is known here"),
    ],
)
def test_a_wrong_quota_is_one_sentence(tiny, line, said):
    card = ask(tiny, line)
    assert card.tone is Tone.ERROR
    assert said in card.data["error"]


def test_quota_in_a_terminal(tiny, capsys):
    assert main(["quota", "--source", f"recording:{tiny}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["quotas"]


def test_fleet_says_what_eks_tells_of_one_cluster(tiny):
    assert "EKS 1.33, active; tiny-nodes wants 3 x trn1.32xlarge." in words(ask(tiny, "fleet tiny"))
    assert "EKS" not in words(ask(tiny, "fleet"))
