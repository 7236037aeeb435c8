"""Start trnbot where it is installed: its rooms stand within this package, apart from any other.

`bot`, `detectors` and `adapters` are names that other distributions own too. A wheel has them in
this folder, a checkout beside it; the folder that has them comes first on the path of the process.
"""

from __future__ import annotations

import sys
from pathlib import Path

_HOME = next(folder for folder in Path(__file__).resolve().parents[:2] if (folder / "bot").is_dir())


def main() -> int:
    """Run one call of the terminal and return its exit code."""
    sys.path.insert(0, str(_HOME))
    from bot.__main__ import main as run

    return run()
