"""Write a recording of a fleet that knows nothing of the detectors.

python -m tests.worlds SCENARIO SEED OUT [--days 8]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.worlds.recording import write
from tests.worlds.scenario import SCENARIOS, build


def main() -> None:
    """Write what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.worlds", description=__doc__)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("seed", type=int)
    parser.add_argument("out", type=Path)
    parser.add_argument("--days", type=int, default=8, choices=range(2, 31), metavar="DAYS")
    options = parser.parse_args()
    if options.out.exists():
        parser.error(f"{options.out} already exists; name a new folder.")

    world = build(options.scenario, options.seed, options.days)
    records = write(world, options.out)
    print(f"{records} records of {len(world.instances)} nodes, {len(world.labels)} labels")


if __name__ == "__main__":
    main()
