"""Join settings and a live AWS account: its metrics, its bill, its checks, and recordings of it. A part of `build`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters.timer import Timer
from bot import build
from bot.app import App
from bot.bills import FOLDER, record_bill
from bot.errors import Unavailable, WrongInput
from bot.knowledge import load_knowledge
from bot.model.fleet import InstanceType
from bot.model.window import parse_duration
from bot.options import Options
from bot.play import Leading
from bot.ports import Clock
from bot.settings import Settings

if TYPE_CHECKING:
    from adapters.aws.live import Live

HISTORY = timedelta(days=15)
log = logging.getLogger("trnbot.account")


def open_account(settings: Settings, types: Mapping[str, InstanceType]) -> Live:
    """Return the live source; nothing is called yet."""
    from adapters.aws.inventory.ownership import TagNames
    from adapters.aws.live import open_live

    return open_live(
        interval=settings["interval"],
        lag=settings["metrics.lag"],
        history=HISTORY,
        types=types,
        tags=replace(TagNames(), **{name: tuple(names) for name, names in settings.tags().items()}),
        own=settings.own_names,
        streams=settings["aws.stream"],
        logs=settings["aws.logs"],
        regions=settings["aws.regions"],
        roles=settings["aws.roles"],
        clock=build.wall_clock,
        daily_usd=settings["aws.budget"],
        journal=FOLDER / "journal",
        advisor=settings["aws.spot_advisor"],
        usage=FOLDER / "usage.json",
    )


class LivePlay:
    """Implement `bot.ports.Listener`: the watch by the clock of the wall, by the one process that leads."""

    def __init__(self, interval: timedelta, clock: Clock, store: Leading) -> None:
        self.clock = clock
        self.app: App | None = None
        self._store = store
        self._timer = Timer(self._tick, clock, interval, self._missed)

    def routes(self) -> Sequence[Any]:
        """Serve nothing."""
        return ()

    async def start(self) -> None:
        """Begin to tick."""
        await self._timer.start()

    async def stop(self) -> None:
        """Let what is being said be finished."""
        if self.app:
            self.app.leave()
        await self._timer.stop()

    async def _tick(self, at: datetime) -> None:
        assert self.app
        if await asyncio.to_thread(self._store.acquire_lead):
            await self.app.tick(at)

    def _missed(self, sentence: str) -> None:
        assert self.app
        log.warning(sentence)
        self.app.health.missed_tick()


def record_account(options: Options) -> int:
    """Write a recording of the account: `trnbot record DIR [--days 7]`."""
    from adapters.aws.live.record import record

    if len(options.words) != 2:
        raise WrongInput("'record' takes one new folder: trnbot record DIR [--days 7].")
    days = _days(options)
    settings = build.settings_of(options.values)
    types = load_knowledge().types()
    end = build.wall_clock().replace(second=0, microsecond=0) - settings["metrics.lag"]
    folder, live = Path(options.words[1]), open_account(settings, types)
    done = record(live, folder, end - days, end, print)
    billed, unbilled = record_bill(settings, live, folder, end)
    missing = [*done.missing, *unbilled]
    usd = f"${live.calls.tab.today().usd:.2f}"
    print(f"{done.points} points and {done.answers + billed} answers in {folder}; the calls cost about {usd}.")
    for sentence in missing:
        print(f"missing: {sentence}")
    if missing:
        raise Unavailable("The recording is not whole; see above.")
    return 0


def _days(options: Options) -> timedelta:
    from adapters.aws.live.record import MINUTES_KEPT

    text = options.values.get("days", "7")
    length = parse_duration(f"{text}d" if text.isdecimal() else text)
    if not timedelta(0) < length <= MINUTES_KEPT:
        raise WrongInput(f"'{text}' is not a time that can be recorded; CloudWatch keeps minutes for {MINUTES_KEPT.days} days.")
    return length
