"""Start a real Dask scheduler and its workers on loopback, as processes of their own.

Run: python -m tests.dask_cluster WORKERS. The libraries are read once, and every process is forked
from there; a line on standard output has the scheduler's address and the process ids, and the end
of standard input ends them all.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Processes:
    """Name the processes of a cluster."""

    address: str
    scheduler: int
    workers: list[int]


@contextmanager
def cluster(workers: int) -> Iterator[Processes]:
    """Yield a cluster with so many workers of one thread each."""
    command = [sys.executable, "-m", "tests.dask_cluster", str(workers)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as started:
        assert started.stdin
        assert started.stdout
        try:
            yield Processes(**json.loads(started.stdout.readline()))
        finally:
            started.stdin.close()


def main(count: int) -> None:
    import distributed

    import detectors.forest
    from adapters.aws.recording.recording import open_recording  # noqa: F401
    from bot.wiring import workers  # noqa: F401

    detectors.forest.load_library()

    async def served(make: Any, said: int) -> None:
        async with make() as server:
            os.write(said, f"{server.address}\n".encode())
            await server.finished()

    def forked(make: Any) -> tuple[int, str]:
        heard, said = os.pipe()
        if not (process := os.fork()):
            with suppress(BaseException):
                asyncio.run(served(make, said))
            os._exit(0)
        with os.fdopen(heard) as line:
            return process, line.readline().strip()

    bare: dict[str, Any] = {"dashboard": False, "dashboard_address": None}
    scheduler, address = forked(lambda: distributed.Scheduler(host="127.0.0.1", port=0, **bare))
    running = [
        forked(lambda: distributed.Worker(address, nthreads=1, dashboard=False))[0]
        for _ in range(count)
    ]
    print(json.dumps({"address": address, "scheduler": scheduler, "workers": running}), flush=True)
    sys.stdin.read()
    for process in (*running, scheduler):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
