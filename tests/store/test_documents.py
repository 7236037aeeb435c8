"""What features keep as documents has the shape that 0.1.0 wrote, read and written again."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from adapters.store.memory import MemoryStore
from bot.answers.about.digest import DIGEST
from bot.answers.plan.porting import CHECKLISTS
from bot.answers.runs.costed import BASELINES, MIGRATIONS
from bot.costs.reconcile import ESTIMATES, MonthForecast
from bot.ports import Documents
from bot.settings.routes import SUBSCRIPTIONS
from bot.watch.health import OUTAGES
from bot.watch.preview import PREVIEWS
from tests.builders import NOON

SHELVES = (
    BASELINES,
    CHECKLISTS,
    ESTIMATES,
    MIGRATIONS,
    PREVIEWS,
    DIGEST.sent,
    DIGEST.subscribed,
    SUBSCRIPTIONS,
    OUTAGES,
)


def written(shelf: str) -> dict[str, Any]:
    """Return the documents that 0.1.0 wrote on a shelf."""
    with sqlite3.connect(":memory:") as database:
        database.executescript(Path(__file__).with_name("v0_1_0.sql").read_text(encoding="utf-8"))
        rows = database.execute("SELECT key, body FROM shelf WHERE shelf = ?", [shelf]).fetchall()
    database.close()
    return {key: json.loads(body) for key, body in rows}


def in_utc(document: Any) -> Any:
    """Return the document with times as the codec writes them: 0.1.0 wrote some of them `+00:00`."""
    return json.loads(json.dumps(document).replace('+00:00"', 'Z"'))


@pytest.mark.parametrize("documents", SHELVES, ids=lambda documents: documents.collection)
def test_a_document_of_0_1_0_is_written_again_as_it_was(documents: Documents[Any]) -> None:
    store, before = MemoryStore(), written(documents.collection)
    assert before
    for key, document in before.items():
        store.put(documents.collection, key, document)
        noun = documents.get(store, key)
        documents.put(store, key, noun)
        assert in_utc(store.get(documents.collection, key)) == in_utc(document)


def test_a_field_that_is_left_out_is_not_written_and_read_as_none() -> None:
    store = MemoryStore()
    ESTIMATES.put(store, "2026-11-20", MonthForecast(NOON))
    assert list(store.get("estimates", "2026-11-20") or ()) == ["at"]
    assert ESTIMATES.get(store, "2026-11-20") == MonthForecast(NOON)


def test_nouns_are_listed_the_newest_first_and_dropped() -> None:
    store = MemoryStore()
    for key in ("a", "b", "c"):
        ESTIMATES.put(store, key, MonthForecast(NOON))
    ESTIMATES.drop(store, "b")
    assert ESTIMATES.keys(store, 9) == ["c", "a"]
    assert ESTIMATES.newest(store, 1) == [("c", MonthForecast(NOON))]
    assert ESTIMATES.get(store, "b") is None
