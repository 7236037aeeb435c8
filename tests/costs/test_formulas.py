"""Formulas over an answer's data: names by their nearness, sums over rows, and terms that are missing."""

from __future__ import annotations

from decimal import Decimal

import pytest

from bot.costs.formulas import Formulas, Terms, UnknownTerm
from bot.model.receipt import FigureFormula

DATA = {
    "rows": [{"name": "a", "usd": Decimal("1.005"), "n": 2}, {"name": "b", "usd": None, "n": 3.5}],
    "total": {"usd": Decimal("2.00"), "kinds": {"x": 3, "y": 4}},
    "usd": Decimal(7),
    "nothing": None,
}
TERMS = Terms(
    DATA,
    {"arg": {"n": 5, "for": Decimal(2)}, "prices": {"a": Decimal(10)}},
    {"twice": "usd * 2"}.get,
)


@pytest.mark.parametrize(
    ("how", "path", "made"),
    [
        ("usd", ("rows", 0, "x"), "1.005"),
        ("usd", ("total", "x"), "2.00"),
        ("usd", ("x",), "7"),
        ("total.usd + 1", ("rows", 0, "x"), "3.00"),
        ("sum(rows.usd)", ("x",), "1.005"),
        ("count(rows.n)", ("x",), "2"),
        ("sum(row.n for row in rows if row.usd is not None)", ("x",), "2"),
        ("sum(row.n for row in rows if row.usd is None and not row.name == 'a')", ("x",), "3.5"),
        ("sum(prices[row.name] for row in rows if row.name in prices)", ("x",), "10"),
        ("sum(kinds[name] for name in kinds)", ("total", "x"), "7"),
        ("cents(usd)", ("rows", 0, "x"), "1.00"),
        ("-arg['for'] * arg.n", ("x",), "-10"),
        ("1 if name == 'a' else 2", ("rows", 1, "x"), "2"),
        ("twice", ("rows", 0, "x"), "2.010"),
        ("up(usd) + down(usd)", ("rows", 0, "x"), "3"),
        ("most(1, least(5, n))", ("rows", 1, "x"), "3.5"),
        ("round(n / 3, 2)", ("rows", 1, "x"), "1.17"),
    ],
)
def test_a_formula_makes_its_number(how: str, path: tuple[str | int, ...], made: str) -> None:
    assert TERMS.compute(how, path) == Decimal(made)


@pytest.mark.parametrize(
    "how",
    [
        "unheard",
        "usd * nothing",
        "usd / 0",
        "prices['b']",
        "rows.unheard",
        "nothing",
        "rows[0]",
        "name",
    ],
)
def test_a_missing_term_makes_no_number(how: str) -> None:
    with pytest.raises((UnknownTerm, ValueError)):
        TERMS.compute(how, ("rows", 0, "x") if how == "name" else ("x",))


@pytest.mark.parametrize(
    "how", ["[1]", "usd ** 2", "lambda: 1", "usd.__class__", "open('x')", "(lambda: 1)()"]
)
def test_nothing_but_formulas_is_evaluated(how: str) -> None:
    with pytest.raises((UnknownTerm, ValueError, KeyError)):
        TERMS.compute(how, ("x",))


def test_the_row_of_the_command_and_then_the_longest_name_is_taken() -> None:
    rows = [
        ("*", "usd"),
        ("cost", "usd"),
        ("cost", "total/usd"),
        ("cost", "kinds/*"),
        ("fleet", "total/usd"),
    ]
    formulas = Formulas(
        tuple(FigureFormula(command, name, f"{command} {name}", "again") for command, name in rows)
    )

    def words(command: str, *path: str | int) -> str | None:
        row = formulas.of(command, path)
        return row.words if row else None

    assert words("cost", "rows", 3, "usd") == "cost usd"
    assert words("cost", "total", "usd") == "cost total/usd"
    assert words("idle", "total", "usd") == "* usd"
    assert words("cost", "kinds", "trn1.32xlarge") == "cost kinds/*"
    assert words("cost", "unheard") is None
