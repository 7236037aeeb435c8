"""The product's console in a browser, as 64 nodes starve: its pages, its controls, and what its database keeps meanwhile."""

from __future__ import annotations

import itertools
import json
import shutil
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import CACHE, Product, product, recording
from tests.e2e.slackserver import free_port
from tests.e2e.test_life import FAST, STARVED, STILL

WIDTHS = {"phone": 390, "tablet": 820, "desktop": 1440}
THEMES = ("light", "dark")
WINDOWS = list(zip(WIDTHS, itertools.cycle(THEMES), strict=False))
"""Each width once, each theme."""
EVERY_WINDOW = [
    pytest.param(*window, marks=() if window in WINDOWS else pytest.mark.slow)
    for window in itertools.product(WIDTHS, THEMES)
]
FIXED = (
    "/ask?line=alerts%20window%3D7d",
    "/ask?line=config",
    "/ask?line=silences",
    "/ask?line=ack%20nothing",
)
"""Pages beside those of the rail: answers with a table, a form and nothing, and a line that waits for a press."""


@contextmanager
def starved(watched: Path, scenario: str = "reference") -> Iterator[Product]:
    """Serve the console of what was watched; it stands still there, in a database of its own."""
    with tempfile.TemporaryDirectory(dir=CACHE) as made:
        shutil.copytree(watched, made, dirs_exist_ok=True)
        with product(Path(made), free_port(), _settings(scenario) | STILL) as bot:
            yield bot


def _settings(scenario: str) -> dict[str, str]:
    return {
        "TRNBOT_SOURCE": f"recording:{recording(scenario)}",
        "TRNBOT_ROUTE": "web:alerts",
        "TRNBOT_LINES": "6000",
    }


def watch(folder: Path, scenario: str = "reference", until: str = STARVED) -> None:
    """Watch a recording until 64 nodes starve, or another time; the new folder gets the bot's database."""
    folder.mkdir()
    with product(folder, free_port(), _settings(scenario) | FAST) as bot:
        while str(bot.health()["ticked_at"] or "") < until and not bot.health()["ended"]:
            time.sleep(0.1)


@dataclass(frozen=True)
class Tab:
    """Hold a page of the browser, and what went wrong in its script."""

    page: Any
    url: str
    problems: list[str]

    async def open(self, path: str) -> None:
        """Open a page of the console, and wait until it is pressed and heard."""
        await self.page.goto(self.url + path)
        await self.page.wait_for_selector("body.ready.live")

    async def paths(self) -> list[str]:
        """Return every page: those of the rail, an alert, and answers of several kinds."""
        await self.open("/")
        rail = await self.page.locator("nav a").evaluate_all(
            "every => every.map((one) => one.getAttribute('href'))"
        )
        alert = await self.page.locator("a[href^='/alert/']").first.get_attribute("href")
        return list(dict.fromkeys([*rail, alert, *FIXED]))


@asynccontextmanager
async def tab(browser: Any, url: str, width: int, theme: str) -> AsyncIterator[Tab]:
    """Open a tab of a width in a theme; an error in a script fails its user."""
    context = await browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, locale="en-GB"
    )
    page = await context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    yield Tab(page, url, problems)
    await context.close()
    assert problems == []


_KEPT = {
    "decisions": "SELECT id, alert, doing FROM decisions",
    "mutes": "SELECT id FROM silences WHERE ended_at IS NULL",
    "versions": "SELECT number, doing FROM versions",
}


def kept(bot: Product) -> Mapping[str, Any]:
    """Return what the server keeps of people's presses: decisions, mutes in force, versions of the policy, and what all read."""
    with closing(sqlite3.connect(f"file:{bot.log.parent}/trnbot.db?mode=ro", uri=True)) as database:
        state: dict[str, Any] = {
            name: sorted(database.execute(query)) for name, query in _KEPT.items()
        }
        bodies = database.execute("SELECT body FROM shelf WHERE shelf = 'web.messages'")
        state["told"] = sum(1 + len(json.loads(body)["replies"]) for (body,) in bodies)
    return state
