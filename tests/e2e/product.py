"""Run the product itself: `trnbot serve` as a process of its own, on a recording made by the simulator."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters.simulator import generate

CACHE = Path(__file__).parents[2] / "var" / "recordings"


def recording(scenario: str, seed: int = 7) -> Path:
    """Return the folder of a simulated recording, which outlives the run."""
    return made_once(CACHE / f"{scenario}-{seed}", lambda folder: generate(folder, seed, scenario))


def made_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """Return the folder, made by one worker as the others wait; none sees half of it."""
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=folder.parent) as made:
                make(Path(made) / "whole")
                (Path(made) / "whole").rename(folder)
    return folder


@dataclass(frozen=True)
class Product:
    """Hold where the process answers, and what it printed."""

    url: str
    log: Path
    process: subprocess.Popen[bytes]

    def health(self, probe: str = "healthz") -> dict[str, Any]:
        """Return `/healthz`, which says 503 where a tick failed or is late, or another probe."""
        try:
            with urllib.request.urlopen(f"{self.url}/{probe}", timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as late:
            found = json.load(late)
        return found


@contextlib.contextmanager
def product(
    folder: Path,
    port: int,
    environment: Mapping[str, str],
    words: tuple[str, ...] = ("serve",),
    program: tuple[str, ...] = (sys.executable, "-m", "bot"),
    *,
    ready: bool = True,
) -> Iterator[Product]:
    """Start it with its state in `folder`, wait until it answers, and stop it by SIGTERM.

    Where a platform never answers it is never `ready`: then wait until its console is.
    """
    log = folder / "trnbot.log"
    keep = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TRNBOT_", "SLACK_", "Microsoft"))
    }
    said = {
        **keep,
        "TRNBOT_PORT": str(port),
        "TRNBOT_DATABASE_URL": f"sqlite:///{folder}/trnbot.db",
        **environment,
    }
    with log.open("ab") as out:
        running = subprocess.Popen([*program, *words], cwd=folder, env=said, stdout=out, stderr=out)
    try:
        started = Product(f"http://127.0.0.1:{port}", log, running)
        _wait(started, ready)
        yield started
    finally:
        if running.poll() is None:
            running.send_signal(signal.SIGTERM)
        running.wait(timeout=30)


def _wait(started: Product, ready: bool, longest_s: float = 90.0) -> None:
    end = time.monotonic() + longest_s
    while time.monotonic() < end and started.process.poll() is None:
        with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            health = started.health("healthz" if ready else "livez")
            # Without a token it says no more than whether people are answered.
            answered = health["ok"] or ("problem" in health and not health.get("starting"))
            if answered and (ready or "up_seconds" in health):
                return
        time.sleep(0.1)
    raise RuntimeError(f"trnbot did not answer: {started.log.read_text()[-2000:]}")
