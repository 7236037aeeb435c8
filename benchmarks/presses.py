"""Time presses in a browser until their answer is visible.

`python -m benchmarks.presses [SCENARIO] [ROUNDS] [UNTIL]`.

A process of its own has played the demo's recording to a time of it, else to its end. A page is
opened from the rail; it is there once its answer is parsed and its script runs. A press is answered
once the reader sees the answer, the dialog or the note: two frames after it stands in the page.
Whatever a press decides is taken back by the next.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import quantiles

from playwright.async_api import Page

from tests.e2e.browser import chromium
from tests.e2e.consoles import starved, watch

READING = ("Why", "Snooze…", "Not an anomaly…", "Tune…")
DECIDING = ("Acknowledge", "Reopen")
PRESSED = """(control, answers) => new Promise((seen) => {
  if (!control.isConnected) return seen(-1);
  const began = performance.now();
  const look = () => {
    const said = document.querySelectorAll(".private, .noted, .failure").length > answers;
    if (performance.now() - began > 20000) return seen(20000);
    if (!said && !document.querySelector("dialog[open] .card")) return requestAnimationFrame(look);
    requestAnimationFrame(() => requestAnimationFrame(() => seen(performance.now() - began)));
  };
  control.click();
  look();
})"""
OPENED = """() => {
  const [page] = performance.getEntriesByType("navigation");
  const [paint] = performance.getEntriesByName("first-contentful-paint");
  return [page.domContentLoadedEventEnd, paint ? paint.startTime : page.domContentLoadedEventEnd];
}"""
END = "9999"
Times = dict[str, dict[str, list[float]]]


async def open_page(page: Page, url: str, path: str, times: dict[str, list[float]]) -> None:
    """Open a page, and note when it was painted first and when its answer stood there."""
    await page.goto(url + path)
    await page.wait_for_selector("body.ready")
    answered, painted = await page.evaluate(OPENED)
    times["opened"].append(answered)
    times["painted"].append(painted)


async def press(page: Page, label: str, times: dict[str, list[float]]) -> None:
    """Press the first control of this label where the page has one, and note when its answer was visible."""
    control = page.locator("main").get_by_role("button", name=label, exact=True).first
    if not await control.count():
        return
    answers = await page.locator(".private, .noted, .failure").count()
    while (took := await control.evaluate(PRESSED, answers)) < 0:
        continue  # the page was drawn anew since the control was found: nobody presses what is gone
    times["pressed"].append(took)
    if await page.locator("dialog[open]").count():
        await page.keyboard.press("Escape")


async def measure(page: Page, url: str, rounds: int) -> Times:
    """Open each page and press its controls, so many times.

    The first round warms the caches and does not count.
    """
    await page.goto(url)
    rail = await page.locator("nav a").evaluate_all(
        "every => every.map((one) => one.getAttribute('href'))"
    )
    alerts = await page.locator("a[href^='/alert/']").evaluate_all(
        "every => every.map((one) => one.getAttribute('href'))"
    )
    times: Times = {}
    for number in range(rounds + 1):
        for path in dict.fromkeys([*rail, *alerts[:1]]):
            noted: dict[str, list[float]] = defaultdict(list)
            await open_page(page, url, path, noted)
            for label in (*READING, *DECIDING, "Share"):
                await press(page, label, noted)
            await page.locator("#line").fill("alerts")
            await press(page, "Ask", noted)
            if number:
                for kind, each in noted.items():
                    times.setdefault(path.split("?")[0], {}).setdefault(kind, []).extend(each)
    return times


def spread(values: list[float]) -> str:
    """Return the middle and the 95th of a hundred, in milliseconds."""
    return f"{quantiles(values, n=20)[9]:6.0f} {quantiles(values, n=20)[18]:6.0f}"


def show(times: Times) -> None:
    """Print a line a page, and one for all presses."""
    print(
        f"{'page':24} {'painted p50 p95':>15} {'opened p50 p95':>15} {'pressed p50 p95':>16}  presses"
    )
    for path, kinds in times.items():
        figures = "   ".join(spread(kinds[kind]) for kind in ("painted", "opened", "pressed"))
        print(f"{path:24} {figures}  {len(kinds['pressed']):6}")
    for kind in ("painted", "opened", "pressed"):
        print(f"all {kind}: {spread([one for kinds in times.values() for one in kinds[kind]])} ms")


async def main(scenario: str = "story", rounds: str = "10", until: str = END) -> None:
    """Serve, press and print."""
    with tempfile.TemporaryDirectory() as made:
        watch(watched := Path(made) / "watched", scenario, until)
        with starved(watched, scenario) as bot:
            async with chromium() as browser:
                page = await browser.new_page(viewport={"width": 1440, "height": 900})
                show(await measure(page, bot.url, int(rounds)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
