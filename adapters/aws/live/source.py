"""Read a live account tick by tick: the bot's source and price list."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import RLock

import numpy as np

from adapters.aws.api.calls import Calls, Place
from adapters.aws.api.history import ResponseHistory
from adapters.aws.api.s3 import S3Lister
from adapters.aws.inventory.joined import JoinedInventory, core_counts, labelled
from adapters.aws.inventory.ownership import TagNames
from adapters.aws.inventory.snapshots import Snapshots
from adapters.aws.live.account import AccountPoller, Means
from adapters.aws.live.discovery import Listed, details_of, discover, worth_reading
from adapters.aws.live.frame_buffer import FrameBuffer
from adapters.aws.live.poller import DetailPoller, MetricPoller, NewPoints
from adapters.aws.live.requests import SeriesBook
from adapters.aws.live.stream import FIRST, Streams
from adapters.aws.logs.logbook import node_names
from adapters.aws.logs.poller import LogPoller
from adapters.aws.metrics.catalogue import Catalogue
from adapters.aws.metrics.points import MetricSeries
from adapters.aws.metrics.time_grid import TimeGrid
from adapters.aws.prices.quoted import QuotedPrices
from adapters.aws.problems import Problems
from bot.errors import Unavailable
from bot.model.fleet import InstanceType
from bot.model.price import Interruption, PlacementScore, Price
from bot.model.reading import Gap, Reading
from bot.model.window import Window
from bot.ports import Check

_DISCOVERY = timedelta(minutes=59)
_SOONER = timedelta(minutes=9)
_SHARES = {"describe": 0.2, "discover": 0.35, "stream": 0.5, "poll": 0.7, "logs": 0.8}
"""By which share of an interval each part of a tick's reading has ended: one that is slow leaves the next its time."""


@dataclass(frozen=True)
class _Seen:
    """Hold what one tick came to."""

    end: int
    inventories: JoinedInventory
    gaps: tuple[Gap, ...]
    unread: frozenset[str]


