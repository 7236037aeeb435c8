"""Find the folder behind a source: a recording's own, or one that the simulator wrote. A part of `build`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bot.errors import Unavailable, WrongInput


def folder_of(source: str) -> Path:
    """Return the folder of `recording:DIR`, or of `simulator:SEED[/SCENARIO]`, made when missing; a live account has none."""
    kind, _, name = source.partition(":")
    if kind == "recording":
        return Path(name).expanduser()
    if kind == "simulator":
        seed, _, scenario = name.partition("/")
        if not seed.isdecimal():
            raise WrongInput(f"'{seed}' is not a seed; write simulator:7 or simulator:7/calm.")
        return _simulated(int(seed), scenario or "demo")
    raise Unavailable("A live account is no folder; record it first: trnbot record DIR, then recording:DIR.")


def size_of(folder: Path) -> int:
    """Return the bytes of all files under the folder, 0 where it is missing."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _simulated(seed: int, scenario: str) -> Path:
    """Generate beside the target and rename, so that a half-written recording is never taken for a whole one."""
    from adapters.simulator import generate

    target = Path(".trnbot/simulator") / f"{scenario}-{seed}"
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as made:
            generate(Path(made) / "recording", seed, scenario)
            (Path(made) / "recording").rename(target)
    return target
