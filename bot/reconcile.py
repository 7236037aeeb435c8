"""Remember what each day expects of its month, and set it against the bill once that is final."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from bot.costs.nowcast import month_end
from bot.costs.reconcile import MIDDLE, Estimate, Reconciled, estimated
from bot.costs.tally import settled_until
from bot.errors import TrnbotError
from bot.model.spend import Tally
from bot.model.window import NO_TIME, Window, month_of
from bot.ports import Billing, Ports, Shelf

SHELF = "estimates"
_BEFORE = timedelta(days=14)
_MOST = 1000
log = logging.getLogger("trnbot.reconcile")


def remember_estimate(ports: Ports, now: datetime) -> None:
    """Keep what this day expects of its month, once a day; what cannot be asked or kept is tried again. May block."""
    day = f"{now:%Y-%m-%d}"
    try:
        if ports.shelf.get(SHELF, day) is None:
            ports.shelf.put(SHELF, day, {"at": now.isoformat(), **_expected(ports.billing, now)})
    except TrnbotError as error:
        log.info("the month is not estimated: %s", error)


def _expected(billing: Billing, now: datetime) -> dict[str, str]:
    """Return the forecast of the month with its range, nothing where too little is billed."""
    through = billing.tally(NO_TIME, ()).billed_through
    month = month_of(now)
    found = through and month_end(_daily(billing, month)[0], month, settled_until(min(through, now)))
    return {"forecast": str(found.forecast), "low": str(found.low), "high": str(found.high)} if found else {}


def reconciled(billing: Billing, shelf: Shelf, window: Window, now: datetime) -> list[Reconciled]:
    """Return every month that the window touches and that has begun, oldest first; may block."""
    kept = [_kept(document) for _, document in shelf.newest(SHELF, _MOST) if "forecast" in document]
    return [_month(billing, month, kept) for month in _months(window, now)]


def _month(billing: Billing, month: Window, kept: list[Estimate]) -> Reconciled:
    daily, tally = _daily(billing, month)
    middle = month.start + MIDDLE
    mine = [one for one in kept if month.start <= one.at < month.end]
    then = min(mine, key=lambda one: abs(one.at - middle), default=None)
    through = tally.billed_through
    final = bool(tally.rows) and not any(row.estimated for row in tally.rows) and through is not None and through >= month.end
    return Reconciled(month, then or estimated(daily, month), tally.total, final)


def _daily(billing: Billing, month: Window) -> tuple[Mapping[date, Decimal], Tally]:
    """Return amortised cost by day from two weeks before the month on, and the month's own tally by day."""
    before = billing.tally(Window(month.start - _BEFORE, month.start), ("day",))
    tally = billing.tally(month, ("day",))
    rows = (*before.rows, *tally.rows)
    return {date.fromisoformat(row.key["day"]): row.money.amortised for row in rows}, tally


def _months(window: Window, now: datetime) -> Iterator[Window]:
    month = month_of(window.start)
    while month.start < min(window.end, now):
        yield month
        month = month_of(month.end)


def _kept(document: Mapping[str, Any]) -> Estimate:
    forecast, low, high = (Decimal(document[name]) for name in ("forecast", "low", "high"))
    return Estimate(datetime.fromisoformat(document["at"]), forecast, low, high, remembered=True)
