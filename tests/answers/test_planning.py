"""The planning questions as people type them, on a recording: spot, credits, runs, checklists, migrations, roadmap."""

from __future__ import annotations

import asyncio
import json
import shutil
from datetime import timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from adapters.chat.slack.render import message
from adapters.chat.teams.render import ANSWER_BYTES, render
from adapters.store.memory import MemoryStore
from adapters.store.open import open_store
from bot.__main__ import main
from bot.app import App
from bot.cards.card import Button, Buttons, Card, Table, Text, Tone, plain
from bot.costs.pricing import Pricing
from bot.costs.tally import as_of
from bot.grammar.access import Access
from bot.grammar.registry import COMMANDS
from bot.model.fleet import Market
from bot.model.request import Request, User
from bot.model.window import Window
from bot.ports import Stores
from bot.settings.settings import read_settings
from bot.wiring.source import OpenedSource
from bot.wiring.verbs import VERBS
from tests.belonging import MEMBER
from tests.e2e.product import recording


@pytest.fixture(scope="module")
def tiny() -> Path:
    return recording("tiny")


@cache
def opened(folder: Path) -> OpenedSource:
    """Return a recording, opened once for all that are asked of it."""
    settings = read_settings({"TRNBOT_SOURCE": f"recording:{folder}"})
    return OpenedSource(settings.source, settings)


class Asking:
    """Asks one bot again and again, as a person in chat does."""

    def __init__(self, folder: Path, store: Any = None) -> None:
        source, store = opened(folder), store or MemoryStore()
        self.ports = source.ports(Stores(store, store, store, store), read_settings({}).policy)
        self.app = App(self.ports, (), Access(), lambda: 0.0)
        self.at = source.end()

    def __call__(self, line: str, who: str = "dana") -> Card:
        return asyncio.run(self.app.answer(Request(line, User(who, who), self.at, "slack", MEMBER)))


