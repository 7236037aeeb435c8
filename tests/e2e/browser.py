"""A headless Chromium, as the tests of pages, their pictures and benchmarks start it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@asynccontextmanager
async def chromium() -> AsyncIterator[Any]:
    """Start it, and end it; a test skips without one."""
    api = pytest.importorskip("playwright.async_api")
    if not os.access(CHROMIUM, os.X_OK):
        pytest.skip(f"needs {CHROMIUM}")
    async with api.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        await browser.close()


async def until(page: Any, condition: str, value: object = None, most_ms: int = 30_000) -> None:
    """Wait until an expression, or a function of the value, is true in a page.

    Playwright's own `wait_for_function` evaluates text inside the page each time but the first,
    which the console's content security policy refuses.
    """
    async with asyncio.timeout(most_ms / 1000):
        while not await page.evaluate(condition, value):
            await asyncio.sleep(0.05)
