"""Ask the bill whose money it is: where it does not split Neuron nodes among pods, what the pods requested does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property

from bot.advice.owner import OwnerHint, owner_hints
from bot.costs.occupancy import Occupancy, occupancy_of
from bot.costs.split import OWNERS, changed, owned_rows, split_rows
from bot.errors import TrnbotError, WrongInput
from bot.model.reading import Reading
from bot.model.spend import Filter, Spend, Tally
from bot.model.window import Window
from bot.ports import Ports

_NOBODY = ("",)


class Allocation:
    """Answer tallies as `Billing` does, as of `at`; metrics are read only for a question about pods, or nodes of no team."""

    def __init__(self, ports: Ports, at: datetime) -> None:
        self._ports, self._at = ports, at

    def tally(self, window: Window, by: Sequence[str], where: Sequence[Filter] = ()) -> Tally:
        """Sum the rows of a window; nodes in parts by pod, and pods under a derived team where they carry none."""
        tally = self._ports.billing.tally(window, by, where)
        asked = {*tally.by, *(one.dimension for one in where)} & set(OWNERS)
        if not asked:
            return tally
        others = [one for one in where if one.dimension not in OWNERS]
        kept = [one for one in where if one.dimension in OWNERS]
        teamless = [Filter("team", _NOBODY)] if asked == {"team"} else []
        parts, seen = self._parts(window, tally.by, [*others, *teamless])
        owned = self._owned(window, tally.by, others) if "team" in asked else []
        found = changed(tally, [*parts, *owned], kept) if parts or owned else tally
        return replace(found, split=seen.known if parts and seen else None)

    def _parts(self, window: Window, by: tuple[str, ...], where: list[Filter]) -> tuple[list[Spend], Occupancy | None]:
        """Return the changes that split what the bill does not, and the readings they rest on."""
        for step in ("hour", "day"):
            try:
                rows = self._nodes(window, by, where, step)
            except WrongInput:
                # The bill does not tell hours, or clusters at all: it stands as it is.
                continue
            seen = self._seen if rows else None
            if seen is None:
                return [], None
            return split_rows(rows, by, step, seen if step == "hour" else seen.by_day()), seen
        return [], None

    def _nodes(self, window: Window, by: tuple[str, ...], where: list[Filter], step: str) -> list[Spend]:
        """Return what Neuron nodes cost by cluster and time, of hours in which the bill names no pod of the cluster."""
        kinds = tuple(name for name, kind in self._ports.knowledge.types().items() if kind.has_neuron)
        asked = _joined(by, ("cluster", step, *OWNERS))
        nodes = [Filter("instance_type", kinds), Filter("cluster", _NOBODY, negated=True), Filter("pod", _NOBODY)]
        rows = self._ports.billing.tally(window, asked, [*where, *nodes]).rows
        if not rows:
            return []
        split = self._ports.billing.tally(window, ("cluster", step), [Filter("pod", _NOBODY, negated=True)]).rows
        told = {(row.key["cluster"], row.key[step]) for row in split}
        return [row for row in rows if (row.key["cluster"], row.key[step]) not in told]

    def _owned(self, window: Window, by: tuple[str, ...], where: list[Filter]) -> list[Spend]:
        """Return the changes that give the bill's own pods a derived team where they have none."""
        teamless = [Filter("pod", _NOBODY, negated=True), Filter("team", _NOBODY)]
        try:
            rows = self._ports.billing.tally(window, _joined(by, ("cluster", *OWNERS)), [*where, *teamless]).rows
        except WrongInput:
            return []
        return owned_rows(rows)

    def hints(self, window: Window, where: Sequence[Filter]) -> Sequence[OwnerHint]:
        """Return whose the cost of no team may be; nothing where the bill names no resources, or there is no inventory."""
        if self._reading is None:
            return ()
        try:
            rows = self.tally(window, ("resource", "cluster", "namespace"), [*where, Filter("team", _NOBODY)]).rows
        except WrongInput:
            return ()
        return owner_hints(rows, self._reading.inventory)

    @cached_property
    def _reading(self) -> Reading | None:
        try:
            return self._ports.source.read(self._at)
        except TrnbotError:
            # A bill without metrics is answered as it is.
            return None

    @cached_property
    def _seen(self) -> Occupancy | None:
        return occupancy_of(self._reading, self._ports.knowledge.types()) if self._reading else None


def _joined(by: tuple[str, ...], more: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*by, *more)))
