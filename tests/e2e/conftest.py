"""One headless Chromium for all tests of a process: to start one takes a second of processor time."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.browser import chromium


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
