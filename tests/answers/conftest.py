"""A bot over a real recording."""

from __future__ import annotations

import pytest

from adapters.store.memory import MemoryStore
from bot.app import App
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource
from tests.answers.configuring import app, opened_every
from tests.e2e.product import recording


@pytest.fixture(scope="module")
def opened() -> OpenedSource:
    """Return six hours of three nodes, with few ticks: a preview takes no time."""
    return opened_every("30m")


@pytest.fixture(scope="session")
def causes() -> OpenedSource:
    """Return the recording in which something of every cause goes wrong, which takes seconds to open."""
    source = f"recording:{recording('causes')}"
    return OpenedSource(source, settings_of({"source": source}))


@pytest.fixture
def bot(opened: OpenedSource) -> App:
    return app(opened, MemoryStore())
