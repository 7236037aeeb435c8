"""Replay on a real Dask cluster: to the bit as here, though a worker is killed, and never by half."""

from __future__ import annotations

import logging
import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from threading import Event, Lock
from typing import Any

import numpy as np
import pytest

from bot.answers.cost.goodput import goodput_within
from bot.errors import OutOfTime, Unavailable, WrongInput
from bot.model.labels import Labels
from bot.model.notification import ReplayResult, ReplaySpan
from bot.model.window import WEEK, Window
from bot.policy.file import applied
from bot.ports import Ports
from bot.ports.work import PROGRESS, Lane, Work, progressed, within
from bot.settings.settings import read_settings
from bot.watch.preview import anywhere, replayed, side_by_side
from bot.watch.tick import grid
from bot.wiring.checks import examine
from bot.wiring.environment import build_name
from bot.wiring.kept import packed, unpacked
from bot.wiring.source import OpenedSource, SourceReplays, memory_stores
from bot.wiring.workers import (
    PAYS,
    Answers,
    DaskWorkers,
    Side,
    Threshold,
    replay_side,
)
from tests.builders import with_parts
from tests.dask_cluster import Processes, cluster
from tests.e2e.product import recording

pytest.importorskip("distributed", reason="the extra of Dask is not installed")

from adapters.dask import DaskCluster

NOWHERE = "tcp://127.0.0.1:1"
ANY_SIZE = dict.fromkeys(PAYS, Threshold(0, 0))


@pytest.fixture(scope="module")
def opened() -> OpenedSource:
    settings = read_settings({"TRNBOT_SOURCE": f"recording:{recording('tiny')}"})
    return OpenedSource(settings.source, settings)


@pytest.fixture(scope="module")
def running() -> Iterator[Processes]:
    with cluster(3) as processes:
        yield processes


def sides_of(opened: OpenedSource) -> list[Ports]:
    """Return the usual policy, and one that finds something else."""
    settings = read_settings({})
    other = applied(settings.policy, [(Labels(), "idle.for", "3h")])
    return list(SourceReplays(settings, opened).again([settings.policy, other]))


def span_of(opened: OpenedSource) -> ReplaySpan:
    extent = opened.recording().extent()
    times = grid(extent.start, extent.end, read_settings({})["interval"])
    return ReplaySpan(extent, times, ("default",))


def dying_once(sent: Sequence[Any], part: tuple[Path, int, Side]) -> ReplayResult:
    """Replay, and kill a process at the twentieth tick, of all workers once."""
    marker, process, side = part
    noted = PROGRESS.get()

    def note(what: str, done: int, of: int) -> None:
        if done == 20 and not marker.exists():
            marker.touch()
            os.kill(process or os.getpid(), signal.SIGKILL)
        assert noted
        noted(what, done, of)

    before = PROGRESS.set(note)
    try:
        return replay_side(sent, side)
    finally:
        PROGRESS.reset(before)


def endless(_: Sequence[Any], part: int) -> None:
    """Work until nobody waits."""
    while True:
        progressed(f"part {part}", 1, 1)
        time.sleep(0.01)


def endless_but_the_first(sent: Sequence[Any], part: int) -> None:
    """Fail in the first part, and work on in all others."""
    (endless if part else refused)(sent, part)


def process_of(_: Sequence[Any], part: int) -> int:
    return part


def another_build() -> str:
    """Return another name in each process."""
    return f"9.9+{os.getpid()}"


class Dying:
    """Send what kills a process amid it, in place of the replay alone."""

    def __init__(self, address: str, marker: Path, process: int) -> None:
        self._cluster, self._marker, self._process = (
            DaskCluster(address, build_name),
            marker,
            process,
        )

    def each(self, _: object, sent: Sequence[memoryview], parts: Sequence[Side]) -> Any:
        dying = [(self._marker, self._process, part) for part in parts]
        return self._cluster.each(dying_once, sent, dying)


