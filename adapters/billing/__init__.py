"""Turn CUR and FOCUS exports into spend with DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapters.billing.bill import Bill

_LAG = timedelta(hours=24)


def open_billing(
    folder: Path,
    *,
    lag: timedelta = _LAG,
    tags: Mapping[str, Sequence[str]] | None = None,
    cache: Path | None = None,
) -> Bill:
    """Open the exports under `folder/billing` (or `folder` itself), loaded at the first question and kept up to date.

    `tags` maps `team`, `project`, `cluster`, `namespace` to tag names, best first; `cache` is a DuckDB file that spares
    the next start the loading. Raise `WrongInput` when the folder is missing.
    """
    from adapters.billing.bill import Bill

    return Bill(folder, lag=lag, tags=tags or {}, cache=cache)
