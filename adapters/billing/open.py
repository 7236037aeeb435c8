"""Open a bill.

The exports in a folder, or Cost Explorer's answers, which stand in one view a tag beside the whole
bill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from threading import Lock
from urllib.parse import unquote

from adapters.billing.bill import Bill, BillOptions
from adapters.billing.columns import ExportForm
from adapters.billing.dimensions import TAG, canonical
from adapters.billing.explorer import TAG_VIEW, TAGGED, about_of, check_explorer_dimension
from adapters.billing.files import ExplorerFiles
from adapters.billing.tags import DEFAULT_NAMES, BillTagNames
from bot.errors import Unavailable
from bot.model.price import AccountRates
from bot.model.reading import Reading
from bot.model.spend import Filter, Tally
from bot.model.window import Window

_USUAL = BillOptions()
_ANSWERS = Path("api/ce/get_cost_and_usage")

Refresher = Callable[[str], str]
"""Bring the answers of a view up to date; return their age and their cost in words."""


def open_billing(folder: Path, options: BillOptions = _USUAL, view: str = "") -> Bill:
    """Open the exports under `folder/billing` (or `folder` itself), loaded at the first question and kept up to date.

    Cost Explorer's answers under `folder/api` count for months that no export holds; `view` is
    which view of them. Raise `WrongInput` when the folder is missing.
    """
    return Bill(folder, options, ExplorerFiles(folder / _ANSWERS, view, options.services))


def open_explorer(
    folder: Path, options: BillOptions = _USUAL, fresh: Refresher = lambda _: ""
) -> ExplorerBill:
    """Open Cost Explorer's answers under `folder/api`.

    `fresh` brings a view of them up to date before it is asked.
    """
    return ExplorerBill(lambda view: open_billing(folder, options, view), fresh, options.tags)


def has_only_answers(folder: Path) -> bool:
    """Return whether a recording holds Cost Explorer's answers and no export."""
    return (folder / _ANSWERS).is_dir() and not (folder / "billing").is_dir()


class ExplorerBill:
    """Implement `bot.ports.Billing` over Cost Explorer's answers.

    The whole bill, and one view a tag.
    """

    def __init__(self, opened: Callable[[str], Bill], fresh: Refresher, tags: BillTagNames) -> None:
        self._opened, self._fresh, self._names = opened, fresh, {**DEFAULT_NAMES, **tags}
        self._bills: dict[str, Bill] = {}
        self._lock = Lock()

    def tally(self, window: Window, by: Sequence[str], where: Sequence[Filter] = ()) -> Tally:
        """Sum the rows of a window.

        Raise `WrongInput` for a dimension that Cost Explorer does not have.
        """
        dimensions = [
            canonical(name) for name in (*by, *(condition.dimension for condition in where))
        ]
        tags = {
            dimension
            for dimension in dimensions
            if dimension in TAGGED or dimension.startswith(TAG)
        }
        if not tags:
            return self._tally("", window, by, where)
        first, *others = sorted(tags)
        for dimension in (
            *others,
            *(dimension for dimension in dimensions if dimension not in tags),
        ):
            check_explorer_dimension(dimension, "" if dimension in others else first)
        return self._tagged(first, window, by, where)

    def deltas(self, now: datetime, days: int) -> Reading:
        """Return the daily spend seen at `now`."""
        self._fresh("")
        return self._bill("").deltas(now, days)

    def rates(self, now: datetime) -> AccountRates:
        """Return the account's own rates."""
        self._fresh("")
        return self._bill("").rates(now)

    def problems(self) -> Sequence[str]:
        """Return a sentence for each answer that could not be read."""
        return [sentence for bill in list(self._bills.values()) for sentence in bill.problems()]

    def close(self) -> None:
        """Release every view."""
        for bill in self._bills.values():
            bill.close()

    def _tagged(
        self, dimension: str, window: Window, by: Sequence[str], where: Sequence[Filter]
    ) -> Tally:
        """Ask by the tag names of a dimension until one has a value.

        The first counts where none has.
        """
        first_tally = None
        for name in self._tag_names(dimension):
            view = TAG_VIEW + about_of(name)
            tally = self._tally(view, window, by, where)
            first_tally = first_tally or tally
            if any(row.key.get(dimension) for row in self._tally(view, window, (dimension,)).rows):
                return tally
        assert first_tally
        return first_tally

    def _tag_names(self, dimension: str) -> Iterator[str]:
        yield from self._names.get(dimension, ()) or (dimension.removeprefix(TAG),)

    def _tally(
        self, view: str, window: Window, by: Sequence[str], where: Sequence[Filter] = ()
    ) -> Tally:
        freshness = self._fresh(view)
        try:
            tally = self._bill(view).tally(window, by, where)
        except Unavailable:
            about = f"by tag {unquote(view.removeprefix(TAG_VIEW))}" if view else "yet"
            raise Unavailable(
                f"Cost Explorer has not been asked {about}. {freshness}".strip()
            ) from None
        return replace(
            tally,
            sources=tuple(
                freshness or form if form == ExportForm.EXPLORER else form for form in tally.sources
            ),
        )

    def _bill(self, view: str) -> Bill:
        with self._lock:
            if view not in self._bills:
                self._bills[view] = self._opened(view)
            return self._bills[view]
