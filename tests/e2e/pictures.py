"""Take all pictures of the documentation: `python -m tests.e2e.pictures [docs/pictures]`.

Those of the console are taken here, the story's by `film.py`; those of Slack and Teams on the way of
`test_life.py` and `test_answers.py`, of which the pictures that the folder holds already are kept.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from tests.e2e import film
from tests.e2e.browser import chromium
from tests.e2e.product import Product, product, recording
from tests.e2e.slackserver import free_port

END = "2026-11-20T11:45"
"""A time of the demo's recording when four alerts are open."""
EARLY = "2026-11-20T08:00"
LONGEST_S = 600.0


@dataclass(frozen=True)
class Shot:
    """Name a picture, its page, the theme and the size of the window in CSS pixels."""

    name: str
    path: str
    theme: str = "light"
    width: int = 1440
    height: int = 900


SHOTS = (
    Shot("console-light", "/"),
    Shot("console-dark", "/", "dark"),
    Shot("console-phone", "/", "dark", 400, 860),
    Shot("cost", "/cost"),
    Shot("cost-filtered", "/cost?line=cost%2030d%20by%20service%20team%3Dvision", "dark"),
    Shot("fleet", "/fleet"),
    Shot("fleet-cluster", "/fleet?line=fleet%20llama", "dark"),
    Shot("alert", "/alert/llama", height=760),
    Shot("settings", "/settings", height=600),
    Shot("ask", "/ask", height=700),
    Shot("phone-cost", "/cost", width=400, height=860),
    Shot("phone-alert", "/alert/llama", "dark", 400, 860),
    Shot("phone-fleet", "/fleet", width=400, height=860),
)


def staged(state: Path) -> str:
    """Put the demo's recording beside the state, so that the page shows a source without a path of this machine."""
    (state / "demo").symlink_to(recording("demo"))
    return "recording:demo"


def caught_up(bot: Product, until: str) -> None:
    """Wait until the replay reached a time."""
    end = time.monotonic() + LONGEST_S
    while str(bot.health().get("ticked_at") or "") < until:
        if time.monotonic() > end:
            raise RuntimeError(f"the replay did not reach {until}")
        time.sleep(0.1)


async def take(browser: Any, url: str, shot: Shot, folder: Path) -> None:
    """Leave one picture, once the page has everything."""
    size = {"width": shot.width, "height": shot.height}
    page = await browser.new_page(
        viewport=size, color_scheme=shot.theme, locale="en-GB", timezone_id="UTC"
    )
    await page.goto(url + shot.path)
    await page.wait_for_selector("body.ready")
    await page.wait_for_selector(".status .waste", timeout=60_000)
    await page.wait_for_timeout(500)
    await page.screenshot(path=str(folder / f"{shot.name}.png"))
    await page.close()
    light(folder / f"{shot.name}.png")


def light(picture: Path) -> None:
    """Write a picture with a palette of its own, as a third of its weight shows the same."""
    with Image.open(picture) as drawn:
        small = drawn.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small.save(picture, optimize=True)


async def console(folder: Path) -> None:
    """Replay the demo fast, then take every picture of its end."""

    with tempfile.TemporaryDirectory() as state:
        settings = {"TRNBOT_SOURCE": staged(Path(state))}
        # The last hours pass slowly: a replay that ends says so on every page.
        for speed, until in (("20000", EARLY), ("600", END)):
            with product(Path(state), free_port(), settings | {"TRNBOT_SPEED": speed}) as bot:
                caught_up(bot, until)
        with product(Path(state), free_port(), settings | {"TRNBOT_SPEED": "1"}) as bot:
            async with chromium() as browser:
                for shot in SHOTS:
                    await take(browser, bot.url, shot, folder)


def clients(folder: Path) -> None:
    """Let the tests of the clients leave their pictures, and keep those that the pages show."""
    tests = [f"tests/e2e/test_{name}.py" for name in ("life", "answers")]
    with tempfile.TemporaryDirectory() as taken:
        environment = os.environ | {"TRNBOT_SHOTS": taken}
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n0", *tests], env=environment, check=True
        )
        for picture in Path(taken).glob("*.png"):
            if (folder / picture.name).exists():
                light(picture)
                (folder / picture.name).write_bytes(picture.read_bytes())


def main(folder: Path) -> None:
    """Take every picture into a folder; the story's go where the tour shows them."""
    asyncio.run(console(folder))
    clients(folder)
    film.main()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures"))
