"""What a look at the bill would cost is said by the way to it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from adapters.aws.api.operations import Place
from bot.settings.settings import read_settings
from bot.wiring.bills import AskingCost, asking_cost, engine_of, folder_of_copies
from tests.builders import NOON
from tests.cases import in_one_run

CALLS = "up to 20 calls to Cost Explorer ($0.20)"
OUTLOOK = "up to 5 calls to Cost Explorer ($0.05)"
EXPORT = {"TRNBOT_AWS_BILLING": "s3://bills/p"}
ATHENA = {"TRNBOT_AWS_ATHENA": "a.b"}
SPARK = {"TRNBOT_SPARK": "sc://x", "TRNBOT_SPARK_TABLE": "a.b"}
NO_CALLS = {"TRNBOT_AWS_EXPLORER_CALLS": "0"}
BY_ATHENA = "a query that Athena bills by the bytes it scans"
BY_SPARK = "a query that your Spark works on"


@in_one_run
@pytest.mark.parametrize(
    ("environ", "cost"),
    [
        ({}, AskingCost(CALLS, OUTLOOK)),
        (NO_CALLS, AskingCost()),
        (EXPORT, AskingCost("", OUTLOOK)),
        (EXPORT | NO_CALLS, AskingCost()),
        (ATHENA, AskingCost(BY_ATHENA, OUTLOOK)),
        (ATHENA | NO_CALLS, AskingCost(BY_ATHENA)),
        (SPARK, AskingCost(BY_SPARK, OUTLOOK)),
    ],
)
def test_a_look_costs_what_its_way_costs(
    environ: dict[str, str], cost: AskingCost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = SimpleNamespace(units={})
    meter = SimpleNamespace(today=lambda: day, save=lambda: None)
    calls = SimpleNamespace(clock=lambda: NOON, meter=meter)
    live: Any = SimpleNamespace(calls=calls, home=Place("us-west-2"))
    monkeypatch.chdir(tmp_path)
    assert asking_cost(read_settings(environ), live) == cost


@in_one_run
@pytest.mark.parametrize(
    ("environ", "engine", "place"),
    [
        ({}, None, ""),
        (EXPORT, None, ""),
        (ATHENA, "Athena", "athena"),
        (SPARK, "Spark", "spark/a.b"),
    ],
)
def test_each_way_has_copies_of_its_own(
    environ: dict[str, str], engine: str | None, place: str, tmp_path: Path
) -> None:
    settings = read_settings(environ)
    found = engine_of(settings)
    assert (found and found.name) == engine
    assert folder_of_copies(settings, tmp_path) == tmp_path / place