@pytest.fixture(scope="module")
def trained(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Add two runs to the recording: an epoch an hour, and one in forty minutes, each from its start."""
    folder = tmp_path_factory.mktemp("trained") / "recording"
    shutil.copytree(tiny, folder)
    extent = Asking(tiny).ports.world.source.extent()
    assert extent
    (folder / "metrics/runs.jsonl").write_text(
        "".join(
            line
            for run, hours in (("slow", 1.0), ("fast", 2 / 3))
            for line in run_lines(run, hours, extent)
        ),
        encoding="utf-8",
    )
    return folder


def run_lines(run: str, hours: float, extent: Window):
    at = extent.start + timedelta(minutes=10)
    while at < extent.end:
        done = (at - extent.start - timedelta(minutes=5)) / timedelta(hours=hours)
        for metric, value in (
            ("Epoch", done),
            ("Tokens", done * 1e9),
            ("Loss", 3 - 0.1 * done),
            ("Parameters", 2e9),
        ):
            yield (
                json.dumps(
                    {
                        "account_id": "111122223333",
                        "region": "us-west-2",
                        "namespace": "Trn/Training",
                        "metric_name": metric,
                        "dimensions": {"Run": run, "ClusterName": "tiny"},
                        "timestamp": int(at.timestamp() * 1000),
                        "value": {"count": 1, "sum": value, "max": value, "min": value},
                        "unit": "None",
                    }
                )
                + "\n"
            )
        at += timedelta(minutes=5)


@pytest.fixture
def ask(tiny: Path) -> Asking:
    return Asking(tiny)


def words(card: Card) -> str:
    return " ".join(plain(block.spans) for block in card.blocks if isinstance(block, Text))


def test_spot_lists_zones_with_median_p95_last_and_age_as_the_history_has_them(ask: Asking) -> None:
    name = next(
        iter(
            {
                price.labels.instance_type
                for price in ask.ports.world.source.read(ask.at).inventory.instances.values()
            }
        )
    )
    card = ask(f"spot {name} cap=0.01")
    history = [(at, p) for at, p in ask.ports.world.prices.spot_history(name, ask.at) if p.zone]
    assert {x["zone"] for x in card.data["zones"]} == {p.zone for _, p in history}
    for zone in card.data["zones"]:
        mine = [(at, p.usd_per_hour) for at, p in history if p.zone == zone["zone"]]
        assert zone["last_usd_per_hour"] == mine[-1][1]
        assert zone["changed_at"] == mine[-1][0]
        assert zone["median_usd_per_hour"] == held_share(mine, ask.at, 0.5)
        assert zone["p95_usd_per_hour"] == held_share(mine, ask.at, 0.95)
        quotes = ask.ports.world.prices.quotes(name, zone["region"], ask.at)
        listed = {x.usd_per_hour for x in quotes if x.market is Market.ON_DEMAND}
        assert zone["on_demand_usd_per_hour"] in listed, "never the account's own rate"
        assert zone["cap"]["share"] == 1.0, "a cap under every price is crossed all the time"
    assert "Do not set a maximum price: AWS advises against it" in words(card)
    assert "Estimated" in words(card)
    assert len([block for block in card.blocks if isinstance(block, Table)]) == 3


def held_share(changes, end, share):
    """Walk the minutes of 14 days, the slow and plain way."""
    start, minute = end - timedelta(days=14), timedelta(minutes=1)
    standing = sorted(price for price in minutes(changes, start, end, minute))
    return standing[max(0, -(-int(len(standing) * share * 1000) // 1000) - 1)]


def minutes(changes, start, end, step):
    at, i = max(start, changes[0][0]), 0
    while at < end:
        while i + 1 < len(changes) and changes[i + 1][0] <= at:
            i += 1
        yield changes[i][1]
        at += step


def test_spot_without_prices_shows_the_advisors_bands(tiny: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bands"
    shutil.copytree(tiny, folder)
    advisor = folder / "api/spot-advisor/get_data/us-east-1/20260101T000000Z.json"
    advisor.parent.mkdir(parents=True)
    advisor.write_text(
        '{"ranges": [{"index": 0, "label": "<5%"}, {"index": 4, "label": ">20%"}],'
        ' "spot_advisor": {"us-east-1": {"Linux": {"p5.48xlarge": {"s": 52, "r": 4}}}, "eu-west-1": {"Linux": {"p5.48xlarge": {"s": 40, "r": 0}}}}}'
    )
    card = Asking(folder)("spot p5.48xlarge")
    (table,) = (block for block in card.blocks if isinstance(block, Table))
    assert table.rows == (("eu-west-1", "<5 %", "40 %"), ("us-east-1", ">20 %", "52 %"))
    assert "Jan 1, 2026" in words(card)


def test_credits_show_gross_credits_and_net_apart_and_list_the_programmes(ask: Asking) -> None:
    card = ask("credits 30d balance=1000000")
    whole = as_of(ask.ports, ask.at).world.billing.tally(Window.parse("30d", ask.at), ()).total
    assert (card.data["total"]["gross_usd"], card.data["total"]["credits_usd"]) == (
        whole.gross,
        whole.credits,
    )
    assert {x["name"] for x in card.data["programmes"]} >= {
        "AWS Activate Portfolio",
        "Generative AI Accelerator",
    }
    assert "a vendor claim" in words(card)
    assert "cloudroutehq.com sells this route, Nov 21, 2026" in words(card)


def test_a_checklist_is_ticked_off_by_anyone_and_stands_alike_for_all(ask: Asking) -> None:
    assert ask("checklist llama kind=devops").title == "Migration llama: 0 of 4 steps done"
    assert (
        ask("checklist done llama 2 kind=devops", "alice").title
        == "Migration llama: 1 of 4 steps done"
    )
    ask("checklist done llama 2", "bob")
    shown = ask("checklist llama", "bob")
    assert shown.data["steps"][1]["done_by"] == "alice", "the first tick counts"
    assert shown.public
    (buttons,) = (block for block in shown.blocks if isinstance(block, Buttons))
    pressed = next(
        button
        for button in buttons.buttons
        if isinstance(button, Button) and button.text == "Reopen 2"
    )
    assert ask(pressed.line).title == "Migration llama: 0 of 4 steps done"
    assert ask("checklist").title == "Migration first: 0 of 5 steps done"
    assert "steps 1 to 4" in ask("checklist done llama 5").title + words(
        ask("checklist done llama 5")
    )


def test_runs_cost_what_their_nodes_cost(trained: Path) -> None:
    ask = Asking(trained)
    runs = {x["run"]: x for x in ask("runs").data["runs"]}
    nodes = [
        x for x in ask.ports.world.source.read(ask.at).inventory.instances.values() if x.running
    ]
    hourly = sum(
        (
            price.usd_per_hour
            for one in nodes
            if (price := Pricing(ask.ports).at(ask.at).instance(one))
        ),
        Decimal(0),
    )
    assert hourly > 0
    # Two runs and no tag: each is charged with half of the cluster.
    assert runs["slow"]["usd_per_epoch"] == pytest.approx(hourly / 2, abs=Decimal("0.02"))
    assert runs["fast"]["usd_per_epoch"] == pytest.approx(hourly / 3, abs=Decimal("0.02"))
    assert runs["fast"]["usd_per_billion_tokens"] == pytest.approx(hourly / 3, rel=Decimal("0.02"))
    assert sum(x["usd"] for x in runs.values()) <= hourly * 6
    shown = ask("runs slow")
    assert shown.data["estimated"] is True
    assert "Estimated" in words(shown)
    assert shown.data["counted_by"].startswith("1/2 of the cluster")
    assert ask("runs slow storage=off").data["storage_usd"] is None


def test_a_baseline_outlives_the_process_and_a_migration_is_followed(
    trained: Path, tmp_path: Path
) -> None:
    address = f"sqlite:///{tmp_path}/trnbot.db"
    first = Asking(trained, open_store(address))
    assert first("baseline keep slow as gpu").tone is Tone.GOOD
    again = Asking(trained, open_store(address))
    found = again("compare gpu fast")
    assert found.data["a"]["name"] == "gpu"
    assert found.data["usd_per_epoch"]["high"] < 0, "the faster run is cheaper beyond the noise"
    assert "33 % less" in words(found)
    assert again("baselines").data["baselines"] == ["gpu"]
    assert "33 % less" in words(again("migration open fast baseline=gpu"))
    assert "Migration fast: An epoch on fast costs 33 % less" in words(again("digest")), (
        "each week, until it is closed"
    )
    assert again("migration close fast").tone is Tone.GOOD
    assert "Migration" not in words(again("digest"))


def test_waiting_is_told_by_the_peaks_of_the_chips(ask: Asking) -> None:
    bf16, fp8 = (
        ask("wait").data,
        ask("wait precision=fp8 months=6 bill_usd=20000 for=6 delay_usd=10000").data,
    )
    assert (bf16["speedup"], fp8["speedup"]) == (1.006, 1.9376), "never 4.4x a chip"
    # 2517 / 1299: 3.0965 months after 6, so as many late at $10,000; the work costs 120,000 x 1299 / 2517.
    assert fp8["delay_usd"] == pytest.approx(Decimal("30965.44"))
    assert fp8["wait_usd"] == pytest.approx(Decimal("61930.87") + Decimal("30965.44"))
    assert fp8["most_price_ratio"] == Decimal("1.44")


def test_waiting_divides_by_the_ratio_of_the_peaks_before_it_is_rounded(ask: Asking) -> None:
    # 671 / 667 = 1.005997: 6 months after 5.96 of work are 12.0, and 20,000 x 6 x 667 / 671 = $119,284.65; by 1.01 $118,812.
    card = ask("wait")
    assert card.data["wait_usd"] == Decimal("119284.65")
    (table,) = (block for block in card.blocks if isinstance(block, Table))
    assert table.rows[1][1] == "12 months"


def test_every_sentence_of_the_roadmap_has_a_state_a_source_and_a_date(ask: Asking) -> None:
    notes = ask("roadmap").data["notes"]
    assert {"Trn3", "Trn4"} <= {x["subject"] for x in notes}
    assert all(x["state"] and x["source"] and x["asof"] for x in notes)


def test_a_year_on_two_types_names_prices_with_source_and_age(ask: Asking) -> None:
    card = ask(
        "tco p5.48xlarge trn1.32xlarge nodes=2 hours=100 speed=0.5 engineering_usd=1000 compile_hours=0"
    )
    stays, moves = card.data["options"]
    assert stays["total_usd"] == Decimal("132096.00")  # 2 x 100 x 12 x 55.04
    assert moves["node_hours"] == 2 * stays["node_hours"]
    assert (
        moves["total_usd"]
        == (moves["node_hours"] * moves["usd_per_hour"]).quantize(Decimal("0.01")) + 1000
    )
    assert "days old: check it" in words(card)


def test_capacity_compares_what_an_hour_in_use_costs(ask: Asking) -> None:
    ways = {
        x["market"]: x for x in ask("capacity trn1.32xlarge nodes=2 days=10 used=50").data["ways"]
    }
    assert ways["capacity-block"]["total_usd"] == Decimal("4575.36")  # 480 h x 9.532, paid upfront
    assert ways["on-demand"]["total_usd"] == 480 * ways["on-demand"]["usd_per_hour"]
    assert ways["spot"]["total_usd"] == (240 * ways["spot"]["usd_per_hour"]).quantize(
        Decimal("0.01")
    )


def test_clusters_that_train_are_never_told_to_serve(trained: Path) -> None:
    ask = Asking(trained)
    assert ask("inference").data["clusters"] == []
    assert "claim" in words(ask("inference"))
    (cluster,) = ask("size").data["clusters"]
    assert cluster["peak_gib"] is not None
    assert ask("size 7B").data["fits"][0]["instance_type"] == "trn1.32xlarge"


def test_a_footprint_is_an_estimate_with_its_formula(ask: Asking) -> None:
    card = ask("carbon 1d watts=500 kg_per_kwh=0.5")
    for row in card.data["rows"]:
        assert row["kwh"] == pytest.approx(row["node_hours"] * 16 * 500 * 1.14 / 1000)
        assert row["kg"] == pytest.approx(row["kwh"] / 2)
    assert "an estimate" in card.title
    assert "Trainium1: 90 to 175 W" in words(ask("carbon 1d"))


@pytest.mark.parametrize(
    "line", ["breakeven 20000", "decide", "cuda torch==2.5.1", "roadmap", "wait"]
)
def test_planning_needs_nothing_to_watch(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRNBOT_SOURCE", raising=False)
    assert main([*line.split(), "--json"]) == 0
    assert capsys.readouterr().out.startswith('{"command"')


def test_a_wrong_line_is_told_before_a_source_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRNBOT_SOURCE", raising=False)
    assert main(["cost", "7d", "extra", "words"]) == 2
    assert "one word too many" in capsys.readouterr().err


def test_help_shows_every_command_in_chat_uncut(ask: Asking) -> None:
    card = ask("help all")
    slack, teams = json.dumps(message(card).blocks), json.dumps(render(card, budget=ANSWER_BYTES))
    assert "more row" not in slack
    assert "more row" not in teams
    assert {x["name"] for x in card.data["commands"]} == {
        made.name for made in COMMANDS.values() if not made.hidden
    }


def test_help_is_eight_lines_by_role_and_knows_the_rest(ask: Asking) -> None:
    card = ask("help")
    (table,) = (block for block in card.blocks if isinstance(block, Table))
    assert len(table.rows) == 8
    assert list(dict.fromkeys(row[0] for row in table.rows)) == [
        "on call",
        "money",
        "fleet",
        "admins",
    ]
    assert {x["name"] for x in card.data["commands"]} == {
        made.name for made in COMMANDS.values() if not made.hidden
    }
    assert any("help all" in repr(block) for block in card.blocks)


def test_no_command_is_called_like_a_verb_of_the_terminal() -> None:
    assert not {made.name.split()[0] for made in COMMANDS.values()} & set(VERBS), (
        "the verb would hide the command there"
    )
