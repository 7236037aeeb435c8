"""Write a recording: `python -m adapters.simulator DIR --seed 7 --scenario demo`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from adapters.simulator.generate import Files, SimulationTiming, generate
from adapters.simulator.scenario import SCENARIOS
from bot.errors import TrnbotError, WrongInput
from bot.model.window import parse_instant


class _Parser(argparse.ArgumentParser):
    """Refuse in one sentence, as every other verb does."""

    def error(self, message: str) -> NoReturn:
        raise WrongInput(
            f"'simulate': {message}; for example: simulate my-recording --seed 7 --scenario tiny."
        )


def parser() -> argparse.ArgumentParser:
    """Return the grammar of the command line."""
    scenarios = "\n".join(f"  {name:10} {s.description}" for name, s in SCENARIOS.items())
    shape = argparse.RawDescriptionHelpFormatter
    p = _Parser("trnbot simulate", epilog=f"scenarios:\n{scenarios}", formatter_class=shape)
    for name, facts in _ARGUMENTS.items():
        p.add_argument(name, **facts)
    return p


def _instant(text: str) -> datetime:
    return parse_instant(text)


_ARGUMENTS: Mapping[str, dict[str, Any]] = {
    "folder": {"type": Path, "help": "a new folder"},
    "--seed": {"type": int, "default": 7},
    "--scenario": {"default": "demo"},
    "--start": {"type": _instant, "help": "ISO 8601, UTC where no zone is said"},
    "--days": {"type": float},
    "--period": {"type": int, "help": "seconds a metric point covers"},
    "--form": {"choices": ("parquet", "jsonl"), "default": "parquet"},
    "--bill": {"choices": ("cur2", "focus1.2", "legacy"), "default": "cur2"},
    "--bill-file": {"choices": ("parquet", "csv.gz"), "default": "parquet"},
    "--logs": {"action": "store_true", "help": "write compilers' log lines too"},
}


def write(words: Sequence[str] | None = None) -> None:
    """Write the recording that the command line asks for.

    Raise `WrongInput` where it cannot be read.
    """
    chosen = parser().parse_args(words)
    timing = SimulationTiming(chosen.start, chosen.days, chosen.period)
    files = Files(chosen.form, chosen.bill, chosen.bill_file, chosen.logs)
    generate(chosen.folder, chosen.seed, chosen.scenario, timing, files)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        write(words)
    except TrnbotError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
