"""Do long work in other processes where it pays: pack all that it asks, and give it to them.

They are processes of this machine, or workers of a Dask cluster. A worker needs nothing but this
package: no folder, no account and no database.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from itertools import chain
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from pickle import PicklingError
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from bot.errors import OutOfTime, TrnbotError, Unavailable
from bot.knowledge import load_knowledge
from bot.model.codec import table
from bot.model.notification import ReplayResult, ReplaySpan
from bot.model.policy import Policy
from bot.model.route import OwnerMap, Routes
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
from bot.ports.work import checkpoint, noting_progress, progressed
from bot.watch.preview import side_by_side
from bot.wiring.environment import build_name
from bot.wiring.kept import mapped, packed, place_of, unpacked, write_views

if TYPE_CHECKING:
    from adapters.dask import DaskCluster

Result = TypeVar("Result")
_log = logging.getLogger("trnbot.workers")


@dataclass(frozen=True)
class Threshold:
    """State from which size a kind of work pays on workers: its steps x (things + `fixed`)."""

    least: int
    fixed: int
    """Things that cost as much in a step as all that does not grow with them."""

    def met(self, steps: int, things: int = 0) -> bool:
        """Return whether so many steps over so many things are enough."""
        return steps * (things + self.fixed) >= self.least


_SIZES = {
    (row["where"], row["work"]): Threshold(int(row["least"]), int(row["fixed"]))
    for row in table("bot.wiring", "workers.csv")
}
PAYS, PAYS_HERE = (
    {work: size for (where, work), size in _SIZES.items() if where == place}
    for place in ("dask", "machine")
)
"""By kind of work, as the table says that it was measured: on Dask, and on this machine."""


class Engine(Protocol):
    """Do the parts of long work elsewhere."""

    fewest: int
    """Parts from which it is of use."""

    def taken(self, views: Sequence[memoryview], /) -> Any:
        """Return what is to be sent, of bytes that may change later."""

    def each(
        self, do: Callable[[Any, Any], Result], sent: Any, parts: Sequence[Any], /
    ) -> list[Result]:
        """Return `do(sent, part)` of each part, in their order; may work for minutes.

        Raise `Unavailable` where that is not possible, `OutOfTime` as the line is stopped, and what
        `do` raises.
        """


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

    def owners(self) -> OwnerMap:
        """Return the owners that a file names, as they were."""
        return self.routes.mapping


def replay_sides(sent: Sequence[Any], sides: Sequence[Side]) -> list[ReplayResult]:
    """Replay some sides of a parcel, which judge alike, on a worker."""
    from detectors import SharedDetector

    parcel: Parcel = unpacked(sent)
    world = World(
        parcel.source,
        parcel.billing,
        parcel.prices,
        load_knowledge(),
        SharedDetector(policies=len(sides)),
        cast("Replays", None),  # nobody asks for a replay within one
        parcel.outlook,
    )
    ports = []
    for side in sides:
        store = cast("Any", side.store)
        site = Site(side.policy, parcel.interval, routes=side.routes, owners=side.owners)
        ports.append(Ports(world, Stores(store, store, store, store), site))
    return side_by_side(ports, parcel.span)


def called(_: Sequence[Any], part: tuple[Callable[..., Any], tuple[Any, ...]]) -> Any:
    """Return the result of a function for some arguments, on a worker."""
    do, arguments = part
    return do(*arguments)


class PartWorkers:
    """Implement `bot.ports.Workers`: a part is what policies have in common, a day, or floors."""

    def __init__(
        self,
        engine: Engine,
        parcel: Callable[[ReplaySpan, Callable[[Parcel], Any]], Any],
        pays: Mapping[str, Threshold],
    ) -> None:
        """Take a function that hands on all that replays over a span ask, and what sizes pay."""
        self._engine, self._parcel, self._pays = engine, parcel, pays

    def replays(self, sides: Sequence[Ports], span: ReplaySpan, /) -> Sequence[ReplayResult] | None:
        """Return the replay of each side; None where it does not pay, or nobody can be asked."""
        from detectors import judging

        # Sides that judge alike share all that takes long: they are one part.
        judged = [judging(side.site.base) for side in sides]
        first = [judged.index(policy) for policy in judged]
        groups = [[i for i, other in enumerate(first) if other == x] for x in dict.fromkeys(first)]
        if not span.times or len(groups) < self._engine.fewest:
            return None
        frame = sides[0].world.source.read(span.times[-1]).frame("node")
        nodes = len(frame.things) if frame else 0
        if not self._pays["replay"].met(len(groups) * len(span.times), nodes):
            return None

        def replayed() -> Sequence[ReplayResult]:
            try:
                sent = self._parcel(span, lambda parcel: self._engine.taken(packed(parcel)))
            except (RuntimeError, TypeError, AttributeError, PicklingError) as error:
                # The source is in use: what changes amid it is not packed by half.
                raise Unavailable(
                    f"What the replay asks could not be packed ({type(error).__name__})."
                ) from None
            parts = [Side(x.site.base, x.site.current_routes(), x.stores.alerts) for x in sides]
            found = self._engine.each(replay_sides, sent, [[parts[i] for i in x] for x in groups])
            by_side = dict(zip(chain(*groups), chain(*found), strict=True))
            return [by_side[i] for i in range(len(sides))]

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
        if work not in self._pays or not self._pays[work].met(size):
            return None
        return self._or_here(
            lambda: self._engine.each(called, (), [(do, arguments) for arguments in parts()])
        )

    def _or_here(self, work: Callable[[], Sequence[Result]]) -> Sequence[Result] | None:
        try:
            return work()
        except OutOfTime:
            raise
        except Unavailable as error:
            _log.warning("%s The work is done in this process.", error)
            return None


_POLL_S, _NOTE_S = 0.05, 0.3
"""How often the asker's stop is looked for, and a part says how far it is."""
_NICER = 5
"""What watches and answers goes before what a preview asks."""


