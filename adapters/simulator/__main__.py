"""Write a recording: `python -m adapters.simulator DIR --seed 7 --scenario demo`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from adapters.simulator.generate import generate
from adapters.simulator.scenarios import SCENARIOS
from bot.errors import TrnbotError
from bot.model.window import parse_instant


def parser() -> argparse.ArgumentParser:
    """Return the grammar of the command line."""
    scenarios = "\n".join(f"  {name:10} {s.description}" for name, s in SCENARIOS.items())
    shape = argparse.RawDescriptionHelpFormatter
    p = argparse.ArgumentParser("python -m adapters.simulator", epilog=f"scenarios:\n{scenarios}", formatter_class=shape)
    p.add_argument("folder", type=Path, help="a new folder")
    p.add_argument("--seed", type=int, default=7)
    p.add_argument("--scenario", default="demo")
    p.add_argument("--start", type=_instant, default=None, help="ISO 8601, UTC where no zone is said")
    p.add_argument("--days", type=float, default=None)
    p.add_argument("--period", type=int, default=None, help="seconds a metric point covers")
    p.add_argument("--form", choices=("parquet", "jsonl"), default="parquet")
    p.add_argument("--bill", choices=("cur2", "focus1.2", "legacy"), default="cur2")
    p.add_argument("--bill-file", choices=("parquet", "csv.gz"), default="parquet")
    return p


def _instant(text: str) -> datetime:
    return parse_instant(text)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    said = parser().parse_args(words)
    try:
        generate(
            said.folder,
            said.seed,
            said.scenario,
            start=said.start,
            days=said.days,
            period_seconds=said.period,
            form=said.form,
            bill=said.bill,
            bill_file=said.bill_file,
        )
    except TrnbotError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
