"""Time lines of the terminal as whole processes, beside a Python that does nothing.

`python -m benchmarks.lines [SOURCE [TIMES]]`: prints of each line, in the first run and in those
after it, the median of wall time, how many starts of Python that is, the peak of memory, and how
many files of the product it enters. A recording (`recording:DIR`) shows what is left beside it for
the next line; the default is the simulated fleet.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

LINES = ("help", "cost 7d by service", "cost 7d by team", "fleet", "alerts", "migrate llama")
_ROOMS = ("bot", "detectors", "adapters")


def main(source: str, times: int) -> None:
    """Run every line in a process of its own; each prints its own peak and files at its end."""
    plain = statistics.median(_run("-c", "pass")[0] for _ in range(times))
    print(f"a Python that does nothing: {plain:.3f} s")
    for line in LINES:
        words = line.split() + ([] if line == "help" else ["--source", source])
        runs = [_run("-m", "benchmarks.lines", "run", *words) for _ in range(times + 1)]
        later = statistics.median(seconds for seconds, _ in runs[1:])
        # Counting what is entered takes time, and has a run of its own.
        _, walk = _run("-m", "benchmarks.lines", "walk", *words)
        mib, entered = runs[-1][1].split()[-2], walk.split()[-1]
        print(
            f"{line:20} first {runs[0][0]:6.2f} s, then {later:6.2f} s ({later / plain:5.1f} x), "
            f"{mib:>5} MiB, {entered:>4} files entered",
            flush=True,
        )


def _run(*arguments: str) -> tuple[float, str]:
    start = time.perf_counter()
    ran = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if ran.returncode:
        raise SystemExit(f"{' '.join(arguments)}: {ran.stderr.strip()[-300:]}")
    return seconds, ran.stderr


def run(words: Sequence[str], *, walks: bool) -> None:
    """Run one line as the terminal does, and print its peak of memory and files to the errors."""
    import resource

    from bot.__main__ import main as terminal

    root, entered = os.getcwd() + os.sep, set[str]()

    def note(frame: object, event: str, _: object) -> None:
        code = getattr(frame, "f_code", None)
        # Bodies of classes and modules are no calls.
        if event == "call" and code and code.co_flags & 1 and code.co_filename.startswith(root):
            entered.add(code.co_filename.removeprefix(root))

    sys.argv = ["trnbot", *words]
    if walks:
        sys.setprofile(note)
    code = terminal()
    sys.setprofile(None)
    if code:
        raise SystemExit(code)
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    walked = sum(name.split(os.sep)[0] in _ROOMS for name in entered)
    print(f"\n{mib} {walked}", file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1:2] in (["run"], ["walk"]):
        run(sys.argv[2:], walks=sys.argv[1] == "walk")
    else:
        main((sys.argv[1:] or ["simulator:7/demo"])[0], int((sys.argv[2:] or ["3"])[0]))
