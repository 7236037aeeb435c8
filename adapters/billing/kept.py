"""Keep tallies of the tables as they stand.

Pages, presses and messages ask the same of them, and each query takes its time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime, timedelta
from threading import Lock

from bot.model.spend import Filter, Tally
from bot.model.window import Window
from bot.ports.work import most_rows, refuse_rows

MOST_ROWS = 20_000
"""Of all tallies that are kept: some 15 MB. The one that was asked for longest ago goes first."""
_HOUR = timedelta(hours=1)

Question = tuple[Window, tuple[str, ...], tuple[Filter, ...]]


class KeptTallies:
    """Keep the tallies of one loading of the tables; any thread may ask.

    Other tables are a matter of another one.
    """

    def __init__(self, most: int = MOST_ROWS) -> None:
        self._most = most
        self._rows = 0
        self._kept: OrderedDict[Question, Tally] = OrderedDict()
        self._lock = Lock()

    def get(self, window: Window, by: Sequence[str], where: Sequence[Filter]) -> Tally | None:
        """Return the kept tally of a question, else None.

        Raise `OverBudget` where the line may not have so many rows.
        """
        question = window, tuple(by), tuple(where)
        with self._lock:
            tally = self._kept.get(question)
            if tally is None:
                return None
            self._kept.move_to_end(question)
        most = most_rows()
        if most is not None and len(tally.rows) > most:
            raise refuse_rows(most)
        return tally

    def keep(self, tally: Tally, by: Sequence[str], where: Sequence[Filter]) -> None:
        """Keep the tally of a question, unless it alone is too large."""
        question = tally.window, tuple(by), tuple(where)
        size = _size(tally)
        if size > self._most:
            return
        with self._lock:
            if question in self._kept:
                return
            self._kept[question] = tally
            self._rows += size
            while self._rows > self._most:
                self._rows -= _size(self._kept.popitem(last=False)[1])


def whole_hours(window: Window) -> Window:
    """Return the window that holds the same whole hours' beginnings and has whole hours as its ends."""
    return Window(_begun(window.start), _begun(window.end))


def _begun(at: datetime) -> datetime:
    """Return the first whole hour at or after a time."""
    hour = at.replace(minute=0, second=0, microsecond=0)
    return hour if hour == at else hour + _HOUR


def _size(tally: Tally) -> int:
    return len(tally.rows) + 1