class MachineProcesses:
    """Implement `Engine` by a process of this machine for each part."""

    fewest = 2

    def taken(self, views: Sequence[memoryview], /) -> Path:
        """Write a file that all processes map: memory holds no copy."""
        path = place_of("parcel", os.getpid(), time.monotonic_ns())
        try:
            write_views(path, views)
        except OSError as error:
            raise Unavailable(f"{path.parent} has no place for what is asked ({error}).") from None
        return path

    def each(
        self, do: Callable[[Any, Any], Result], sent: Path, parts: Sequence[Any], /
    ) -> list[Result]:
        """Return `do(sent, part)` of each part, in their order, and remove the file.

        Each is a new process: one that was forked would hold the locks of threads that it lacks.
        """
        context, begun = get_context("spawn"), []
        try:
            for part in parts:
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_done, args=(theirs, sent, do, part), daemon=True)
                process.start()
                theirs.close()
                begun.append((process, ours))
            return _gathered([ours for _, ours in begun])
        except OSError as error:
            raise Unavailable(f"No process could be begun for it ({error}).") from None
        finally:
            for process, ours in begun:
                process.kill()
                process.join()
                ours.close()
            sent.unlink(missing_ok=True)


def _gathered(parts: Sequence[Connection]) -> list[Any]:
    """Return what all parts gave; raise as soon as one failed, died, or the asker is to stop."""
    given: dict[Connection, Any] = {}
    far = dict.fromkeys(parts, (0, 0))
    while len(given) < len(parts):
        checkpoint()
        for part in cast("list[Connection]", wait(far.keys() - given.keys(), _POLL_S)):
            try:
                kind, said = part.recv()
            except EOFError:
                raise Unavailable("A process that worked on it was killed.") from None
            if kind == "failed" and isinstance(said, TrnbotError):
                raise said
            if kind == "failed":
                raise Unavailable(f"A process that worked on it failed ({type(said).__name__}).")
            if kind == "given":
                given[part] = said
            else:
                far[part] = said
        done, of = (sum(counts) for counts in zip(*far.values(), strict=True))
        progressed(f"Working on {len(parts)} parts", done, of)
    return [given[part] for part in parts]


def _done(to: Connection, path: Path, do: Callable[[Any, Any], Any], part: Any) -> None:
    """Do one part in a process of its own, and send how far it is and what it gave."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's is the asker's, who ends this
    os.nice(_NICER)
    noted = 0.0

    def note(_: str, done: int, of: int) -> None:
        nonlocal noted
        if time.monotonic() - noted >= _NOTE_S:
            noted = time.monotonic()
            to.send(("far", (done, of)))

    try:
        with noting_progress(note):
            outcome = "given", do(mapped(path), part)
    except BrokenPipeError:  # nobody waits any more
        return
    except Exception as error:  # of whichever kind: here it may still be done
        outcome = "failed", error
    to.send(outcome)
