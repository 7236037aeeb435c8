"""Judge what serves as a whole service.

Whether it usually has requests at this hour, and whether it has any now.
"""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from detectors.arrays import Floats, Mask, Numbers, Rows
from detectors.usual import daily_levels, history, utilization_of
from detectors.view import View

_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_ENOUGH = 2
"""Days of a kind, weekday or weekend, on which an hour must have been seen.

On as many a service rests by habit.
"""
_READ = 0.9
"""Share of a day that must have been read to say that nothing happened in it."""


def may_be_told(view: View, asked: Mask, needed: Numbers) -> Mask:
    """Tell which of the servers asked for rest at an hour at which their service always has requests, or all day long, (n,).

    Requests that go to other nodes of the service are no waste of the node, unless it had none for
    a whole day.
    """
    rows = np.flatnonzero(asked & view.roster.inference)
    told = np.zeros(view.n, dtype=bool)
    if len(rows):
        lows = _lows(view, rows, needed)
        told[rows] = (lows > 2 * view.number("idle.below")[rows]) & (
            _service_level(view, rows, needed) <= view.number("idle.below")[rows]
        )
        told[rows] |= _quiet_day(view, rows)
    return told


def by_habit(view: View, asked: Mask, needed: Numbers) -> Mask:
    """Tell which of the servers asked for are of a service that usually rests about this hour, and had requests today, (n,)."""
    rows = np.flatnonzero(asked & view.roster.inference)
    rests = np.zeros(view.n, dtype=bool)
    if len(rows):
        lows = _lows(view, rows, needed, of_any_kind=True)
        rests[rows] = (lows <= 2 * view.number("idle.below")[rows]) & ~_quiet_day(view, rows)
    return rests


def falls_short(view: View, asked: Mask, needed: Numbers, share: Numbers) -> Mask:
    """Tell which servers asked for are of a service that has less than a `share` of its usual demand at this hour, (n,)."""
    rows = np.flatnonzero(asked & view.roster.inference)
    short = np.zeros(view.n, dtype=bool)
    if len(rows):
        services, of_service = np.unique(view.roster.scope[rows], return_inverse=True)
        usual = _usual_demand(view, services)[int(view.now.weekday() >= 5), view.now.hour][
            of_service
        ]
        short[rows] = _service_level(view, rows, needed) < share[rows] * usual
    return short


def _lows(view: View, rows: Rows, needed: Numbers, of_any_kind: bool = False) -> Floats:
    """Return the usual demand of the service of each row, at the lowest hour from `needed` steps ago to an hour from now.

    A lull may come an hour early. Nan where fewer than two days of the kind were seen, or of either
    kind if that will do.
    """
    services, of_service = np.unique(view.roster.scope[rows], return_inverse=True)
    usual = _usual_demand(view, services)
    if of_any_kind:
        usual = np.where(np.isnan(usual), usual[::-1], usual)
    at = view.now + _HOUR
    hours = []
    while at > view.now - float(needed[rows].max()) * view.window.step - _HOUR:
        hours.append(usual[int(at.weekday() >= 5), at.hour])
        at -= _HOUR
    return np.asarray(np.min(hours, axis=0)[of_service], dtype=np.float32)


def _usual_demand(view: View, services: Rows) -> Floats:
    """Return the second lowest daily level of each service by kind of day and hour, (2, 24, n_services); one day is no habit.

    All that was seen before today counts, also what was told: a lull that comes back every day is
    one.
    """
    midnight = view.now.replace(hour=0, minute=0, second=0, microsecond=0)
    lowest = np.full((2, 24, len(services)), np.nan, dtype=np.float32)
    members = [
        np.flatnonzero(view.roster.inference & (view.roster.scope == service))
        for service in services
    ]
    parts = [
        history(view.whole.pick(rows), midnight, view.policy.number("alert.usual_days"))
        for rows in members
    ]
    if not parts[0].n_steps:
        return lowest
    daily, weekend = daily_levels(
        np.stack([_mean(utilization_of(part)) for part in parts]), parts[0]
    )
    for kind in (0, 1):
        days = np.sort(daily[:, weekend == bool(kind)], axis=1)  # nan last
        if days.shape[1] >= _ENOUGH:
            lowest[kind] = days[:, _ENOUGH - 1]
    return lowest


def _service_level(view: View, rows: Rows, needed: Numbers) -> Numbers:
    """Return the mean utilization of the whole service of each row over its newest `needed` steps, nan where none was read."""
    levels = np.full(len(rows), np.nan)
    for service in np.unique(view.roster.scope[rows]):
        mine = view.roster.scope[rows] == service
        peers = np.flatnonzero(
            view.eligible & view.roster.inference & (view.roster.scope == service)
        )
        level = _mean(view.utilization[peers, -int(needed[rows[mine]].max()) :])
        levels[mine] = np.nanmean(level) if np.isfinite(level).any() else np.nan
    return levels


def _quiet_day(view: View, rows: Rows) -> Mask:
    """Tell which rows had no request for a day.

    A night without any is no waste that anyone can stop.
    """
    part = utilization_of(view.whole.last(_DAY).pick(rows))
    worked = (part > view.number("idle.below")[rows][:, None]).any(axis=1)
    read = (~np.isnan(part)).mean(axis=1)
    return np.asarray(~worked & (read >= _READ) & (part.shape[1] >= view.window.steps(_DAY)))


def _mean(level: Floats) -> Floats:
    """Return the mean of the nodes that were read in each step, nan where none was, (n_steps,)."""
    read = ~np.isnan(level)
    total = np.where(read, level, 0).sum(axis=0)
    return np.where(read.any(axis=0), total / np.maximum(read.sum(axis=0), 1), np.nan).astype(
        np.float32
    )
