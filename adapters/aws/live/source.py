"""Read a live account tick by tick: the bot's source and price list."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import RLock

import numpy as np

from adapters.aws.api.calls import Calls
from adapters.aws.api.operations import Place
from adapters.aws.api.responses import ResponseHistory
from adapters.aws.config import ReadingConfig
from adapters.aws.events.notices import EventPoller, Notices, read_event_queue
from adapters.aws.files import Problems
from adapters.aws.inventory.snapshots import (
    JoinedInventory,
    Snapshots,
    capacity_blocks,
    commitment_ends,
    core_counts,
    labelled,
)
from adapters.aws.live.account import AccountPoller, LiveConfig
from adapters.aws.live.discovery import (
    PlaceFleet,
    SeriesByName,
    SeriesLister,
    details_of,
    unheard,
    worth_reading,
)
from adapters.aws.live.frame_buffer import ColumnRoom, FrameBuffer, NewPoints
from adapters.aws.live.grid_cache import GridCache
from adapters.aws.live.poller import DetailPoller, MetricPoller
from adapters.aws.live.promql import PromqlLister
from adapters.aws.live.requests import SeriesBook
from adapters.aws.live.stream import FIRST, S3Lister, Streams
from adapters.aws.logs.logbook import Logbook, LogPoller, node_names, read_log_group
from adapters.aws.metrics.metric_grid import MetricGrid, TrainingRuns
from adapters.aws.metrics.points import Ints, MetricSeries, instance_of
from adapters.aws.prices.quoted import PriceSource, QuotedPrices
from bot.errors import Unavailable
from bot.model.fleet import Reservation
from bot.model.reading import Gap, Reading
from bot.model.window import Window
from bot.ports.work import LANE, Lane


def _seen_by(last_seen: Ints, end: int, n: int) -> Ints:
    """Return the newest bins of the first `n` nodes that tell of the time up to `end`."""
    return np.minimum(last_seen[:n], end)


BRIEFLY_S = 0.2
"""How long a line waits for a reading that is nearly done."""


class LastReading:
    """Keep the newest whole reading; `asking` is held by whoever asks AWS.

    Only the watch waits for it.
    """

    def __init__(self) -> None:
        self.asking = RLock()
        self._newest: Reading | None = None

    def read(self, now: datetime, ask: Callable[[datetime], Reading]) -> Reading:
        """Return what `ask` reads at `now`.

        To a line that comes while somebody else asks, the newest reading there is.

        Raise `Unavailable` for a line that comes while the first reading is still under way.
        """
        if not self.asking.acquire(timeout=-1 if LANE.get() is Lane.WATCH else BRIEFLY_S):
            if self._newest is None:
                raise Unavailable(
                    "AWS is being read for the first time since the start; ask again in a minute."
                )
            return self._newest
        try:
            reading = ask(now)
            self._newest = (
                reading if self._newest is None or self._newest.now <= now else self._newest
            )
            return reading
        finally:
            self.asking.release()


_DISCOVERY = timedelta(minutes=59)
_SOONER = timedelta(minutes=9)
_SHARES = {
    "events": 0.1,
    "describe": 0.2,
    "discover": 0.35,
    "stream": 0.5,
    "poll": 0.7,
    "logs": 0.8,
}
"""By which share of an interval each part of a tick's reading has ended.

One that is slow leaves the next its time.
"""


@dataclass(frozen=True)
class TickedAccount(PriceSource):
    """Read an account as one tick left it: `bot.ports.Source` and `Prices` in any process."""

    reading: ReadingConfig
    end: int
    grids: Mapping[str, MetricGrid]
    inventories: JoinedInventory
    snapshots: Snapshots
    runs: TrainingRuns
    gaps: tuple[Gap, ...]
    unread: frozenset[str]
    book: Logbook
    notices: Notices | None = None
    learning: str = ""
    missing: tuple[str, ...] = ()
    prices: QuotedPrices | None = None

    def read(self, now: datetime) -> Reading:
        """Return the reading at the last step's end at or before `now`."""
        reading, step = self.reading, self.reading.grid.step
        end = int(now.timestamp()) // step
        inventory = self.inventories.at(now, end)
        return Reading(
            now,
            {
                kind: grid.frame(end, reading.most_steps, labelled(grid, inventory))
                for kind, grid in self.grids.items()
                if grid.visible(end)
            },
            inventory,
            self.runs.at(end * step),
            self.gaps,
            unread=self.unread,
            marks=self.book.at(now, reading.history),
            refusals=self.snapshots.refusals(now),
            notices=self.notices.at(now, reading.history) if self.notices else (),
            learning=self.learning,
            missing=self.missing,
        )

    def extent(self) -> Window | None:
        """Return None: it is no recording."""
        return None

    def problems(self) -> Sequence[str]:
        """Return none: the account itself tells them."""
        return ()

    def quoted(self, _: datetime) -> QuotedPrices:
        """Return the prices known then."""
        assert self.prices
        return self.prices


