"""Share the watch out over processes, kill one and freeze another: alerts and messages are those of one process."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import create_engine, text

from adapters.simulator import generate
from adapters.simulator.scenario import scenario_named
from adapters.store.open import open_store, read_address
from bot.model.anomaly import Anomaly
from bot.model.causes import Cause
from bot.model.frame import Frame, FramePart
from bot.model.labels import Labels
from bot.model.notification import Known, ReplayResult
from bot.model.reading import Report, Shares
from bot.model.window import EVER
from bot.ports import REPORTS, SHARES, Stores
from bot.settings.settings import read_settings
from bot.watch.preview import replay
from bot.watch.tick import Watch, grid, home, share_out
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource, memory_stores
from tests.builders import anomaly
from tests.e2e.product import Product, recording
from tests.house.test_crash import slack_side, wait_for
from tests.house.test_failover import environment, keys_of, lines_to_admins, replicas

CHANNELS = ("web:alerts",)


FIVE = timedelta(minutes=5)
EXTENT = datetime(2026, 11, 17, tzinfo=UTC), datetime(2026, 11, 17, 6, tzinfo=UTC)


class Together:
    """Shares a replay out over processes that are all this one; the silent ones report never."""

    def __init__(self, opened: OpenedSource, names: Sequence[str], silent: Sequence[str] = ()):
        self.names, self.silent, self.given = names, silent, list[Shares]()
        self.stores: Stores = replace(memory_stores(), shards=self)
        self.ports = opened.ports(self.stores, settings_of({}).policy)
        self.watches = {name: Watch(self.ports, CHANNELS) for name in names[1:]}

    def processes(self) -> Sequence[str]:
        return self.names

    def reports(self, shares: Shares) -> Sequence[Report]:
        self.given.append(shares)
        reports = []
        for name in sorted({*shares.holders.values()} - {shares.lead, *self.silent}):
            self.watches[name].report(shares, name)
            report = REPORTS.get(self.stores.documents, name)
            assert report
            reports.append(report)
        return reports


def outcome(replayed: ReplayResult) -> dict[str, tuple[Any, ...]]:
    return {
        x.id: (x.key, x.opened, x.closed, x.cause, x.waste, x.muted_by, x.things, x.owner)
        for x in replayed.alerts.values()
    }


@pytest.fixture(scope="module")
def opened() -> OpenedSource:
    source = f"recording:{recording('tiny')}"
    return OpenedSource(source, settings_of({"source": source}))


def test_the_lead_has_what_is_its_own_and_another_process_the_cluster(opened: OpenedSource) -> None:
    stores = memory_stores()
    alone = replay(opened.ports(stores, settings_of({}).policy), CHANNELS)
    assert not stores.documents.newest(SHARES.collection, 1), "nobody gave anything out"
    together = Together(opened, ["z", "a"])
    shared = replay(together.ports, CHANNELS)
    assert {x.holders["tiny"] for x in together.given} == {"a"}
    assert outcome(shared) == outcome(alone) != {}
    assert [(x.id, x.reason, x.at) for x in shared.notifications] == [
        (x.id, x.reason, x.at) for x in alone.notifications
    ]


def test_a_cluster_whose_process_does_not_report_is_unknown_and_its_alert_stays_open(
    opened: OpenedSource,
) -> None:
    together = Together(opened, ["z", "a"])
    watch = Watch(together.ports, CHANNELS)
    idle = None
    for now in grid(*EXTENT, FIVE):
        result = watch.tick(now)
        together.stores.alerts.save(replace(result.changes(), ticked_at=now))
        idle = next((x for x in result.outcome.alerts if x.firing), None)
        if idle and not together.silent:
            together.silent = ("a",)
        elif idle:
            assert result.coverage.known is Known.UNKNOWN
            assert "The nodes of tiny were not looked at: a did not report." in str(result.coverage)
            assert watch.shares
            assert watch.shares.unseen == ("tiny",)
    assert idle, "nobody saw it end"


@pytest.mark.parametrize(
    ("nodes", "processes", "before", "expected"),
    [
        ({"a": 64, "b": 16, "c": 8, "d": 6}, "xy", {}, {"a": "x", "b": "y", "c": "y", "d": "y"}),
        ({"a": 64, "b": 16}, "y", {"a": "x", "b": "y"}, {"a": "y", "b": "y"}),
        # Who comes back is given some again; who is there keeps what it has, about even as it is.
        ({"a": 9, "b": 9, "c": 9}, "xy", dict.fromkeys("abc", "x"), {"a": "y", "b": "x", "c": "x"}),
        (
            {"a": 10, "b": 9, "c": 1},
            "xy",
            {"a": "x", "b": "y", "c": "x"},
            {"a": "x", "b": "y", "c": "x"},
        ),
        ({"a": 900}, "xy", {"a": "y"}, {"a": "y"}),
        ({}, "xy", {"gone": "x"}, {}),
    ],
)
def test_clusters_stay_where_they_are_and_the_loads_are_about_even(
    nodes: dict[str, int], processes: str, before: dict[str, str], expected: dict[str, str]
) -> None:
    assert share_out(nodes, tuple(processes), before) == expected


def test_sqlite_is_refused_in_one_sentence() -> None:
    unservable = read_settings({"TRNBOT_SHARDS": "1"}, "").unservable
    assert [x.partition(":")[0] for x in unservable] == [
        "TRNBOT_SHARDS shares the watch out over several processes, which a file of SQLite is not"
        " for"
    ]


def holders(bot: Product) -> dict[str, str]:
    """Return the process id that looks at each cluster, as one process says."""
    return {x["cluster"]: x["process"].split("/")[1] for x in bot.health().get("clusters", ())}


def played(
    folder: Path, given: dict[str, str], count: int, hurt: Callable[[Sequence[Product]], object]
) -> tuple[Counter[str], dict[str, Any]]:
    """Play a recording to its end in some processes, and return what was said and what is kept."""
    with slack_side() as side:
        with replicas(folder, environment(side, "", 150) | given, count) as running:
            hurt(running)
            alive = [bot for bot in running if bot.process.poll() is None]
            wait_for(lambda: any(bot.health()["ended"] for bot in alive), 240)
        assert lines_to_admins(side) == []
        said = keys_of(side)
    store = open_store(given["TRNBOT_DATABASE_URL"])
    alerts = {x.id: (x.key, x.opened, x.closed, x.waste) for x in store.history(EVER, Labels())}
    store.close()
    return said, alerts


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record four clusters of three nodes each, in each of which two are idle for an hour."""
    tiny = scenario_named("tiny")
    (cluster,), (incident,) = tiny.clusters, tiny.incidents
    names = ("ares", "bolt", "ceres", "dione")
    scenario = replace(
        tiny,
        clusters=tuple(replace(cluster, name=name, team=name) for name in names),
        incidents=tuple(
            replace(incident, cluster=name, at=1.5 + hour) for hour, name in enumerate(names)
        ),
    )
    generate(folder := tmp_path_factory.mktemp("clusters") / "recording", 7, scenario)
    return folder


