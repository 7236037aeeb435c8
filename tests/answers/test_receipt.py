"""Every number of an answer has a receipt, and what is not as the receipt has it is found and named."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapters.billing.bill import open_billing
from adapters.store.memory import MemoryStore
from bot.answers.about.document import envelope, plain
from bot.answers.all import ANSWERS
from bot.answers.receipt.command import verification_card
from bot.app import App
from bot.cards.card import Table, Tone
from bot.errors import WrongInput
from bot.grammar.access import Access
from bot.grammar.registry import COMMANDS
from bot.grammar.turns import equal_of
from bot.knowledge import load_knowledge
from bot.model.codec import decode
from bot.model.fleet import Market
from bot.model.price import Basis, Price
from bot.model.reading import Reading
from bot.model.receipt import AnswerReceipt, Difference, Verification, numbers, pointer
from bot.model.request import LOCAL, Request, User
from bot.model.spend import Money, Spend
from bot.ports import Billing
from bot.wiring.build import terminal_app
from bot.wiring.environment import settings_of, terminal_user
from tests.belonging import MEMBER
from tests.builders import ports_over
from tests.e2e.product import recording

assert ANSWERS
AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
COLUMNS = ["bill_invoice_id", "line_item_line_item_type", "line_item_product_code", "line_item_usage_start_date",
           "line_item_usage_end_date", "line_item_resource_id", "line_item_unblended_cost"]  # fmt: skip


def rows() -> list[list[str]]:
    """Return ten days of two things at $3 and $4 an hour, the second with a discount of $0.50."""
    every, at = [], datetime(2026, 11, 10, tzinfo=UTC)
    while at < AT:
        span = [at.isoformat(), (at + HOUR).isoformat()]
        every += [
            ["", "Usage", "AmazonEC2", *span, "i-1", "3"],
            ["", "Usage", "AmazonS3", *span, "bucket", "4"],
        ]
        every.append(["", "EdpDiscount", "AmazonS3", *span, "bucket", "-0.5"])
        at += HOUR
    return every


class Lists:
    """Price lists with one price of each type, and metrics that hold nothing."""

    def __init__(self) -> None:
        self.usd = {"trn1.32xlarge": "21.50", "p5.48xlarge": "55.04"}

    def quotes(self, instance_type: str, region: str, now: datetime) -> list[Price]:
        price = self.usd.get(instance_type)
        where = (Market.ON_DEMAND, Basis.LISTED, "us-east-1", date(2026, 11, 19), "AWS Price List")
        return [Price(instance_type, Decimal(price), *where)] if price else []

    def spot_history(self, instance_type: str, now: datetime) -> list[tuple[datetime, Price]]:
        where = (Market.SPOT, Basis.LISTED, "us-east-1", date(2026, 11, 19), "EC2")
        changes = [("us-east-1a", "8.00"), ("us-east-1b", "9.00"), ("us-east-1a", "8.50")]
        return [
            (AT - (3 - n) * HOUR, Price(instance_type, Decimal(price), *where, zone=zone))
            for n, (zone, price) in enumerate(changes)
        ]

    def interruptions(self, instance_type: str, now: datetime) -> list[Any]:
        return []

    placement = interruptions

    def read(self, now: datetime) -> Reading:
        return Reading(now)


class Folder:
    """Files of a terminal."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def text(self, path: str, request: Request) -> str:
        if request.surface != "terminal":
            raise WrongInput("Files are read in a terminal; paste the text itself.")
        return (self.root / path).read_text()


def exported(folder: Path, every: list[list[str]]) -> Billing:
    """Write a bill of these rows, and open it."""
    folder.mkdir()
    with (folder / "bill.csv").open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *every])
    return open_billing(folder)