class Live(PriceSource):
    """Read a live account: `bot.ports.Source`, `Prices` and `Inbox`. Any thread may read.

    One at a time asks AWS.
    """

    def __init__(self, config: LiveConfig) -> None:
        reading, timing, catalogue = config.reading, config.timing, config.reading.catalogue()
        self._reading, self._timing, self.grid, self._catalogue = (
            reading,
            timing,
            reading.grid,
            catalogue,
        )
        self._unknown, self._places = list(config.access.places()), list[Place]()
        calls = self.calls = Calls(
            timing.clock,
            daily_usd=config.daily_usd,
            usage=config.usage,
            stopwatch=timing.stopwatch,
            attempts=config.attempts,
            external_id=config.access.external_id,
            server=config.server,
        )
        listers = [S3Lister(calls, address, Place(self.home), FIRST) for address in config.streams]
        self.logs = LogPoller(calls, tuple(map(read_log_group, config.logs)), self.home)
        self._problems, self._last, self._unlogged = Problems(), LastReading(), tuple[str, ...]()
        self.responses = ResponseHistory(self._problems, config.journal)
        self.events = EventPoller(
            calls, self.responses, tuple(map(read_event_queue, config.events))
        )
        self._account = AccountPoller(calls, self.responses, config)
        self.resources = self._account.resources
        book, first, history = (
            SeriesBook(catalogue=catalogue),
            int(FIRST.total_seconds()),
            reading.history_seconds,
        )
        self.lister = SeriesLister(
            calls, catalogue, PromqlLister(calls, catalogue, book), config.surface
        )
        self.streams = Streams(
            calls, listers, book, self._problems, timing.stopwatch, config.journal
        )
        self.metrics = MetricPoller(
            calls, history, timing.stopwatch, book, self.streams.brings, first, timing.pause
        )
        self._buffer = FrameBuffer(
            self.grid,
            history,
            self.metrics.book.series,
            catalogue,
            ColumnRoom(config.journal and config.journal / "columns"),
        )
        self.cache = GridCache(
            self._buffer, self.metrics, self._problems, config.journal and config.journal / "grids"
        )
        self.details = DetailPoller(self.lister, self.metrics, config.journal)
        self._listed_at: dict[Place, datetime] = {}
        self._named = frozenset[str]()
        self._partial: dict[Place, SeriesByName] = defaultdict(dict)
        self._tick_result: TickedAccount | None = None

    def read(self, now: datetime) -> Reading:
        """Return the reading at the last step's end at or before `now`, asking AWS once a step.

        A line may get an older one.
        """
        return self._last.read(now, self._read)

    def _read(self, now: datetime) -> Reading:
        end = int(now.timestamp()) // self.grid.step
        if self._tick_result is None or end > self._tick_result.end:
            self._tick_result = self._tick(now, end)
        # One tick's answers serve every reading until the next step.
        return self._ticked(self._tick_result).read(now)

    def _ticked(self, tick: TickedAccount) -> TickedAccount:
        """Return a tick with all that may have come since."""
        return replace(
            tick,
            notices=Notices(self.responses) if self.events.queues else None,
            learning=" ".join(self.metrics.backfill.unread()),
            missing=self.calls.states.lacking(),
        )

    def frozen(self, copied: Callable[[TickedAccount], TickedAccount]) -> TickedAccount:
        """Return the account as its newest tick left it, copied while nobody asks AWS.

        Raise `Unavailable` before the first tick.
        """
        with self._last.asking:
            if self._tick_result is None:
                raise Unavailable("AWS has not been read yet; ask again in a minute.")
            now = datetime.fromtimestamp(self._tick_result.end * self.grid.step, UTC)
            return copied(replace(self._ticked(self._tick_result), prices=self.quoted(now)))

    def extent(self) -> Window | None:
        """Return None: a live account has no end."""
        return None

    def problems(self) -> Sequence[str]:
        """Return one sentence for each part that does not answer now.

        For answers that could not be understood.
        """
        return (
            *dict.fromkeys(
                (
                    *self.calls.states.troubles(),
                    *self._account.left_out,
                    *self._unlogged,
                    *self.events.missing,
                )
            ),
            *self.metrics.backfill.unread(),
            *self._buffer.refused(),
            *self.streams.late(),
            *self._problems.sentences(),
        )

    def quoted(self, now: datetime) -> QuotedPrices:
        """Return the prices last answered, asking for them first where nobody did."""
        # What was polled once needs no turn: the tick that asks AWS may take minutes.
        if self._account.prices is not None:
            return self._account.prices
        with self._last.asking:
            return self._account.quoted(self.places, now)

    def capacity_blocks(self) -> Sequence[Reservation]:
        """Return every Capacity Block that AWS ever described, this process or one before it."""
        return capacity_blocks(self.responses, self._reading.tags)

    def commitment_ends(self) -> Mapping[str, datetime]:
        """Return when each commitment ends that AWS ever described."""
        return commitment_ends(self.responses)

    def places(self) -> tuple[Place, ...]:
        """Return the places that are read.

        Asking whose account they are where that is not known yet.
        """
        list(self._identify())
        return tuple(self._places)

    @property
    def home(self) -> str:
        """Return the first region."""
        return next(place.region for place in (*self._unknown, *self._places))

    def describe(self, now: datetime) -> Iterator[str]:
        """Poll inventory and prices as they are now.

        Yield a sentence for each answer that is missing.
        """
        with self._last.asking:
            yield from map(str, (*self._identify(), *self._account.describe(self._places, now)))
            self._account.surround(self._places, now, math.inf, self._snapshots)
            yield from self._account.left_out
            self.calls.meter.save()

    def drill(self, instances: Sequence[str], now: datetime) -> None:
        """Read cores and devices of some nodes from now on, the worst first.

        Where calls and budget allow.
        """
        with self._last.asking, suppress(Unavailable):
            of = {
                instance: place
                for place in self._places
                for instance in self.resources.instances(place)
            }
            # Points of the last minutes are not out yet: from there on, so that the first step is
            # whole.
            self.details.watch(
                [(of[x], x) for x in instances if x in of], now - timedelta(seconds=self.grid.lag)
            )

    def receive(self, now: datetime) -> None:
        """Receive the notices that wait in queues.

        Only a watch does, as what one process received is hidden from others.
        """
        if self.events.queues:
            with self._last.asking:
                self._within(_SHARES["events"], lambda: self.events.receive(now))

    def settle(self, now: datetime) -> None:
        """Delete the messages whose notices the reading of `now` had; keep settled bins.

        Read on in history beside the ticks.
        """
        with self._last.asking:
            if self.events.queues:
                self._within(_SHARES["events"], lambda: self.events.settle(now))
            if not self._unknown:
                self.cache.save(self._places, int(now.timestamp()))
        self.metrics.backfill.start(self._by(_SHARES["poll"]), self._buffer.past)

    def fleet(self, place: Place) -> PlaceFleet:
        """Return the accelerated instances of a place, and the volumes on them."""
        return PlaceFleet(self.resources.instances(place), self.resources.volumes(place))

    def _tick(self, now: datetime, end: int) -> TickedAccount:
        seconds, by = (
            int(now.timestamp()),
            {part: self._by(share) for part, share in _SHARES.items()},
        )
        try:
            self.calls.until = by["describe"]
            gaps = [*self._identify(), *self._account.describe(self._places, now)]
            if not self._unknown:
                self.cache.recall(self._places, seconds)
            self.calls.until = by["discover"]
            unlisted = list(self._discover(now))
            self.calls.until = by["stream"]
            streamed = self._streamed(now, by["stream"])
            self.calls.until = by["poll"]
            new = streamed.joined(
                self.metrics.read((seconds - self.grid.lag) // 60 * 60, by["poll"])
            )
            snapshots = self._account.surround(self._places, now, by["poll"], self._snapshots)
            self.calls.until = by["logs"]
            if self.logs.groups:
                self.logs.book.forget(now - self._reading.history)
                self._unlogged = tuple(
                    self.logs.read(self._places, now, node_names(self.metrics.book.series))
                )
        finally:
            self.calls.until = math.inf
        self._buffer.absorb(
            new,
            end,
            lambda feeding: core_counts(snapshots, feeding),
            self.metrics.backfill.taken(),
        )
        self.calls.meter.save()
        last_seen = self._buffer.last_seen
        nodes = self._buffer.grids.get("node")

        # The instances of which nobody can tell now whether they report, or whether they run.
        undescribed = {x for place in self._account.blind for x in self.resources.instances(place)}
        silent = (
            instance_of(self.metrics.book.series[n], self._catalogue.instance) for n in new.unread
        )
        return TickedAccount(
            self._reading,
            end,
            self._buffer.grids,
            JoinedInventory(snapshots, nodes, partial(_seen_by, last_seen) if nodes else None),
            snapshots,
            self._buffer.runs,
            tuple(dict.fromkeys([*gaps, *unlisted, *new.gaps])),
            (frozenset(undescribed).union(silent) - {""}),
            self.logs.book,
        )

    def _by(self, share: float) -> float:
        """Return when, by the stopwatch, so much of an interval is over."""
        return self._timing.stopwatch() + share * self.grid.step / self._timing.haste

    def _within(self, share: float, ask: Callable[[], None]) -> None:
        """Ask AWS for so much of an interval at most."""
        self.calls.until = self._by(share)
        try:
            ask()
        finally:
            self.calls.until = math.inf
        self.calls.meter.save()

    def _snapshots(self) -> Snapshots:
        return Snapshots(
            self.responses, self._reading.tags, self._reading.types, self._reading.history
        )

    def _streamed(self, now: datetime, deadline: float) -> NewPoints:
        """Read the series of the streams that would be polled.

        The cores and devices of suspicious nodes too.
        """
        # A stream may bring regions that are not read here.
        regions = frozenset(place.region for place in (*self._unknown, *self._places))
        fleets = [self.fleet(place) for place in self._places]
        # Where EC2 tells none, metrics of accelerators name instances for other objects too.
        whole = PlaceFleet(
            self._named.union(*(x.instances for x in fleets)),
            frozenset().union(*(x.volumes for x in fleets)),
        )
        closer = frozenset(self.details.instances())

        def wanted(listed: Iterable[MetricSeries]) -> set[MetricSeries]:
            local = [x for x in listed if x.region in regions]
            worth = worth_reading(local, whole, self._catalogue)
            self._named |= {instance_of(x, self._catalogue.instance) for x in worth} - {""}
            return worth | details_of(local, closer, self._catalogue)

        return self.streams.read(now, deadline, wanted, (regions, whole, closer))

    def _identify(self) -> Iterator[Gap]:
        """Ask whose account each place is.

        Yield a gap for each that does not answer, which is left out meanwhile.
        """
        for place in list(self._unknown):
            try:
                account = str(self.calls.call(place, "sts", "get_caller_identity")["Account"])
            except Unavailable as error:
                yield place.gap(str(error))
            else:
                self._unknown.remove(place)
                self._places.append(replace(place, account=account))

    def _discover(self, now: datetime) -> Iterator[Gap]:
        """List the series of each place once an hour, and sooner where a node has none yet."""
        for place in self._places:
            before = self._listed_at.get(place)
            wait = (
                _SOONER
                if before and unheard(self.fleet(place), self.metrics.book.series, self._catalogue)
                else _DISCOVERY
            )
            if before and now - before < wait:
                continue
            recent = before is not None or self.metrics.resumed(place, int(now.timestamp()))
            try:
                series = self.lister.discover(
                    place, self.fleet(place), recent=recent, partial=self._partial[place]
                )
            except Unavailable as error:
                yield place.gap(str(error))
            else:
                self.metrics.enter(place, series, int(now.timestamp()))
                self._listed_at[place] = now
                del self._partial[place]