class Live:
    """Read a live account: `bot.ports.Source` and `bot.ports.Prices`. Any thread may read; one at a time asks AWS."""

    def __init__(
        self,
        calls: Calls,
        grid: TimeGrid,
        history: timedelta,
        types: Mapping[str, InstanceType],
        tags: TagNames,
        catalogue: Catalogue,
        walks: Sequence[S3Lister],
        asked: Sequence[Place],
        means: Means,
        logs: LogPoller,
    ) -> None:
        self.calls, self.logs = calls, logs
        self._grid, self._history, self._types, self._tags = grid, history, types, tags
        self._most = max(1, int(history.total_seconds()) // grid.step)
        self._unknown, self._places = list(asked), list[Place]()
        self._problems = Problems()
        self.heard = ResponseHistory(self._problems, means.journal)
        self._survey = AccountPoller(calls, self.heard, means, types)
        self._describer, self._means = self._survey.describer, means
        book, first = SeriesBook(catalogue=catalogue), int(FIRST.total_seconds())
        self.streams = Streams(calls, walks, book, self._problems, means.stopwatch)
        self.poll = MetricPoller(calls, int(history.total_seconds()), means.stopwatch, book, self.streams.brings, first)
        self._ledger = FrameBuffer(grid, int(history.total_seconds()), self.poll.book.series, catalogue)
        self.closer = DetailPoller(calls, self.poll, means.journal)
        self._listed: dict[Place, datetime] = {}
        self._had: dict[Place, Listed] = defaultdict(dict)
        self._seen: _Seen | None = None
        self._unlogged: tuple[str, ...] = ()
        self._asking = RLock()

    def read(self, now: datetime) -> Reading:
        """Return what was visible at the last step's end at or before `now`, asking AWS once a step."""
        end = int(now.timestamp()) // self._grid.step
        with self._asking:
            if self._seen is None or end > self._seen.end:
                self._seen = self._tick(now, end)
            seen = self._seen
            inventory = seen.inventories.at(now, end)
            sheets = {kind: sheet for kind, sheet in self._ledger.sheets.items() if sheet.visible(end)}
            frames = {kind: of.frame(end, self._most, labelled(of, inventory)) for kind, of in sheets.items()}
            return Reading(
                now,
                frames,
                inventory,
                self._ledger.runs.at(end * self._grid.step),
                seen.gaps,
                unread=seen.unread,
                marks=self.logs.book.at(now, self._history),
            )

    def extent(self) -> Window | None:
        """Return None: a live account has no end."""
        return None

    def problems(self) -> Sequence[str]:
        """Return one sentence for each part that does not answer now, and for answers that could not be understood."""
        troubles = dict.fromkeys((*self.calls.states.troubles(), *self._survey.left_out, *self._unlogged))
        return (*troubles, *self.poll.unread(), *self._problems.sentences())

    def quotes(self, instance_type: str, region: str, now: datetime) -> Sequence[Price]:
        """Return the listed, spot and Capacity Block prices last answered; all regions where `region` is ""."""
        return self._quoted(now).quotes(instance_type, region, now)

    def spot_history(self, instance_type: str, now: datetime) -> Sequence[tuple[datetime, Price]]:
        """Return the spot price changes last answered, oldest first."""
        return self._quoted(now).spot_history(instance_type, now)

    def placement(self, instance_type: str, now: datetime) -> Sequence[PlacementScore]:
        """Return the spot placement scores known at `now`, the best first."""
        return self._quoted(now).chances.placement(instance_type, now)

    def interruptions(self, instance_type: str, now: datetime) -> Sequence[Interruption]:
        """Return the Spot Advisor's bands known at `now`, by region."""
        return self._quoted(now).chances.interruptions(instance_type, now)

    def places(self) -> tuple[Place, ...]:
        """Return the places that are read, asking whose account they are where that is not known yet."""
        for _ in self._identify():
            pass
        return tuple(self._places)

    @property
    def home(self) -> str:
        """Return the first region."""
        return next(place.region for place in (*self._unknown, *self._places))

    def examine(self) -> Sequence[Check]:
        """Look at what a tick would ask, and at where metrics come from."""
        from adapters.aws.live.doctor import examine

        return examine(self)

    def describe(self, now: datetime) -> Iterator[str]:
        """Ask for inventory and prices as they are now; yield a sentence for each answer that could not be had."""
        with self._asking:
            yield from map(str, (*self._identify(), *self._survey.describe(self._places, now)))
            self._survey.surround(self._places, now, math.inf, self._snapshots)
            yield from self._survey.left_out
            self.calls.tab.save()

    def drill(self, instances: Sequence[str], now: datetime) -> None:
        """Look closer at some nodes, the worst first: cores and devices from now on, where calls and budget allow."""
        with self._asking, suppress(Unavailable):
            of = {instance: place for place in self._places for instance in self._describer.instances(place)}
            # Points of the last minutes are not out yet: from there on, so that the first step is whole.
            self.closer.look([(of[x], x) for x in instances if x in of], now - timedelta(seconds=self._grid.lag))

    def about(self, place: Place) -> tuple[frozenset[str], frozenset[str]]:
        """Return the ids of the accelerated instances of a place, and of the volumes on them."""
        return self._describer.instances(place), self._describer.volumes(place)

    def neuron(self, place: Place) -> bool:
        """Tell whether instances with NeuronCores run at a place."""
        return any(name.startswith(("trn", "inf")) for name in self._describer.types(place))

    def in_eks(self, place: Place) -> bool:
        """Tell whether an accelerated instance of a place carries the tags of a Kubernetes cluster."""
        return self._describer.in_eks(place)

    def _tick(self, now: datetime, end: int) -> _Seen:
        began, at = self._means.stopwatch(), int(now.timestamp())
        by = {part: began + share * self._grid.step / self._means.haste for part, share in _SHARES.items()}
        try:
            self.calls.until = by["describe"]
            gaps = [*self._identify(), *self._survey.describe(self._places, now)]
            self.calls.until = by["discover"]
            found = list(self._discover(now))
            self.calls.until = by["stream"]
            streamed = self.streams.read(now, by["stream"], self._wanted)
            self.calls.until = by["poll"]
            read = streamed.joined(self.poll.read((at - self._grid.lag) // 60 * 60, by["poll"]))
            snapshots = self._survey.surround(self._places, now, by["poll"], self._snapshots)
            self.calls.until = by["logs"]
            self._unlogged = tuple(self._read_logs(now)) if self.logs.groups else ()
        finally:
            self.calls.until = math.inf
        self._ledger.absorb(read, end, lambda feeding: core_counts(snapshots, feeding))
        self.calls.tab.save()
        seen = self._ledger.last_seen
        nodes = self._ledger.sheets.get("node")
        inventories = JoinedInventory(snapshots, nodes, lambda end, n: np.minimum(seen[:n], end) if nodes else seen)
        return _Seen(end, inventories, tuple(dict.fromkeys([*gaps, *found, *read.gaps])), self._unread(read))

    def _unread(self, read: NewPoints) -> frozenset[str]:
        """Return the instances of which nobody can tell now whether they report, or whether they run."""
        known = {x for place in self._survey.blind for x in self._describer.instances(place)}
        named = (dict(self.poll.book.series[n].dimensions) for n in read.unread)
        own = self.poll.book.catalogue.own
        return frozenset(known).union(x.get("InstanceId") or x.get(own.instance if own else "", "") for x in named) - {""}

    def _read_logs(self, now: datetime) -> list[str]:
        self.logs.book.forget(now - self._history)
        return self.logs.read(self._places, now, node_names(self.poll.book.series))

    def _snapshots(self) -> Snapshots:
        return Snapshots(self.heard, self._tags, self._types, self._history)

    def _wanted(self, found: Iterable[MetricSeries]) -> set[MetricSeries]:
        """Keep what is worth reading of a stream: all that would be polled, and the cores of suspicious nodes."""
        regions = {place.region for place in (*self._unknown, *self._places)}
        here = [series for series in found if series.region in regions]
        about = [self.about(place) for place in self._places]
        known = {x for instances, _ in about for x in instances}
        attached = {x for _, volumes in about for x in volumes}
        catalogue = self.poll.book.catalogue
        return worth_reading(here, known, attached, catalogue) | details_of(here, self.closer.instances(), catalogue)

    def _identify(self) -> Iterator[Gap]:
        """Ask whose account each place is; yield a gap for each that does not answer, which is left out meanwhile."""
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
            listed = self._listed.get(place)
            wait = _SOONER if listed and self._unheard(place) else _DISCOVERY
            if listed and now - listed < wait:
                continue
            known, attached = self.about(place)
            try:
                found = discover(
                    self.calls, place, known, attached, self.poll.book.catalogue, recent=listed is not None, had=self._had[place]
                )
            except Unavailable as error:
                yield place.gap(str(error))
            else:
                self.poll.enter(place, found, int(now.timestamp()))
                self._listed[place] = now
                del self._had[place]

    def _unheard(self, place: Place) -> bool:
        """Tell whether an accelerated instance of a place has no series yet."""
        own = self.poll.book.catalogue.own
        names = ("InstanceId", own.instance if own else "")
        heard = {value for series in self.poll.book.series for name, value in series.dimensions if name in names}
        return bool(self._describer.instances(place) - heard)

    def _quoted(self, now: datetime) -> QuotedPrices:
        with self._asking:
            return self._survey.quoted(self.places, now)
