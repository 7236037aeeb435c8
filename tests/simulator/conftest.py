import json
from pathlib import Path

import duckdb
import pytest

from adapters.simulator import SCENARIOS, Files, SimulationTiming, generate
from adapters.simulator.api import write_api
from adapters.simulator.bill import write_bill
from adapters.simulator.fleet import build_fleet
from adapters.simulator.generate import truth


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings") / "tiny"
    generate(folder, 7, "tiny")
    return folder


@pytest.fixture(scope="session")
def causes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording of every cause without its metrics, which take longest to write."""
    folder = tmp_path_factory.mktemp("recordings") / "causes"
    spec = SCENARIOS["causes"]
    fleet = build_fleet(spec, spec.start, round(spec.days * 1440), 7)
    write_api(folder, spec, fleet)
    write_bill(folder, spec, fleet)
    (folder / "labels.json").write_text(
        json.dumps(truth(spec, fleet), indent=1) + "\n", encoding="utf-8"
    )
    return folder


@pytest.fixture(scope="session")
def compiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording of a day on which graphs are compiled, with the compilers' logs."""
    folder = tmp_path_factory.mktemp("recordings") / "compiles"
    generate(folder, 7, "compiles", SimulationTiming(days=1.0), Files(logs=True))
    return folder


@pytest.fixture
def sql() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()