def test_a_preview_on_two_workers_is_the_one_of_this_process(opened, running) -> None:
    far = DaskWorkers(DaskCluster(running.address, build_name), opened.parcel, ANY_SIZE)
    steps: list[tuple[int, int]] = []
    token = PROGRESS.set(lambda _, done, of: steps.append((done, of)))
    try:
        there = far.replays(sides_of(opened), span_of(opened))
    finally:
        PROGRESS.reset(token)

    here = side_by_side(sides_of(opened), span_of(opened))
    assert there == here
    assert here[0] != here[1], "the policies find the same, so nothing was compared"
    assert here[0].alerts
    assert steps


def test_a_worker_killed_amid_it_changes_nothing(opened, running, tmp_path) -> None:
    dying: Any = Dying(running.address, tmp_path / "killed", 0)
    there = DaskWorkers(dying, opened.parcel, ANY_SIZE).replays(sides_of(opened), span_of(opened))
    assert (tmp_path / "killed").exists()
    assert there == side_by_side(sides_of(opened), span_of(opened))


@pytest.mark.slow
def test_a_scheduler_that_dies_amid_it_is_told_once_and_the_work_is_done_here(
    opened, tmp_path, caplog
) -> None:
    with cluster(1) as processes, caplog.at_level(logging.INFO):
        dying: Any = Dying(processes.address, tmp_path / "killed", processes.scheduler)
        far = DaskWorkers(dying, opened.parcel, ANY_SIZE)
        sides = [with_parts(side, workers=far) for side in sides_of(opened)]
        assert list(anywhere(sides, span_of(opened))) == side_by_side(
            sides_of(opened), span_of(opened)
        )
    assert (tmp_path / "killed").exists()
    (sentence,) = [x.getMessage() for x in caplog.records if x.levelno >= logging.WARNING]
    assert processes.address in sentence
    assert sentence.endswith("The work is done in this process.")


def test_a_preview_without_its_scheduler_is_worked_out_here(opened, caplog) -> None:
    far = DaskWorkers(DaskCluster(NOWHERE, build_name, 0.2), opened.parcel, ANY_SIZE)
    (side, _), span = sides_of(opened), span_of(opened)
    ports = with_parts(side, workers=far, replays=Sides(far, opened))
    (there,) = replayed(ports, [side.site.base], span.window.end)
    assert there.alerts == side_by_side([sides_of(opened)[0]], span)[0].alerts
    (sentence,) = [x.getMessage() for x in caplog.records]
    assert sentence == (
        f"The Dask scheduler at {NOWHERE} cannot be reached. The work is done in this process."
    )


class Sides(SourceReplays):
    """Have every side ask a cluster."""

    def __init__(self, far: DaskWorkers, opened: OpenedSource) -> None:
        super().__init__(read_settings({}), opened)
        self._far = far

    def again(self, policies: Any) -> Any:
        return [with_parts(side, workers=self._far) for side in super().again(policies)]


@pytest.mark.parametrize("by", [("cluster",), ("job", "team")])
def test_goodput_by_days_on_workers_is_the_one_of_this_process(opened, running, by) -> None:
    far = DaskWorkers(DaskCluster(running.address, build_name), opened.parcel, ANY_SIZE)
    there, here = (
        goodput_within(ports, ports.world.source.read(end), Window(end - WEEK, end), by)
        for side in sides_of(opened)[:1]
        for ports in (with_parts(side, workers=far), side)
        for end in [opened.recording().extent().end]
    )
    assert there == here
    assert repr(there.total) == repr(here.total)
    assert here.total.usd


def test_what_is_small_never_goes(opened, caplog) -> None:
    far = DaskWorkers(DaskCluster(NOWHERE, build_name, 0.2), opened.parcel)
    assert far.replays(sides_of(opened), span_of(opened)) is None
    assert far.each("goodput", 20, process_of, list) is None
    assert not caplog.records


def test_workers_of_another_version_are_refused(running) -> None:
    with pytest.raises(Unavailable, match=r"worker tcp://\S+ runs 9.9\+\d+, not 9.9\+\d+"):
        DaskCluster(running.address, another_build).check()


