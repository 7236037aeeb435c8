"""A bot over a real recording."""

from __future__ import annotations

import pytest

from adapters.store.memory import MemoryStore
from bot import build
from bot.app import App
from tests.commands.configuring import app
from tests.e2e.product import recording


@pytest.fixture(scope="module")
def opened() -> build.Opened:
    source = f"recording:{recording('tiny')}"
    return build.Opened(source, build.settings_of({"source": source}))


@pytest.fixture
def bot(opened: build.Opened) -> App:
    return app(opened, MemoryStore())