class World:
    """A bot over an export and price lists that can be changed."""

    def __init__(self, root: Path, billing: Billing) -> None:
        self.root, self.lists, self.billing = root, Lists(), billing

    def export(self, every: list[list[str]]) -> None:
        self.billing = exported(self.root / "bill", every)

    def bot(self, **parts: Any) -> App:
        parts = {
            "billing": self.billing,
            "knowledge": load_knowledge(),
            "files": Folder(self.root),
        } | parts
        return App(
            ports_over(self.lists, MemoryStore(), **parts),
            (),
            Access(("terminal:dana",)),
            lambda: 0.0,
        )

    async def ask(
        self,
        line: str,
        *,
        at: datetime = AT,
        surface: str = "terminal",
        user: str = "terminal:dana",
        **parts: Any,
    ) -> Any:
        belonging = LOCAL if surface == "terminal" else MEMBER
        return await self.bot(**parts).answer(Request(line, User(user), at, surface, belonging))

    async def keep(self, line: str, name: str = "kept.json") -> dict[str, Any]:
        """Store what `receipt LINE --json` prints."""
        call, card = await self.bot().run(
            Request(f"receipt {line}", User("terminal:dana"), AT, "terminal", LOCAL)
        )
        (self.root / name).write_text(json.dumps(envelope(call, card, AT), default=plain))
        document: dict[str, Any] = json.loads((self.root / name).read_text())
        return document

    def rewrite(self, document: dict[str, Any], name: str = "kept.json") -> None:
        (self.root / name).write_text(json.dumps(document))


@pytest.fixture(scope="module")
def bill(tmp_path_factory: pytest.TempPathFactory) -> Billing:
    """Return the bill that tests begin with."""
    return exported(tmp_path_factory.mktemp("receipt") / "bill", rows())


@pytest.fixture
def world(tmp_path: Path, bill: Billing) -> World:
    return World(tmp_path, bill)


def differing(card: Any) -> dict[str, tuple[str, str, str]]:
    assert card.tone is Tone.WARNING, card
    return {
        each["what"]: (each["was"], each["now"], each["why"]) for each in card.data["differences"]
    }


async def test_a_receipt_states_query_rows_total_formula_and_age_of_each_number(
    world: World,
) -> None:
    card = await world.ask("receipt cost 2026-11-11..2026-11-12 by service")
    figures = {each["path"]: each for each in card.data["figures"]}
    assert Decimal(figures["/total/net_usd"]["amount"]) == 48 * (3 + 4 - Decimal("0.5"))
    assert figures["/total/net_usd"]["formula"].startswith("gross + discounts + credits + tax")
    asked = next(
        each
        for each in card.data["questions"]
        if each["asked"] == "2026-11-11..2026-11-12 by service"
    )
    assert (asked["port"], asked["rows"], Decimal(asked["total"]["net"])) == (
        "bill",
        2,
        Decimal(312),
    )
    assert asked["through"] == "2026-11-20T12:00:00Z"
    assert [(each["key"], Decimal(each["money"]["net"])) for each in asked["pieces"]] == [
        ("2026-11-11", 156),
        ("2026-11-12", 156),
    ]


async def test_the_receipt_of_a_price_names_basis_source_and_date(world: World) -> None:
    card = await world.ask("receipt tco p5.48xlarge trn1.32xlarge")
    prices = [
        price
        for each in card.data["questions"]
        for price in each["prices"]
        if price["instance_type"] == "trn1.32xlarge"
    ]
    listed = next(price for price in prices if price["basis"] == "price list")
    assert (listed["usd_per_hour"], listed["source"], listed["asof"]) == (
        "21.50",
        "AWS Price List",
        "2026-11-19",
    )


async def test_numbers_are_recomputed_from_their_pieces_and_terms(world: World) -> None:
    card = await world.ask("verify cost 2026-11-11..2026-11-12 by service")
    assert card.tone is Tone.GOOD, card
    assert {path: how for path, how in card.data["checked"].items() if how != "recomputed"} == {}
    assert card.data["sums"] == 1
    card = await world.ask("verify tco p5.48xlarge trn1.32xlarge nodes=4 egress_gb=10")
    assert card.tone is Tone.GOOD, card
    assert card.data["checked"]["/options/1/usd_per_hour"] == "looked up again"
    assert card.data["checked"]["/options/1/instances_usd"] == "answered again"


async def test_a_kept_receipt_holds_over_the_same_data_also_later(world: World) -> None:
    await world.keep("cost 7d by service")
    assert (await world.ask("verify kept.json")).tone is Tone.GOOD
    later = rows() + [
        [
            "",
            "Usage",
            "AmazonEC2",
            f"2026-11-21T{n:02}:00:00Z",
            f"2026-11-21T{n + 1:02}:00:00Z",
            "i-1",
            "3",
        ]
        for n in range(9)
    ]
    world.export(later)
    card = await world.ask("verify kept.json", at=AT + timedelta(days=2))
    assert card.tone is Tone.GOOD, card.data["differences"]


