"""Film the first 90 seconds of `make run` into the tour: `python -m tests.e2e.film`, a picture each 15 seconds.

The product runs as a newcomer runs it; what a picture is said to show is what the page itself said then.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from tests.e2e.browser import chromium
from tests.e2e.product import Product
from tests.e2e.slackserver import free_port

ROOT = Path(__file__).parents[2]
TOUR, PICTURES = ROOT / "docs" / "tour.md", ROOT / "docs" / "pictures"
BEGIN, END = (
    "<!-- film: made by `python -m tests.e2e.film`, do not edit -->",
    "<!-- end of the film -->",
)
EVERY_S, LONGEST_S = 15, 90
SIZE = {"width": 1200, "height": 780}
SCALE, COLOURS = 0.9, 96
"""Small enough that seven pictures are read in one page."""


@dataclass(frozen=True)
class Frame:
    """State what the page said so many seconds after it was first shown."""

    second: int
    words: str

    @property
    def name(self) -> str:
        """Return the name of its picture."""
        return f"film-{self.second:02d}.png"


@contextlib.contextmanager
def made_run(port: int) -> Iterator[Product]:
    """Run `make run` without a browser of its own, and stop it by SIGTERM."""
    log = ROOT / "var" / "film.log"
    log.parent.mkdir(exist_ok=True)
    bare = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TRNBOT_", "SLACK_", "Microsoft"))
    }
    with log.open("wb") as out:
        call = ["make", "run", f"PORT={port}", "NO_BROWSER=1"]
        running = subprocess.Popen(
            call, cwd=ROOT, env=bare, stdout=out, stderr=out, start_new_session=True
        )
    try:
        yield Product(f"http://127.0.0.1:{port}", log, running)
    finally:
        os.killpg(running.pid, signal.SIGTERM)
        running.wait(timeout=30)


def answered(run: Product, longest_s: float = 300) -> None:
    """Wait until the console is open: what comes before is not the product's first page."""
    end = time.monotonic() + longest_s
    while time.monotonic() < end and run.process.poll() is None:
        with contextlib.suppress(OSError):
            if run.health().get("ok"):
                return
        time.sleep(0.1)
    raise RuntimeError(run.log.read_text()[-2000:])


async def frame(page: Any, second: int, folder: Path) -> Frame:
    """Leave one picture of the page as it is now."""
    told = (await page.inner_text(".demo-now")).split("\n")[0]
    taken = Frame(second, told)
    with Image.open(BytesIO(await page.screenshot())) as picture:
        picture.convert("RGB").quantize(COLOURS).save(folder / taken.name, optimize=True)
    return taken


async def film(url: str, folder: Path) -> list[Frame]:
    """Open the first page and leave a picture each 15 seconds."""

    async with chromium() as browser:
        page = await browser.new_page(
            viewport=SIZE, device_scale_factor=SCALE, locale="en-GB", timezone_id="UTC"
        )
        await page.goto(url)
        await page.wait_for_selector("body.ready")
        begun, frames = time.monotonic(), list[Frame]()
        for second in range(0, LONGEST_S + 1, EVERY_S):
            await asyncio.sleep(max(0.0, begun + second - time.monotonic()))
            frames.append(await frame(page, second, folder))
    return frames


def strip(frames: list[Frame]) -> str:
    """Return the part of the tour that shows the pictures."""
    parts = [
        f"**{one.second} s.** {one.words}\n\n![The console after {one.second} seconds](pictures/{one.name})"
        for one in frames
    ]
    return "\n\n".join([BEGIN, *parts, END])


def main() -> None:
    """Take the pictures, and put them into the tour."""
    with made_run(port := free_port()) as run:
        answered(run)
        frames = asyncio.run(film(f"http://127.0.0.1:{port}/", PICTURES))
    before, _, rest = TOUR.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    TOUR.write_text(before + strip(frames) + after, encoding="utf-8")


if __name__ == "__main__":
    main()
