"""Do long work on a Dask cluster, part by part: the SDK's one file, imported late as an extra."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
from distributed import Client, Future, get_worker

from bot.errors import OutOfTime, TrnbotError, Unavailable
from bot.ports.work import checkpoint, noting_progress, progressed

R = TypeVar("R")
CONNECT_S, _CLOSE_S = 3.0, 1.0
"""How long the scheduler may take to answer before it counts as away, and to take leave."""
_POLL_S, _NOTE_S, _LOOK_S = 0.05, 0.3, 1.0
"""How often results are looked for, a part says how far it is, and the workers are counted."""
_DESERTED_S = 10.0
"""How long no worker may be there before the work is given up: one that restarts takes seconds."""
_COPIES = 3
"""How often the arrays lie in a worker's memory at most: as it came, as arrays, and its work."""
_GIB = 2.0**30


class DaskCluster:
    """Send work to the cluster of one scheduler, whose workers must run this very code."""

    def __init__(
        self, address: str, build: Callable[[], str], connect_s: float = CONNECT_S
    ) -> None:
        """Take the scheduler's address, and a name of the code that every worker must give too."""
        self.address, self._build, self._connect_s = address, build, connect_s
        # What the cluster lacks is said once, by whoever asked.
        for name in [x for x in logging.root.manager.loggerDict if x.startswith("distributed")]:
            logging.getLogger(name).setLevel(logging.CRITICAL)

    def check(self) -> str:
        """Say how many workers there are; raise `Unavailable` where none may be used."""
        with self._connected() as client:
            workers = self._workers(client)
        plural = "" if len(workers) == 1 else "s"
        return f"{len(workers)} worker{plural} of this version at {self.address}"

    def each(
        self,
        do: Callable[[Sequence[Any], Any], R],
        sent: Sequence[memoryview],
        parts: Sequence[Any],
    ) -> list[R]:
        """Return `do(sent, part)` of each part, in their order; may work for minutes.

        A part whose worker dies is done again by another. Raise `Unavailable` where the cluster is
        away, of another version, too small or dying, what `do` raises, and `OutOfTime` as the line
        is stopped.
        """
        with self._connected() as client:
            topic = f"trnbot-{uuid4().hex}"
            far: dict[int, tuple[int, int]] = {}
            futures: list[Future] = []
            try:
                workers = self._workers(client)
                self._refuse_large(sum(view.nbytes for view in sent), workers.values())
                client.subscribe_topic(topic, lambda event: far.update([event[1]]))
                arrays = [np.frombuffer(view, np.uint8) if view.nbytes else b"" for view in sent]
                with warnings.catch_warnings():
                    # The scheduler holds it all on purpose: if a worker dies, another can begin.
                    warnings.simplefilter("ignore")
                    futures.append(held := client.submit(_received, arrays, pure=False))
                    # In turn: by itself Dask takes parts for as short as the last ones were, and
                    # lets them wait where the arrays lie while other workers have nothing to do.
                    for (number, part), worker in zip(enumerate(parts), cycle(workers)):
                        futures.append(
                            client.submit(
                                _done,
                                do,
                                held,
                                part,
                                (topic, number),
                                pure=False,
                                workers=[worker],
                                allow_other_workers=True,
                            )
                        )
                self._await(client, futures[1:], far)
                return list(client.gather(futures[1:]))
            except (TrnbotError, KeyboardInterrupt):
                raise
            except Exception as error:  # of whichever kind: here it may still be done
                raise Unavailable(
                    f"The Dask cluster at {self.address} failed ({type(error).__name__})."
                ) from None
            finally:
                if client.status == "running":
                    client.cancel(futures, force=True)

    def _await(
        self, client: Client, futures: Sequence[Future], far: dict[int, tuple[int, int]]
    ) -> None:
        """Return once all is done or a part failed; raise where it is stopped, or the cluster dies."""
        looked = seen = time.monotonic()
        while not (
            any(future.status == "error" for future in futures)
            or all(future.done() for future in futures)
        ):
            checkpoint()
            done, of = (sum(counts) for counts in zip((0, 0), *far.values(), strict=True))
            progressed(f"Working on {len(futures)} parts at {self.address}", done, of)
            time.sleep(_POLL_S)

            now = time.monotonic()
            if client.status != "running":
                raise Unavailable(f"The Dask scheduler at {self.address} went away.")
            if now - looked < _LOOK_S:
                continue
            looked, seen = now, now if client.nthreads() else seen
            if now - seen > _DESERTED_S:
                raise Unavailable(f"No worker is left at {self.address}.")

    @contextmanager
    def _connected(self) -> Iterator[Client]:
        try:
            client = Client(self.address, timeout=self._connect_s, set_as_default=False)
        except (OSError, TimeoutError, ValueError):
            raise Unavailable(f"The Dask scheduler at {self.address} cannot be reached.") from None
        try:
            yield client
        finally:
            client.close(timeout=_CLOSE_S)

    def _workers(self, client: Client) -> Mapping[str, int]:
        """Return the bytes that each may hold, 0 for any, by address; raise where one is no use."""
        workers = client.scheduler_info(n_workers=-1)["workers"]
        if not workers:
            raise Unavailable(f"The Dask scheduler at {self.address} has no worker.")
        build = self._build()
        for worker, answer in client.run(self._build, on_error="return").items():
            if answer != build:
                runs = f"runs {answer}"
                if not isinstance(answer, str):
                    runs = f"has no trnbot that answers ({type(answer).__name__})"
                raise Unavailable(
                    f"The Dask worker {worker} {runs}, not {build} as this process:"
                    " install the same version on both."
                )
        return {address: int(x["memory_limit"] or 0) for address, x in workers.items()}

    def _refuse_large(self, size: int, limits: Collection[int]) -> None:
        """Raise `Unavailable` where no worker has room for so many bytes."""
        if all(0 < limit < _COPIES * size for limit in limits):
            raise Unavailable(
                f"The work needs about {_COPIES * size / _GIB:.1f} GiB of a worker's memory; the"
                f" largest at {self.address} has {max(limits) / _GIB:.1f}."
            )


def _received(arrays: Sequence[Any]) -> Sequence[Any]:
    """Hold the arrays on a worker, from which the others have them."""
    return arrays


def _done(
    do: Callable[[Sequence[Any], Any], R], sent: Sequence[Any], part: Any, whose: tuple[str, int]
) -> R:
    """Do one part on a worker: say how far it is, and stop once nobody waits."""
    worker, (topic, number), noted = get_worker(), whose, 0.0
    task = worker.get_current_task()

    def note(_: str, done: int, of: int) -> None:
        nonlocal noted
        if time.monotonic() - noted < _NOTE_S:
            return
        noted = time.monotonic()
        state = worker.state.tasks.get(task)
        if state is None or state.state == "cancelled":
            raise OutOfTime("Nobody waits for this part any more.")
        worker.log_event(topic, (number, (done, of)))

    with noting_progress(note):
        return do(sent, part)
