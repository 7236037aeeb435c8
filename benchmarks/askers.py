"""Ask a bot the worst lines by two hundred people at once while it watches.

`python -m benchmarks.askers [PEOPLE] [SECONDS]`.

A process of its own plays a simulated fleet. Each asker is a person of the console, by an address
of their own; half of them leave before the answer. One more person asks `fleet`. Printed are
whether ticks were on time, how long `fleet` took, how the lines were answered, and the most memory.
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from time import monotonic

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector

from tests.e2e.product import Product, product
from tests.e2e.slackserver import free_port

TAGS = ",".join(f"tag:a{n}" for n in range(300))
WORST = (
    f"cost 7d by {TAGS}",
    "cost 90d by resource,hour",
    "cost 365d by hour,resource,team,pod",
    "cost 30d by tag:a,tag:b,tag:c,resource",
    "cost 7d by team",
    "config set idle.below=7%",
    "savings 365d",
    "alerts 365d",
    "x" * 2_900,
    "fleet",
)
HEADERS = {"X-Trnbot": "1", "Sec-Fetch-Site": "same-origin"}
SPEED = 60
TICK_S = 300 / SPEED
THINK_S = 2.0
"""Seconds from an answer to the same person's next line."""
LEAVES_S = 1.0
"""Seconds after which who leaves has left."""


@dataclass
class Seen:
    """Hold what came of it."""

    fleet: list[float] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    ticks: list[float] = field(default_factory=list)
    unhealthy: int = 0

    def count(self, kind: str, example: str = "") -> None:
        """Count an answer of a kind, and keep one of them."""
        self.answers[kind] += 1
        self.examples.setdefault(kind, example)


async def ask(session: ClientSession, url: str, line: str) -> tuple[int, str]:
    """Type a line; return the status and the text of the answer."""
    async with session.post(f"{url}/ask", data={"line": line}, headers=HEADERS) as response:
        html = await response.text()
        return response.status, " ".join(re.sub(r"<[^>]+>", " ", html).split())


async def pester(number: int, url: str, until: float, seen: Seen) -> None:
    """Ask one bad line after another as one person."""
    rng = random.Random(number)
    leaves = number % 2 == 1
    connector = TCPConnector(
        local_addr=(f"127.0.{1 + number // 250}.{1 + number % 250}", 0), force_close=leaves
    )
    async with ClientSession(
        connector=connector, timeout=ClientTimeout(total=LEAVES_S if leaves else 150)
    ) as session:
        await asyncio.sleep(rng.random() * THINK_S)
        while monotonic() < until:
            try:
                status, words = await ask(session, url, rng.choice(WORST))
                seen.count(kind_of(status, words), words)
            except TimeoutError:
                seen.count("left before the answer")
            except ClientError as error:
                seen.count(f"connection: {type(error).__name__}")
            await asyncio.sleep(THINK_S)


def kind_of(status: int, words: str) -> str:
    """Return how a line was answered."""
    if status >= 400:
        return f"status {status}"
    if "That did not work" not in words:
        return "answered"
    refusals = {
        "ask again in": "refused for now",
        "at most": "too large",
        "more than": "too large",
        "longer than": "stopped",
    }
    return next((kind for sign, kind in refusals.items() if sign in words), "refused otherwise")


async def look(started: Product, until: float, seen: Seen) -> None:
    """Note each tick as it is done."""
    last = None
    async with ClientSession(timeout=ClientTimeout(total=20)) as session:
        while monotonic() < until:
            try:
                async with session.get(f"{started.url}/healthz") as response:
                    health = await response.json()
                seen.unhealthy += not health["ok"]
                if health["ticked_at"] != last:
                    last = health["ticked_at"]
                    seen.ticks.append(monotonic())
            except (TimeoutError, ClientError):
                seen.unhealthy += 1
            await asyncio.sleep(0.1)


async def rely(url: str, until: float, seen: Seen) -> None:
    """Ask `fleet` every other second as a person who asks nothing else."""
    async with ClientSession(timeout=ClientTimeout(total=60)) as session:
        while monotonic() < until:
            began = monotonic()
            try:
                status, words = await ask(session, url, "fleet")
                seen.count(
                    "fleet answered"
                    if "nodes running" in words
                    else f"fleet not answered, {status}",
                    words,
                )
            except (TimeoutError, ClientError):
                seen.count("fleet not answered in 60 s")
            seen.fleet.append(monotonic() - began)
            await asyncio.sleep(2)


async def storm(started: Product, people: int, seconds: float) -> Seen:
    """Let everybody ask for so many seconds; the first ticks are waited for."""
    async with ClientSession() as session:
        for _ in range(600):
            if await _plays(session, started):
                break
        await ask(session, started.url, "cost 7d by team")
    until, seen = monotonic() + seconds, Seen()
    askers = [pester(number, started.url, until, seen) for number in range(people)]
    await asyncio.gather(look(started, until, seen), rely(started.url, until, seen), *askers)
    return seen


async def _plays(session: ClientSession, started: Product) -> bool:
    """Return whether the past is caught up with: only then does time go on between two ticks."""
    for _ in range(4):
        async with session.get(f"{started.url}/healthz") as response:
            health = await response.json()
        if health["now"] <= (health["ticked_at"] or health["now"]):
            await asyncio.sleep(0.5)
            return False
        await asyncio.sleep(0.2)
    return True


def memory_mib(process: int) -> float:
    """Return the most memory that a process has held."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024


def report(seen: Seen, before: float, after: float) -> str:
    """Return the table."""
    gaps = [
        later - earlier for earlier, later in zip(seen.ticks[1:], seen.ticks[2:], strict=False)
    ] or [float("nan")]
    cuts = quantiles(seen.fleet, n=20) if len(seen.fleet) > 1 else [float("nan")] * 19
    rows = [
        (
            f"ticks ({TICK_S:g} s apart)",
            f"{len(gaps)} seen, {min(gaps):.1f} to {max(gaps):.1f} s apart",
        ),
        ("looks at /healthz that failed", str(seen.unhealthy)),
        (
            "fleet",
            f"{len(seen.fleet)} asked, median {cuts[9]:.2f} s, p95 {cuts[18]:.2f} s, longest {max(seen.fleet):.2f} s",
        ),
        ("memory", f"{before:.0f} MiB before, {after:.0f} MiB at most"),
        *(
            (kind, f"{count:6} {seen.examples.get(kind, '')[-110:]}")
            for kind, count in seen.answers.most_common()
        ),
    ]
    return "\n".join(f"{name:30} {words}" for name, words in rows)


def main() -> None:
    """Start the bot, let people ask, print the table."""
    people, seconds = (
        (int(sys.argv[1]) if len(sys.argv) > 1 else 200),
        float(sys.argv[2]) if len(sys.argv) > 2 else 60.0,
    )
    environment = {"TRNBOT_SOURCE": "simulator:7", "TRNBOT_SPEED": str(SPEED)}
    with (
        tempfile.TemporaryDirectory() as folder,
        product(Path(folder), free_port(), environment, ("demo", "--no-browser")) as bot,
    ):
        before = memory_mib(bot.process.pid)
        seen = asyncio.run(storm(bot, people, seconds))
        print(report(seen, before, memory_mib(bot.process.pid)))


if __name__ == "__main__":
    main()
