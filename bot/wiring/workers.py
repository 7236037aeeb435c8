"""Do long work on the workers of a Dask cluster where it pays: pack all that it asks, and send it.

A worker needs nothing but this package: no folder, no account and no database.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from pickle import PicklingError
from typing import TYPE_CHECKING, Any, TypeVar, cast

from bot.errors import OutOfTime, TrnbotError, Unavailable
from bot.knowledge import load_knowledge
from bot.model.codec import table
from bot.model.notification import ReplayResult, ReplaySpan
from bot.model.policy import Policy
from bot.model.route import Routes
from bot.ports import (
    AlertStore,
    Billing,
    Outlook,
    Ports,
    Prices,
    Replays,
    Site,
    Source,
    Stores,
    World,
)
from bot.watch.preview import side_by_side
from bot.wiring.environment import build_name
from bot.wiring.kept import packed, unpacked

if TYPE_CHECKING:
    from adapters.dask import DaskCluster

Result = TypeVar("Result")
_log = logging.getLogger("trnbot.dask")


@dataclass(frozen=True)
class Threshold:
    """State from which size a kind of work pays on workers: its steps x (things + `fixed`)."""

    least: int
    fixed: int
    """Things that cost as much in a step as all that does not grow with them."""

    def met(self, steps: int, things: int = 0) -> bool:
        """Return whether so many steps over so many things are enough."""
        return steps * (things + self.fixed) >= self.least


PAYS = {
    row["work"]: Threshold(int(row["least"]), int(row["fixed"]))
    for row in table("bot.wiring", "workers.csv")
}
"""By kind of work, as the table says that it was measured."""


def open_cluster(address: str) -> DaskCluster:
    """Return the cluster of a scheduler; raise `Unavailable` without the package."""
    if not find_spec("distributed"):
        raise Unavailable(
            "TRNBOT_DASK needs another package; install it with: pip install 'trnbot[dask]'."
        )
    from adapters.dask import DaskCluster

    return DaskCluster(address, build_name)


class Answers:
    """Stand for a port by its answers to some questions, each a method's name and arguments."""

    def __init__(self, port: object, questions: Sequence[tuple[Any, ...]]) -> None:
        self._answers: dict[tuple[Any, ...], object] = {}
        for question in questions:
            name, *asked = question
            try:
                self._answers[question] = getattr(port, name)(*asked)
            except TrnbotError as error:
                self._answers[question] = error

    def __getattr__(self, name: str) -> Any:
        """Return the method that answers from the answers held."""
        if name.startswith("_"):
            raise AttributeError(name)

        def answer(*asked: Any) -> Any:
            result = self._answers[name, *asked]
            if isinstance(result, TrnbotError):
                raise result
            return result

        return answer


@dataclass(frozen=True)
class Parcel:
    """Hold all that replays of one source over one span ask, in whichever process."""

    source: Source
    prices: Prices
    billing: Billing
    outlook: Outlook
    interval: timedelta
    span: ReplaySpan


@dataclass(frozen=True)
class Side:
    """Hold the parts in which replays of one parcel differ."""

    policy: Policy
    routes: Routes
    store: AlertStore


def replay_side(sent: Sequence[Any], side: Side) -> ReplayResult:
    """Replay one side of a parcel, on a worker."""
    from detectors import SharedDetector

    parcel: Parcel = unpacked(sent)
    world = World(
        parcel.source,
        parcel.billing,
        parcel.prices,
        load_knowledge(),
        SharedDetector(policies=1),
        cast("Replays", None),  # nobody asks for a replay within one
        parcel.outlook,
    )
    site = Site(
        side.policy, parcel.interval, routes=side.routes, owners=lambda: side.routes.mapping
    )
    store: Any = side.store
    (result,) = side_by_side([Ports(world, Stores(store, store, store, store), site)], parcel.span)
    return result


def called(_: Sequence[Any], part: tuple[Callable[..., Any], tuple[Any, ...]]) -> Any:
    """Return the result of a function for some arguments, on a worker."""
    do, arguments = part
    return do(*arguments)


class DaskWorkers:
    """Implement `bot.ports.Workers` by a Dask cluster: a worker has a policy, or a day."""

    def __init__(
        self,
        cluster: DaskCluster,
        parcel: Callable[[ReplaySpan], Parcel],
        pays: Mapping[str, Threshold] = PAYS,
    ) -> None:
        """Take a function that packs all that replays over a span ask, and from which sizes it pays."""
        self._cluster, self._parcel, self._pays = cluster, parcel, pays

    def replays(self, sides: Sequence[Ports], span: ReplaySpan, /) -> Sequence[ReplayResult] | None:
        """Return the replay of each side; None where it does not pay, or nobody can be asked."""
        if not span.times:
            return None
        frame = sides[0].world.source.read(span.times[-1]).frame("node")
        if not self._pays["replay"].met(
            len(sides) * len(span.times), len(frame.things) if frame else 0
        ):
            return None

        def replayed() -> Sequence[ReplayResult]:
            try:
                sent = packed(self._parcel(span))
            except (RuntimeError, TypeError, AttributeError, PicklingError) as error:
                # The source is in use: what changes amid it is not packed by half.
                raise Unavailable(
                    f"What the replay asks could not be packed ({type(error).__name__})."
                ) from None
            parts = [Side(x.site.base, x.site.current_routes(), x.stores.alerts) for x in sides]
            return self._cluster.each(replay_side, sent, parts)

        return self._or_here(replayed)

    def each(
        self,
        work: str,
        size: int,
        do: Callable[..., Result],
        parts: Callable[[], Sequence[tuple[Any, ...]]],
        /,
    ) -> Sequence[Result] | None:
        """Return the result of each part; None where it does not pay, or nobody can be asked."""
        if not self._pays[work].met(size):
            return None
        return self._or_here(
            lambda: self._cluster.each(called, (), [(do, arguments) for arguments in parts()])
        )

    def _or_here(self, work: Callable[[], Sequence[Result]]) -> Sequence[Result] | None:
        try:
            return work()
        except OutOfTime:
            raise
        except Unavailable as error:
            _log.warning("%s The work is done in this process.", error)
            return None
