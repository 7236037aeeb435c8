"""The table of an answer as CSV: numbers as they are, text that no spreadsheet runs, and every amount of the answer."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from typing import Any

import pytest

from bot.answers.about.document import csv_text
from bot.answers.all import ANSWERS
from bot.cards.card import Card, Heading, Table, text
from bot.cards.lines import file_name
from bot.errors import WrongInput
from bot.grammar.registry import commands_by_name
from tests.cards.leads import change
from tests.cards.samples import SAMPLES

assert ANSWERS
TABLE = Table((Heading("team"), Heading("net")), (("=1+1", "$5"),))
LINES = {
    "cost": "cost 7d by team",
    "why_cost": "why cost 7d",
    "price": "price trn1.32xlarge",
    "alerts_30": "alerts",
    "idle": "idle",
}


def rows(line: str, card: Card) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_text(line, card))))


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t", "\n"])
def test_text_that_a_spreadsheet_would_run_is_marked_as_text(sign: str) -> None:
    data = {
        "rows": [
            {
                "key": {"team": f"{sign}HYPERLINK(1)"},
                "net_usd": Decimal("-5.125"),
                "hours": -1.5,
                f"{sign}x": 1,
            }
        ]
    }
    (row,) = rows("cost", Card("t", data=data))
    assert row == {
        "team": f"'{sign}HYPERLINK(1)",
        "net_usd": "-5.125",
        "hours": "-1.5",
        f"'{sign}x": "1",
    }


def test_a_cell_of_a_table_without_records_is_marked_too() -> None:
    assert rows("config", Card("t", blocks=(TABLE,))) == [{"team": "'=1+1", "net": "$5"}]


def test_amounts_are_not_rounded_and_name_their_unit() -> None:
    (first, *_) = rows(LINES["cost"], SAMPLES["cost"]())
    assert set(first) >= {"team", "net_usd", "amortised_usd"}
    told = [row["amortised_usd"] for row in SAMPLES["cost"]().data["rows"]]
    assert [Decimal(row["amortised_usd"]) for row in rows(LINES["cost"], SAMPLES["cost"]())] == told


def test_the_drivers_of_a_change_sum_to_it_to_the_cent() -> None:
    listed = rows(LINES["why_cost"], SAMPLES["why_cost"]())
    assert sum(Decimal(row["net_usd"]) for row in listed) == change().net
    assert len(listed) == len(change().drivers)


@pytest.mark.parametrize("name", LINES)
def test_rows_that_a_chat_folds_are_all_there(name: str) -> None:
    card = SAMPLES[name]()
    table = next(block for block in card.blocks if isinstance(block, Table))
    assert len(rows(LINES[name], card)) >= len(table.every or table.rows) - bool(name == "why_cost")


def test_another_currency_is_named_in_each_row() -> None:
    card = Card("t", data={"currency": "EUR", "rows": [{"net_usd": Decimal(1)}]})
    assert rows("cost", card) == [{"net_usd": "1", "currency": "EUR"}]


@pytest.mark.parametrize(
    "card", [Card("t", blocks=(text("x"),)), Card("t", data={"things": [{"a": 1}]})]
)
def test_an_answer_without_a_table_is_refused(card: Card) -> None:
    with pytest.raises(WrongInput, match="'about' answered without a table"):
        csv_text("about", card)


def test_no_command_has_an_argument_that_the_address_keeps_for_itself() -> None:
    assert not [
        each.name
        for each in commands_by_name(hidden=True)
        for one in each.parameters
        if one.word == "format"
    ]


def test_a_file_is_named_by_its_line_and_leads_nowhere() -> None:
    assert file_name('cost 7d by team team="../a b"') == "trnbot-cost-7d-by-team-team-..-a-b.csv"


@pytest.mark.parametrize("value", [None, float("nan")])
def test_what_is_not_known_is_an_empty_cell(value: Any) -> None:
    assert rows("cost", Card("t", data={"rows": [{"a": value, "b": True}]})) == [
        {"a": "", "b": "true"}
    ]
