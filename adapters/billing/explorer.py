"""Bill over Cost Explorer's answers: the whole, and one view a tag."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from threading import Lock
from urllib.parse import unquote

from adapters.billing.attribution import DEFAULT_NAMES, BillTagNames
from adapters.billing.bill import USUAL, Bill, BillOptions, open_billing
from adapters.billing.exports import ExportForm
from adapters.billing.files import TAG_VIEW, TAGGED, about_of, check_explorer_dimension
from adapters.billing.questions import TAG, canonical
from bot.errors import Unavailable
from bot.model.price import AccountRates
from bot.model.reading import Reading
from bot.model.spend import Filter, Tally
from bot.model.window import Window

Refresher = Callable[[str], str]
"""Bring the answers of a view up to date; return their age and their cost in words."""


def open_explorer(
    folder: Path, options: BillOptions = USUAL, fresh: Refresher = lambda _: ""
) -> ExplorerBill:
    """Open Cost Explorer's answers under `folder/api`.

    `fresh` brings a view of them up to date before it is asked.
    """
    return ExplorerBill(lambda view: open_billing(folder, options, view), fresh, options.tags)


class ExplorerBill:
    """Implement `bot.ports.Billing` over Cost Explorer's answers.

    The whole bill, and one view a tag.
    """

    def __init__(self, opened: Callable[[str], Bill], fresh: Refresher, tags: BillTagNames) -> None:
        self._opened, self._fresh, self._names = opened, fresh, {**DEFAULT_NAMES, **tags}
        self._bills: dict[str, Bill] = {}
        self._lock = Lock()

    def tally(
        self,
        window: Window,
        by: Sequence[str],
        where: Sequence[Filter] = (),
        most: int | None = None,  # noqa: ARG002 the port's: no dimension here has so many values
    ) -> Tally:
        """Sum the rows of a window.

        Raise `WrongInput` for a dimension that it does not have.
        """
        dimensions = [canonical(name) for name in (*by, *(keep.dimension for keep in where))]
        tags = sorted({name for name in dimensions if name in TAGGED or name.startswith(TAG)})
        if not tags:
            return self._tally("", window, by, where)

        tag, *further = tags
        for dimension in (*further, *(name for name in dimensions if name not in tags)):
            check_explorer_dimension(dimension, "" if dimension in further else tag)

        # The tag has several names: the first with a value counts, the first of all where none has.
        tallies = []
        for name in self._names.get(tag, ()) or (tag.removeprefix(TAG),):
            view = TAG_VIEW + about_of(name)
            tallies.append(self._tally(view, window, by, where))
            if any(row.key.get(tag) for row in self._tally(view, window, (tag,)).rows):
                return tallies[-1]
        return tallies[0]

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
