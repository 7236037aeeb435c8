"""What is dear is made once: one headless Chromium for all tests of a process, and one watch of 64 nodes that starve for all processes."""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.browser import chromium
from tests.e2e.consoles import watch
from tests.e2e.product import made_once


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run these tests in one loop a process: the browser belongs to the loop that started it."""
    for item in items:
        if "tests/e2e/" in item.nodeid and inspect.iscoroutinefunction(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_browser() -> AsyncIterator[Any]:
    async with chromium() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="session")
async def browser(shared_browser: Any) -> AsyncIterator[Any]:
    """Lend the browser; windows that a test leaves open are closed."""
    yield shared_browser
    for context in shared_browser.contexts:
        await context.close()


@pytest.fixture(scope="session")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a bot as 64 nodes starve; to get there takes 15 seconds of processor time."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return made_once(shared / "watched", watch)