def test_what_no_worker_has_room_for_is_refused() -> None:
    refuse = DaskCluster(NOWHERE, build_name, 0.2)._refuse_large
    refuse(1 << 30, [1 << 30, 0])
    refuse(1 << 30, [4 << 30, 1 << 30])
    with pytest.raises(Unavailable, match=r"about 3\.0 GiB of a worker's memory; the largest"):
        refuse(1 << 30, [2 << 30, 1 << 30])


def test_a_line_that_is_stopped_frees_the_workers(running) -> None:
    ours, begun = Work(10), Event()
    at = DaskCluster(running.address, build_name)
    workers = int(at.check().split()[0])

    def asked() -> list[None]:
        PROGRESS.set(lambda _, done, of: done == workers and begun.set())
        with within(Lane.HEAVY, ours):
            return at.each(endless, [], range(workers))

    with ThreadPoolExecutor(1) as beside:
        asking = beside.submit(copy_context().run, asked)
        assert begun.wait(60), "not every worker is at it"
        ours.stop("That is enough.")
        with pytest.raises(OutOfTime, match="That is enough"):
            asking.result()
    assert at.each(process_of, [], [1, 2, 3]) == [1, 2, 3]


def test_an_error_of_the_work_itself_is_its_sentence(running) -> None:
    with pytest.raises(WrongInput, match="A share is at most"):
        DaskCluster(running.address, build_name).each(refused, [], [1])


def test_an_error_of_a_part_waits_for_no_other_part(running) -> None:
    at = DaskCluster(running.address, build_name)
    with pytest.raises(WrongInput, match="A share is at most"):
        at.each(endless_but_the_first, [], range(int(at.check().split()[0])))


def test_what_cannot_be_sent_may_still_be_done_here(running) -> None:
    with pytest.raises(Unavailable, match=r"failed \(TypeError\)"):
        DaskCluster(running.address, build_name).each(process_of, [], [Bill().rates, Lock()])


def refused(*_: object) -> None:
    raise WrongInput("A share is at most 100 %.")


def test_a_parcel_is_read_as_it_was_packed_and_holds_each_array_once(opened) -> None:
    whole = np.arange(1 << 16, dtype=np.float32).reshape(256, 256)
    views = [whole[:, :n].T for n in range(1, 200)]
    sent = packed(views)
    assert sum(view.nbytes for view in sent) < 2 * whole.nbytes
    for there, here in zip(unpacked(sent), views, strict=True):
        np.testing.assert_array_equal(there, here)

    span, (side, _) = span_of(opened), sides_of(opened)
    parcel = packed(opened.parcel(span))
    part = Side(side.site.base, side.site.current_routes(), memory_stores().alerts)
    assert replay_side(parcel, part) == side_by_side([side], span)[0]


class Bill:
    """Has one answer, and one failure."""

    def rates(self, day: int) -> str:
        if day == 2:
            raise Unavailable("The bill is away.")
        return f"rates of {day}"


def test_answers_fail_as_the_port_did() -> None:
    answers: Any = Answers(Bill(), [("rates", 1), ("rates", 2)])
    answers = unpacked(packed(answers))
    assert answers.rates(1) == "rates of 1"
    with pytest.raises(Unavailable, match="The bill is away"):
        answers.rates(2)


def test_doctor_says_how_the_cluster_is(running) -> None:
    def said(address: str) -> list[tuple[bool, str]]:
        values = {"TRNBOT_SOURCE": f"recording:{recording('tiny')}", "TRNBOT_DASK": address}
        settings = read_settings(values)
        found = examine(settings, OpenedSource(settings.source, settings))
        return [(x.ok, x.found) for x in found if x.name == "Dask"]

    assert said("") == []
    ((well, count),) = said(running.address)
    assert well
    assert re.fullmatch(rf"[23] workers of this version at {running.address}", count)
    assert said(NOWHERE) == [(False, f"The Dask scheduler at {NOWHERE} cannot be reached.")]


@pytest.mark.parametrize("address", ["127.0.0.1:8786", "http://x:8786", "tcp://x", "tcp://u@x:1"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(WrongInput, match="is not the address of a Dask scheduler"):
        read_settings({"TRNBOT_DASK": address})
