from pathlib import Path

import duckdb
import pytest

from adapters.simulator import generate


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings") / "tiny"
    generate(folder, 7, "tiny")
    return folder


@pytest.fixture(scope="session")
def causes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings") / "causes"
    generate(folder, 7, "causes", period_seconds=300)
    return folder


@pytest.fixture
def sql() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()