async def test_a_row_that_was_added_to_the_export_is_found_and_its_day_named(world: World) -> None:
    await world.keep("cost 7d by service")
    world.export(
        [
            *rows(),
            [
                "",
                "Usage",
                "AmazonEC2",
                "2026-11-15T04:00:00Z",
                "2026-11-15T05:00:00Z",
                "i-2",
                "10.01",
            ],
        ]
    )
    found = differing(await world.ask("verify kept.json"))
    was, now, why = found["bill of 2026-11-15: 2026-11-13 12:00..2026-11-20 12:00 UTC by service"]
    assert (was, now) == ("net 156.00, amortised 156.00", "net 166.01, amortised 166.01")
    assert "rows" in why
    was, now, why = found["/total/net_usd"]
    assert Decimal(now) - Decimal(was) == Decimal("10.01")
    assert why == "changed: bill of 2026-11-15"


async def test_a_price_row_that_changed_is_found_and_named(world: World) -> None:
    await world.keep("tco p5.48xlarge trn1.32xlarge")
    world.lists.usd["trn1.32xlarge"] = "19.35"
    found = differing(await world.ask("verify kept.json"))
    was, now, _ = found["price of trn1.32xlarge, on-demand, price list, us-east-1"]
    assert (was.split(" ")[0], now.split(" ")[0]) == ("21.50", "19.35")
    assert found["/options/1/usd_per_hour"][:2] == ("21.50", "19.35")
    assert "/options/0/usd_per_hour" not in found


@pytest.mark.parametrize("by", ["0.01", "-1000"])
async def test_a_receipt_whose_number_was_tampered_with_is_found(world: World, by: str) -> None:
    document = await world.keep("cost 7d by service")
    figure = next(each for each in document["data"]["figures"] if each["path"] == "/rows/0/net_usd")
    right = figure["amount"]
    figure["amount"] = str(Decimal(right) + Decimal(by))
    world.rewrite(document)
    found = differing(await world.ask("verify kept.json"))
    assert found == {
        "/rows/0/net_usd": (
            f"{Decimal(figure['amount']):.2f}",
            f"{Decimal(right):.2f}",
            "the same data make another number",
        )
    }


async def test_a_receipt_whose_formula_question_or_number_is_missing_is_found(world: World) -> None:
    document = await world.keep("cost 7d by service")
    document["data"]["figures"][0]["formula"] = "as we agreed"
    dropped = document["data"]["figures"].pop(3)
    document["data"]["questions"][0]["digest"] = "0" * 16
    gone = document["data"]["questions"].pop(1)
    world.rewrite(document)
    found = differing(await world.ask("verify kept.json"))
    assert found[document["data"]["figures"][0]["path"]][2] == "the formula is another one"
    assert found[dropped["path"]][0] == "not in the receipt"
    assert found[f"bill: {gone['asked']}"][:2] == ("not asked", "asked")
    assert any(
        what.startswith("bill: ") and why == "the content changed"
        for what, (_, _, why) in found.items()
    )