@contextmanager
def another(url: str) -> Iterator[str]:
    """Return the address of a second database of the same server."""
    address = read_address(url)
    name = f"{address.database}_one"
    engine = create_engine(address, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    yield url.replace(f"/{address.database}?", f"/{name}?", 1)


def leader_of(running: Sequence[Product]) -> Product:
    wait_for(lambda: any(x.health()["leading"] for x in running if x.process.poll() is None))
    alive = (bot for bot in running if bot.process.poll() is None)
    return next(bot for bot in alive if bot.health()["leading"])


def taken_over(lead: Product, victim: Product) -> None:
    """Wait until others have the clusters of a process; fail where that takes over two ticks."""
    lost, before = str(victim.process.pid), datetime.fromisoformat(lead.health()["ticked_at"])
    assert lost in holders(lead).values()
    wait_for(lambda: holders(lead) != {} and lost not in holders(lead).values())
    ticks = (datetime.fromisoformat(lead.health()["ticked_at"]) - before) / FIVE
    print(f"taken over {ticks:.0f} ticks after")
    assert ticks <= 2


def hurt(running: Sequence[Product]) -> None:
    """Kill one process, and freeze the two others for longer than a lease, one after the other."""
    lead = leader_of(running)
    killed, frozen = (bot for bot in running if bot is not lead)
    wait_for(lambda: len(set(holders(lead).values())) == 3)

    killed.process.send_signal(signal.SIGKILL)
    taken_over(lead, killed)
    frozen.process.send_signal(signal.SIGSTOP)
    taken_over(lead, frozen)
    frozen.process.send_signal(signal.SIGCONT)
    wait_for(lambda: len(set(holders(lead).values())) == 2)

    lead.process.send_signal(signal.SIGSTOP)
    wait_for(lambda: bool(frozen.health()["leading"]))
    taken_over(frozen, lead)
    lead.process.send_signal(signal.SIGCONT)
    wait_for(lambda: lead.health()["leading"] is False)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_and_frozen_three_processes_say_what_one_says(
    tmp_path: Path, postgres_url: str, clusters: Path
) -> None:
    given = {"TRNBOT_SOURCE": f"recording:{clusters}", "TRNBOT_DATABASE_URL": postgres_url}
    many = played(tmp_path / "many", given | {"TRNBOT_SHARDS": "1"}, 3, hurt)
    with another(postgres_url) as url:
        alone = given | {"TRNBOT_DATABASE_URL": url, "TRNBOT_SPEED": "5000"}
        one = played(tmp_path / "one", alone, 1, lambda _: None)
    assert set(many[0].values()) == {1}
    assert many == one
    assert len(many[1]) == 4


def test_a_part_of_a_frame_reads_as_its_copy_does() -> None:
    values = np.arange(5 * 8 * 2, dtype=np.float32).reshape(5, 8, 2)
    things = tuple(Labels(instance=f"i-{i}") for i in range(5))
    whole = Frame("node", things, EXTENT[0], FIVE, ("a", "b"), values)
    part, copied = FramePart(whole, [4, 1, 2]), whole.pick([4, 1, 2])
    views: Sequence[Callable[[Frame], Frame]] = (
        lambda x: x,
        lambda x: x.last(3 * FIVE),
        lambda x: x.until(EXTENT[0] + 5 * FIVE).since(EXTENT[0] + 2 * FIVE),
        lambda x: x.pick(np.array([True, False, True])).thinned(1, 3),
    )
    for view in views:
        cut, expected = view(part), view(copied)
        assert (cut.things, cut.start, cut.step, cut.end, cut.n_steps) == (
            expected.things,
            expected.start,
            expected.step,
            expected.end,
            expected.n_steps,
        )
        assert np.array_equal(cut.of("b"), expected.of("b"))
        assert np.isnan(cut.of("none")).all()
        assert np.array_equal(cut.values, expected.values)
        assert cut.origin is whole.origin, "a tick cuts anew what it has learnt from"


def test_a_share_is_looked_at_without_a_copy_of_its_history(opened: OpenedSource) -> None:
    ports = opened.ports(memory_stores(), settings_of({}).policy)
    reading = Watch(ports, CHANNELS).read(EXTENT[1])
    whole = reading.frames["node"]
    part = FramePart(whole, range(1, len(whole.things)))
    ports.world.detect(replace(reading, frames={**reading.frames, "node": part}), ports.policy, ())
    assert "values" not in vars(part)


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        (anomaly(scope=Labels(cluster="llama")), "llama"),
        (anomaly(Cause.SPEND_JUMP, scope=Labels(), labels=Labels(cluster="llama")), ""),
        (anomaly(Cause.ORPHANED_STORAGE, scope=Labels(), labels=Labels(cluster="llama")), ""),
        (anomaly(Cause.CHECKPOINT_AT_RISK, scope=Labels(cluster="llama", job="x")), "llama"),
        (anomaly(scope=Labels(region="us-west-2"), labels=Labels()), ""),
    ],
)
def test_nodes_are_at_home_in_their_cluster_and_money_is_the_fleets(
    about: Anomaly, expected: str
) -> None:
    assert home(about) == expected
