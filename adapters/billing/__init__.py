"""Turn CUR and FOCUS exports, and Cost Explorer's answers, into spend with DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapters.billing.bill import Bill
    from adapters.billing.views import Fresh, Views

_LAG = timedelta(hours=24)
_ANSWERS = Path("api/ce/get_cost_and_usage")


def open_billing(
    folder: Path,
    *,
    lag: timedelta = _LAG,
    tags: Mapping[str, Sequence[str]] | None = None,
    cache: Path | None = None,
    view: str = "",
    services: Mapping[str, str] | None = None,
    by_day: str = "",
    due: Callable[[], bool] = lambda: True,
) -> Bill:
    """Open the exports under `folder/billing` (or `folder` itself), loaded at the first question and kept up to date.

    `tags` maps `team`, `project`, `cluster`, `namespace` to tag names, best first; `cache` is a DuckDB file that spares
    the next start the loading. What Cost Explorer answered under `folder/api` counts for months that no export holds; `view`
    is which view of it, `services` its names of services with their product codes. `by_day` names what rolled the files up
    by day, where something did; `due` tells whether to look at the folder again. Raise `WrongInput` when it is missing.
    """
    from adapters.billing.bill import Bill
    from adapters.billing.refresh import Answers

    answers = Answers(folder / _ANSWERS, view, services or {})
    return Bill(folder, lag=lag, tags=tags or {}, cache=cache, answers=answers, by_day=by_day, due=due)


def open_explorer(
    folder: Path,
    *,
    lag: timedelta = _LAG,
    tags: Mapping[str, Sequence[str]] | None = None,
    services: Mapping[str, str] | None = None,
    fresh: Fresh = lambda _: "",
) -> Views:
    """Open Cost Explorer's answers under `folder/api`; `fresh` brings a view of them up to date before it is asked."""
    from adapters.billing.views import Views

    def opened(view: str) -> Bill:
        return open_billing(folder, lag=lag, tags=tags, view=view, services=services)

    return Views(opened, fresh, tags or {})


def has_only_answers(folder: Path) -> bool:
    """Tell whether a recording holds Cost Explorer's answers and no export."""
    return (folder / _ANSWERS).is_dir() and not (folder / "billing").is_dir()