class Overstated:
    """A bill whose answers by service alone say one cent too much."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def tally(self, window: Any, by: Any, where: Any = (), most: Any = None) -> Any:
        tally = self.real.tally(window, by, where)
        if tuple(by) != ("service",):
            return tally
        more = Money(gross=Decimal("0.01"), net=Decimal("0.01"))
        first, *others = tally.rows
        return replace(
            tally, rows=(Spend(first.key, first.money + more), *others), total=tally.total + more
        )


async def test_a_sum_that_its_days_and_resources_do_not_make_is_found(world: World) -> None:
    lying = Overstated(world.billing)
    found = differing(
        await world.ask("verify cost 2026-11-11..2026-11-12 by service", billing=lying)
    )
    for part in ("day", "resource"):
        row = next(
            what
            for what in found
            if f"bill added up by {part}: 2026-11-11..2026-11-12 by service, Amazon" in what
        )
        assert found[row] == (
            "gross 192.01; net 168.01",
            "gross 192.00; net 168.00",
            "its pieces make another sum",
        ), found
        assert f"bill added up by {part}: 2026-11-11..2026-11-12 by service, total" in found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        '{"data": {}}',
        '{"line": "cost", "at": "soon"}',
        "[" * 100_000,
        '{"line": 3, "at": 4}',
    ],
)
async def test_a_file_that_is_no_receipt_is_refused_in_one_sentence(
    world: World, text: str
) -> None:
    (world.root / "kept.json").write_text(text)
    card = await world.ask("verify kept.json")
    assert card.tone is Tone.ERROR
    assert card.data["error"].startswith(
        "'kept.json' is not a receipt that 'receipt LINE --json' wrote"
    )


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("at", "0001-01-01T00:00:00Z"),
        ("at", "9999-12-31T23:59:59Z"),
        ("amount", "1e999999999"),
        ("amount", "dear"),
        ("through", "0001-01-01T00:00:00Z"),
    ],
)
async def test_a_receipt_with_an_absurd_number_or_time_is_refused(
    world: World, what: str, value: str
) -> None:
    document = await world.keep("cost 7d by service")
    place = {
        "at": document["data"],
        "amount": document["data"]["figures"][0],
        "through": document["data"]["questions"][0],
    }[what]
    place[what] = value
    world.rewrite(document)
    card = await world.ask("verify kept.json")
    assert card.tone is Tone.ERROR
    assert "'kept.json' is not a receipt" in card.data["error"]


def test_numbers_of_any_kind_are_read() -> None:
    data = {
        "a": np.float64(1.5),
        "b": [{"c": True, "d": None, "e": "7"}, {"f": 3}],
        "g": Decimal("2.50"),
        "h/i": float("nan"),
    }
    read = [(pointer(path), str(amount)) for path, amount in numbers(data)]
    assert read == [("/a", "1.5"), ("/b/1/f", "3"), ("/g", "2.50"), ("/h~1i", "NaN")]


async def test_files_are_for_terminals(world: World) -> None:
    await world.keep("cost 7d by service")
    card = await world.ask("verify kept.json", surface="chat", user="chat:U1")
    assert (card.tone, card.data["error"]) == (
        Tone.ERROR,
        "Files are read in a terminal; paste the text itself.",
    )


@pytest.mark.parametrize("line", ["config show idle", "config idle", "doctor"])
@pytest.mark.parametrize("word", ["receipt", "verify", "trnbot receipt", "share receipt"])
async def test_nobody_sees_through_a_receipt_what_they_may_not_ask(
    world: World, word: str, line: str
) -> None:
    plainly = await world.ask(line, surface="chat", user="chat:U1")
    card = await world.ask(f"{word} {line}", surface="chat", user="chat:U1")
    if plainly.tone is Tone.ERROR:
        assert (card.tone, card.data) == (Tone.ERROR, plainly.data)


def test_the_receipt_of_a_line_for_admins_is_nobody_elses() -> None:
    def equal(line: str) -> Any:
        return equal_of(Request(line, User("chat:U1"), AT, "chat", MEMBER))

    assert equal("receipt cost 7d") is not None
    assert equal("receipt doctor") is None


async def test_the_answer_is_private_and_its_quotes_are_kept(world: World) -> None:
    card = await world.ask(
        'receipt cost 7d by service service="AmazonS3"', surface="chat", user="chat:U1"
    )
    assert not card.public
    assert card.data["line"] == 'cost 7d by service service="AmazonS3"'


async def test_a_whole_fleet_answers_alike_when_it_is_asked_again() -> None:
    settings = settings_of({"source": f"recording:{recording('causes')}"})
    bot, opened = terminal_app(settings, settings.source, None)
    card = (
        await bot.run(
            Request(
                "verify cost last-month by service",
                User(terminal_user()),
                opened.end(),
                "terminal",
                LOCAL,
            )
        )
    )[1]
    assert (card.tone, card.data["sums"]) == (Tone.GOOD, 1)
    assert "recomputed" in set(card.data["checked"].values()) <= {"recomputed", "answered again"}


def test_every_source_is_a_sentence_about_one_number() -> None:
    sources = [words for each in COMMANDS.values() for words in each.figures.values()]
    assert len(sources) > 300
    assert all(words.strip() for words in sources)


async def test_the_receipt_of_spot_names_the_newest_price_of_each_zone(world: World) -> None:
    card = await world.ask("receipt spot trn1.32xlarge")
    asked = [each for each in card.data["questions"] if each["port"] == "spot prices"]
    prices = {price["zone"]: price["usd_per_hour"] for each in asked for price in each["prices"]}
    assert prices == {"us-east-1a": "8.50", "us-east-1b": "9.00"}


async def test_differences_beyond_those_that_are_listed_are_counted(world: World) -> None:
    receipt = decode(AnswerReceipt, (await world.ask("receipt cost 7d")).data)
    wrong = tuple(Difference(f"row {n}", "1", "2") for n in range(20))
    table = verification_card(receipt, Verification({}, wrong)).blocks[0]
    assert isinstance(table, Table)
    assert (len(table.rows), table.rest) == (15, "and 5 more differences")
