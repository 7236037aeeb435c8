"""An inefficiency planted in a fleet that works is suggested first, in dollars that DuckDB derives from the raw rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from adapters.store.memory import MemoryStore
from bot.answers.about.summary import home
from bot.answers.plan.suggestions import VERDICTS, SuggestionVerdict, Verdict, suggestions_of
from bot.app import App
from bot.cards.card import Card, Text, plain
from bot.costs.suggestions import Suggestion, SuggestionKind
from bot.grammar.access import Access
from bot.knowledge import load_knowledge
from bot.model.alert import WastedHours
from bot.model.anomaly import Detection, NodeState
from bot.model.causes import Cause
from bot.model.fleet import (
    Cluster,
    FileSystem,
    Instance,
    Inventory,
    Market,
    NodeGroup,
    Quota,
    Refusal,
    Reservation,
    Volume,
)
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.notification import StateUpdate
from bot.model.policy import Edit, Version, VersionKind
from bot.model.price import (
    AccountRates,
    Basis,
    CommitmentOffer,
    Interruption,
    Payment,
    Price,
)
from bot.model.reading import Reading
from bot.model.request import Request, User
from bot.model.run import Compile, CompileMark, Ending, Mark, Run
from bot.model.spend import Money, Spend, Tally
from bot.model.window import Window
from bot.ports import Ports
from tests.belonging import MEMBER
from tests.builders import FIVE, NOON, alert, anomaly, ports_over, waste, with_parts

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
START = NOON - 14 * DAY
STEPS = 14 * DAY // FIVE
SETTLED = datetime(2026, 11, 18, tzinfo=UTC)
TRN, REGION = "trn1.32xlarge", "us-west-2"
USD = Decimal("21.50")
MONTH = 730


@dataclass
class Fleet:
    """Hold the raw rows of a small account that works well, and answer as its world."""

    nodes: dict[str, Instance] = field(default_factory=dict)
    levels: dict[str, np.ndarray] = field(default_factory=dict)
    """Utilization by step, nan where a node is not there."""
    bill: list[dict[str, Any]] = field(default_factory=list)
    volumes: list[Volume] = field(default_factory=list)
    systems: dict[str, tuple[FileSystem, np.ndarray]] = field(default_factory=dict)
    """Each with its bytes a second by step."""
    reservations: list[Reservation] = field(default_factory=list)
    quotas: list[Quota] = field(default_factory=list)
    eks: list[Cluster] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    spot: list[tuple[datetime, str, Decimal]] = field(default_factory=list)
    """Changes of the price of spot nodes by zone."""
    offers: list[CommitmentOffer] = field(default_factory=list)
    own_rates: list[Price] = field(default_factory=list)
    listed: list[Price] = field(default_factory=list)
    """Prices beside that of its own type."""
    runs: dict[Labels, np.ndarray] = field(default_factory=dict)
    """Steps that each run has made, by step of the metrics; a step is a million tokens."""
    compiles: list[Compile] = field(default_factory=list)
    marks: list[CompileMark] = field(default_factory=list)
    store: MemoryStore = field(default_factory=MemoryStore)
    now: datetime = NOON

    def launch(
        self,
        name: str,
        cluster: str,
        at: datetime = START - 30 * DAY,
        *,
        wait: timedelta = timedelta(),
        level: float = 0.8,
        kind: str = TRN,
        **more: Any,
    ) -> None:
        """Add a node whose first reading of cores comes so long after its launch."""
        labels = Labels(
            cluster=cluster, instance=name, instance_type=kind, region=REGION, zone="us-west-2a"
        )
        zone = more.pop("zone", "us-west-2a")
        node = Instance(replace(labels, zone=zone), at, **more)
        times = START + np.arange(STEPS) * FIVE
        self.nodes[name] = node
        self.levels[name] = np.where(times >= at + wait, level, np.nan)

    def charge(self, start: datetime, hours: int, usd: str, **labels: str) -> None:
        """Bill so much for each of so many hours."""
        for n in range(hours):
            at = start + n * HOUR
            self.bill.append(
                {"at": at, "usd": Decimal(usd), "credits": Decimal(0), "service": "AmazonEC2"}
                | labels
            )

    # What follows is the world as the bot asks for it.
    def read(self, now: datetime) -> Reading:
        names = [name for name, node in self.nodes.items() if not node.labels.instance.count("/")]
        metrics = ("neuroncore_utilization_ratio",)
        steps = (now - START) // FIVE
        frames = {
            "node": Frame(
                "node",
                tuple(self.nodes[name].labels for name in names),
                START,
                FIVE,
                metrics,
                np.array([self.levels[name][:steps] for name in names], dtype=np.float32)[
                    :, :, None
                ],
            )
        }
        moved = np.array([bytes_a_second for _, bytes_a_second in self.systems.values()])
        if self.systems:
            read = moved[:, :steps] * FIVE.total_seconds()
            values = np.stack([read, np.zeros_like(read), np.full_like(read, 4)], axis=2)
            names_of = ("fsx_read_bytes", "fsx_write_bytes", "fsx_client_connections_count")
            things = tuple(system.labels for system, _ in self.systems.values())
            frames["file_system"] = Frame(
                "file_system", things, START, FIVE, names_of, values.astype(np.float32)
            )
        if self.runs:
            made = np.array(list(self.runs.values()))[:, :steps]
            names_of = ("run_step_count", "run_tokens_count")
            values = np.stack([made, made * 1e6], axis=2)
            frames["run"] = Frame("run", tuple(self.runs), START, FIVE, names_of, values)
        inventory = Inventory(
            now,
            self.nodes,
            tuple(self.volumes),
            tuple(system for system, _ in self.systems.values()),
            tuple(self.reservations),
            types=load_knowledge().types(),
            eks=tuple(self.eks),
            quotas=tuple(self.quotas),
        )
        runs = tuple(Run(labels, START, now, parameters=70e9) for labels in self.runs)
        refusals, marks = tuple(self.refusals), tuple(self.marks)
        return Reading(now, frames, inventory, runs, refusals=refusals, marks=marks)

    def tally(
        self, window: Window, by: Sequence[str], where: Sequence[Any] = (), _: int | None = None
    ) -> Tally:
        sums: dict[tuple[str, ...], Money] = defaultdict(Money)
        for row in self.bill:
            key = {name: str(row.get(name, "")) for name in row} | {
                "day": f"{row['at']:%Y-%m-%d}",
                "hour": row["at"].isoformat(),
            }
            if row["at"] in window and all(x.keeps(key) for x in where):
                paid, given = row["usd"], row["credits"]
                place = tuple(key.get(name, "") for name in by)
                sums[place] += Money(gross=paid, credits=given, net=paid + given, amortised=paid)
        rows = tuple(
            Spend(dict(zip(by, place, strict=True)), money) for place, money in sums.items()
        )
        total = sum(sums.values(), Money())
        return Tally(window, tuple(by), rows, total, billed_through=min(self.now, NOON))

    def deltas(self, now: datetime, _days: int) -> Reading:
        return Reading(now)

    def rates(self, _now: datetime) -> AccountRates:
        return AccountRates(by_type=tuple(self.own_rates))

    def quotes(self, name: str, _region: str, _now: datetime) -> list[Price]:
        of = Price(TRN, USD, Market.ON_DEMAND, Basis.LISTED, REGION, date(2026, 11, 17), "a test")
        return [x for x in (of, *self.listed) if x.instance_type == name]

    def spot_history(self, name: str, now: datetime) -> list[tuple[datetime, Price]]:
        return [
            (
                at,
                Price(name, usd, Market.SPOT, Basis.SPOT, zone[:-1], at.date(), "a test", zone),
            )
            for at, zone, usd in self.spot
            if at <= now and name == TRN
        ]

    def interruptions(self, name: str, now: datetime) -> list[Interruption]:
        return [Interruption(name, REGION, "10-15%", 0.7, now)]

    def placement(self, *_: object) -> tuple[()]:
        return ()

    def commitment_offers(self, name: str, _now: datetime) -> list[CommitmentOffer]:
        return [x for x in self.offers if x.instance_type == name]


def well_run() -> Fleet:
    """Return two clusters that work, one of them on spot in its cheapest zone; nothing is left over."""
    fleet, noise = Fleet(), np.random.default_rng(7)
    for n in range(4):
        fleet.launch(f"i-llama{n}", "llama")
    for n in range(2):
        fleet.launch(f"i-spot{n}", "batch", market=Market.SPOT)
    for name in fleet.levels:
        fleet.levels[name] += noise.normal(0, 0.03, STEPS)
    fleet.volumes = [
        Volume(Labels(resource="vol-1", region=REGION), 500, "gp3", "in-use", START, "i-llama0")
    ]
    system = FileSystem(
        Labels(resource="fs-1", region=REGION, cluster="llama"), 9600, "PERSISTENT_2", 250, START
    )
    # Its checkpoints come every four hours, and take half of what it has.
    bytes_a_second = 1e8 + 1.1e9 * (np.arange(STEPS) % 48 == 0)
    fleet.systems["fs-1"] = system, bytes_a_second * noise.uniform(0.9, 1.1, STEPS)
    fleet.quotas = [
        Quota("Trn on demand", "L-1", Labels(region=REGION), ("trn",), Market.ON_DEMAND, 1024, NOON)
    ]
    for zone, usd in (("us-west-2a", "7.00"), ("us-west-2b", "7.40"), ("us-west-2c", "9.90")):
        fleet.spot += [
            (START + n * DAY, zone, Decimal(usd) + Decimal(n % 3) / 10) for n in range(-1, 14)
        ]
    return fleet


def ports_of(fleet: Fleet) -> Ports:
    def detect(reading: Reading, *_: object) -> Detection:
        return Detection(states=dict.fromkeys(reading.inventory.instances, NodeState.BUSY))

    return ports_over(
        fleet,
        fleet.store,
        knowledge=load_knowledge(),
        detect=detect,
        compiles=lambda *_: fleet.compiles,
    )


def weighed(fleet: Fleet) -> list[Suggestion]:
    return suggestions_of(ports_of(fleet), fleet.now).open


def sql(query: str, **tables: Sequence[tuple[Any, ...]]) -> float:
    """Return the one number that a query derives from raw rows; a table's first row is its columns with types."""
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        for name, (columns, *rows) in tables.items():
            database.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
            if rows:
                kinds = [column.split()[1] for column in columns]
                lists = ", ".join(f"unnest(${n}::{kind}[])" for n, kind in enumerate(kinds, 1))
                database.execute(
                    f"INSERT INTO {name} SELECT {lists}",
                    [list(values) for values in zip(*rows, strict=True)],
                )
        (found,) = database.execute(query).fetchone() or (None,)
    assert found is not None
    return float(found)


def bill_rows(fleet: Fleet) -> list[tuple[Any, ...]]:
    return [
        ("t TIMESTAMPTZ", "resource VARCHAR", "usd DOUBLE", "credits DOUBLE"),
        *(
            (x["at"], x.get("resource", ""), float(x["usd"]), float(x["credits"]))
            for x in fleet.bill
        ),
    ]


def used_rows(fleet: Fleet) -> list[tuple[Any, ...]]:
    return [
        ("t TIMESTAMPTZ", "cluster VARCHAR", "node VARCHAR", "level DOUBLE"),
        *(
            (START + n * FIVE, fleet.nodes[name].labels.cluster, name, float(level))
            for name, levels in fleet.levels.items()
            for n, level in enumerate(levels)
            if not np.isnan(level)
        ),
    ]


def node_rows(fleet: Fleet) -> list[tuple[Any, ...]]:
    return [
        ("name VARCHAR", "cluster VARCHAR", "zone VARCHAR", "launched TIMESTAMPTZ", "kept DOUBLE"),
        *(
            (x.id, x.labels.cluster, x.labels.zone, x.launched_at, x.kept_warm / HOUR)
            for x in fleet.nodes.values()
        ),
    ]


def growing(fleet: Fleet) -> float:
    """Two nodes more in each of two weeks, and room for one."""
    for n, age in enumerate((12, 11, 5, 4)):
        fleet.launch(f"i-more{n}", "llama", NOON - age * DAY)
    fleet.quotas = [replace(fleet.quotas[0], vcpus=9 * 128)]
    return sql(
        """
        WITH n AS (SELECT
            count(*) FILTER (launched <= TIMESTAMPTZ '2026-11-06 12:00Z') AS a,
            count(*) FILTER (launched <= TIMESTAMPTZ '2026-11-13 12:00Z') AS b,
            count(*) AS c FROM node WHERE cluster = 'llama')
        SELECT (floor((c - a) / 2.0 * 30 / 7) - floor((9 * 128 - c * 128) / 128)) * 21.5 * 730
        FROM n WHERE b > a AND c > b
        """,
        node=node_rows(fleet),
    )


def planned(fleet: Fleet) -> float:
    """A node group that is to have twelve nodes, of which four run, and room for four more."""
    group = NodeGroup("trn", "ACTIVE", "1.33", (TRN,), 12)
    labels = Labels(cluster="llama", region=REGION)
    fleet.eks = [Cluster(labels, "1.33", "ACTIVE", START, node_groups=(group,))]
    return sql(
        "SELECT ((12 - count(*)) - floor((1024 - count(*) * 128) / 128)) * 21.5 * 730"
        " FROM node WHERE cluster = 'llama'",
        node=node_rows(fleet),
    )


def refused(fleet: Fleet) -> float:
    """Two nodes stand idle while the third of their job is refused in one zone, and had in another."""
    for n in range(2):
        fleet.launch(f"i-gang{n}", "gang", START - 30 * DAY)
        fleet.levels[f"i-gang{n}"][1000:1200] = 0.0
    asked = START + 1003 * FIVE
    place = Labels(instance_type=TRN, region=REGION, zone="us-west-2b")
    fleet.refusals = [Refusal(f"r{n}", asked + n * 97 * MINUTE, place) for n in range(5)]
    fleet.launch("i-gang2", "gang", asked + 9 * HOUR, zone="us-west-2c")
    return sql(
        """
        SELECT count(*) / 12.0 * 21.5 / (14 * 24) * 730 FROM used WHERE level <= 0.05 AND EXISTS (
            SELECT 1 FROM refusal r WHERE used.t >= r.t AND used.t < (
                SELECT min(launched) FROM node WHERE launched > r.t))
        """,
        used=used_rows(fleet),
        node=node_rows(fleet),
        refusal=[("t TIMESTAMPTZ",), *((x.at,) for x in fleet.refusals)],
    )


def ending_credits(fleet: Fleet) -> float:
    """Credits pay forty dollars of each day, and those that an admin set two weeks ago are nearly gone."""
    for n in range(20):
        at = SETTLED - n * DAY - DAY + HOUR
        row = {
            "at": at,
            "usd": Decimal(60),
            "credits": Decimal(-40 - n % 3),
            "service": "AmazonEC2",
        }
        fleet.bill.append(row)
    change = Version(
        1,
        NOON - 14 * DAY,
        "u",
        "dana",
        VersionKind.SET,
        (Edit(Labels(), "advice.credits_usd", "$0", "$900"),),
        ((Labels(), "advice.credits_usd", "$900"),),
    )
    fleet.store.add(change)
    return sql(
        "SELECT -sum(credits) / 14 * 730 / 24 FROM bill"
        " WHERE t >= TIMESTAMPTZ '2026-11-04 00:00Z' AND t < TIMESTAMPTZ '2026-11-18 00:00Z'",
        bill=bill_rows(fleet),
    )


def dear_pool(fleet: Fleet) -> float:
    """The spot nodes stand in the dearest zone of their region, and the cheapest refuses requests."""
    for n in range(2):
        fleet.launch(f"i-spot{n}", "batch", market=Market.SPOT, zone="us-west-2c")
    place = Labels(instance_type=TRN, region=REGION, zone="us-west-2a")
    fleet.refusals = [Refusal("r1", NOON - DAY, place, spot=True)]
    return sql(
        """
        WITH s AS (SELECT zone, usd, greatest(t, TIMESTAMPTZ '2026-11-06 12:00Z') AS since,
            lead(t, 1, TIMESTAMPTZ '2026-11-20 12:00Z') OVER (PARTITION BY zone ORDER BY t) AS until
            FROM price),
        m AS (SELECT zone, sum(usd * epoch(until - since)) / sum(epoch(until - since)) AS usd
            FROM s WHERE until > since GROUP BY zone)
        SELECT (max(usd) FILTER (zone = 'us-west-2c') - max(usd) FILTER (zone = 'us-west-2b'))
            * 2 * 730 * (1 + 2 * 0.15 / 730 * 0.75) FROM m
        """,
        price=[
            ("t TIMESTAMPTZ", "zone VARCHAR", "usd DOUBLE"),
            *((at, zone, float(usd)) for at, zone, usd in fleet.spot),
        ],
    )


def slow_starts(fleet: Fleet) -> float:
    """Fifteen nodes that come and go take half an hour from launch to their first reading."""
    for n in range(15):
        at = START + n * 20 * HOUR + 3 * HOUR
        fleet.launch(f"i-auto{n}", "auto", at, wait=timedelta(minutes=10 if n == 4 else 35))
        gone = at + 12 * HOUR
        fleet.nodes[f"i-auto{n}"] = replace(
            fleet.nodes[f"i-auto{n}"], state="terminated", ended_at=gone
        )
        fleet.levels[f"i-auto{n}"][(gone - START) // FIVE :] = np.nan
    return sql(
        """
        WITH w AS (SELECT epoch(min(used.t) - any_value(launched)) / 3600 AS hours
            FROM used JOIN node ON node = name WHERE node.cluster = 'auto' GROUP BY name)
        SELECT sum(hours - (SELECT min(hours) FROM w)) * 21.5 / (14 * 24) * 730 FROM w
        """,
        used=used_rows(fleet),
        node=node_rows(fleet),
    )


def kept_warm(fleet: Fleet) -> float:
    """Two training jobs ended, and their nodes were kept for hours without being reused."""
    for n, hours in enumerate((9, 4)):
        name = f"tune-{n}/algo-1"
        labels = Labels(
            cluster=f"tune-{n}", job=f"tune-{n}", instance=name, instance_type=TRN, region=REGION
        )
        fleet.nodes[name] = Instance(
            labels, NOON - 5 * DAY, "terminated", ended_at=NOON - 4 * DAY, kept_warm=hours * HOUR
        )
    return sql("SELECT sum(kept) * 21.5 / (14 * 24) * 730 FROM node", node=node_rows(fleet))


NOTEBOOK = "arn:aws:sagemaker:us-west-2:111122223333:notebook-instance/trial"


def sleepless_notebook(fleet: Fleet) -> float:
    """A notebook is billed in each hour of two weeks; another one by day alone."""
    fleet.charge(SETTLED - 14 * DAY, 336, "1.34", service="AmazonSageMaker", resource=NOTEBOOK)
    for n in range(14):
        fleet.charge(
            SETTLED - n * DAY - 15 * HOUR, 9, "28.00", service="AmazonSageMaker",
            resource=NOTEBOOK + "-by-day",
        )  # fmt: skip
    return sql(
        f"""
        SELECT sum(usd) / (14 * 24) * 730 * (168 - 50) / 168 FROM bill WHERE resource = (
            SELECT resource FROM bill WHERE resource LIKE '%{NOTEBOOK[-20:]}%'
            GROUP BY resource HAVING count(DISTINCT t) >= 0.95 * 336)
        """,
        bill=bill_rows(fleet),
    )


def idle_throughput(fleet: Fleet) -> float:
    """A file system of 48 TiB whose busiest step needs a twentieth of what it has."""
    system, moved = fleet.systems["fs-1"]
    fleet.systems["fs-1"] = replace(system, storage_gib=48_000), moved / 2
    return sql("SELECT 48000 * (0.21 - 0.145)")


def starving(fleet: Fleet) -> float:
    """A file system is at its limit for half of the time, in which its nodes starve."""
    system, _ = fleet.systems["fs-1"]
    limit = 9600 / 1000 * 125 * 1e6
    moved = np.where(np.arange(STEPS) % 100 < 50, limit * 0.97, limit * 0.3)
    fleet.systems["fs-1"] = replace(system, throughput_mbps_per_tib=125), moved
    for n in range(4):
        fleet.charge(
            START, 14 * 24, "21.50", resource=f"i-llama{n}", instance_type=TRN, cluster="llama",
            usage_type=f"BoxUsage:{TRN}", line=TRN, purchase="on-demand",
        )  # fmt: skip
    window = Window(NOON - 8 * DAY, NOON - 4 * DAY)
    for n in range(4):
        fleet.levels[f"i-llama{n}"][5 * 288 : 11 * 288] = 0.9
        fleet.levels[f"i-llama{n}"][6 * 288 : 10 * 288] = 0.54
    found = anomaly(
        Cause.STARVED, things=tuple(f"i-llama{n}" for n in range(4)), window=window,
        wasted_shares=(0.4,) * 4,
    )  # fmt: skip
    hours = (WastedHours(USD, Decimal("153.6"), Decimal("1.6")),)
    ended = alert(
        found,
        opened=window.start,
        seen=window.end,
        closed=window.end,
        waste=replace(waste(), hours=hours),
    )
    fleet.store.save(StateUpdate(alerts=[ended]))
    return sql(
        """
        SELECT sum(1 - level / 0.9) / 12 * 21.5 * (1 - 125 / 250) / (14 * 24) * 730
            - 9600 * (0.21 - 0.145)
        FROM used WHERE cluster = 'llama'
            AND t >= TIMESTAMPTZ '2026-11-12 12:00Z' AND t < TIMESTAMPTZ '2026-11-16 12:00Z'
        """,
        used=used_rows(fleet),
    )


def left_over(fleet: Fleet) -> float:
    """A volume of gp3 that nothing is attached to."""
    labels = Labels(resource="vol-2", region=REGION)
    fleet.volumes.append(Volume(labels, 4000, "gp3", "available", START, detached_at=START))
    return sql("SELECT 4000 * 0.08")


def old_volumes(fleet: Fleet) -> float:
    """Volumes of an older kind."""
    labels = Labels(resource="vol-3", region=REGION)
    fleet.volumes.append(Volume(labels, 9000, "gp2", "in-use", START, "i-llama1"))
    return sql("SELECT 9000 * (0.10 - 0.08)")


def empty_places(fleet: Fleet) -> float:
    """A reservation stands empty beside nodes on demand of its type and zone."""
    labels = Labels(resource="cr-1", instance_type=TRN, region=REGION, zone="us-west-2a")
    fleet.reservations.append(Reservation(labels, 2, 2, START, None))
    return sql("SELECT 2 * 21.5 * 730")


def office_hours(fleet: Fleet) -> float:
    """A cluster on demand works for nine hours of each day."""
    fleet.launch("i-dev", "dev")
    hour = (np.arange(STEPS) // 12 + START.hour) % 24
    fleet.levels["i-dev"] = np.where((hour >= 9) & (hour < 18), 0.7, 0.0)
    return sql(
        """
        WITH slot AS (SELECT (isodow(t) * 24 + hour(t)) AS slot, max(level) AS level
            FROM used WHERE cluster = 'dev' GROUP BY 1)
        SELECT count(*) / 12.0 * 21.5 / (14 * 24) * 730 FROM used
        JOIN slot ON slot = isodow(t) * 24 + hour(t)
        WHERE cluster = 'dev' AND slot.level <= 0.05
        """,
        used=used_rows(fleet),
    )


def snapshots(fleet: Fleet) -> float:
    """Snapshots whose every week costs more."""
    for week in range(5):
        fleet.charge(
            SETTLED - (5 - week) * 7 * DAY, 7 * 24, f"{1 + week * 0.25}",
            usage_type="USW2-EBS:SnapshotUsage",
        )  # fmt: skip
    return sql(
        """
        WITH w AS (SELECT floor(epoch(TIMESTAMPTZ '2026-11-18 00:00Z' - t) / 604800.000001) AS age,
            sum(usd) AS usd FROM bill GROUP BY 1)
        SELECT (max(usd) FILTER (age = 0) - max(usd) FILTER (age = 4)) / 168 * 730 FROM w
        """,
        bill=bill_rows(fleet),
    )


def lapsing(fleet: Fleet) -> float:
    """A Savings Plan that covers the nodes ends within the month."""
    fleet.own_rates = [
        Price(
            TRN, Decimal("13.70"), Market.SAVINGS_PLAN, Basis.BILLED, REGION, NOON.date(), "the bill",
            hours=4 * 7 * 24, lapses=NOON.date() + timedelta(days=12),
        )
    ]  # fmt: skip
    return sql("SELECT 4 * (21.5 - 13.7) * 730")


def uncommitted(fleet: Fleet) -> float:
    """Four nodes ran on demand for weeks, and a plan of a year costs less."""
    fleet.offers = [
        CommitmentOffer(
            TRN, REGION, "Compute Savings Plan", 1, Payment.NONE, Decimal("13.70"), Decimal(0),
            date(2026, 11, 1), "AWS Price List",
        )
    ]  # fmt: skip
    fleet.charge(
        SETTLED - 20 * DAY, 20 * 24, "86.00", instance_type=TRN, region=REGION,
        purchase="on-demand",
    )  # fmt: skip
    return sql(
        "SELECT (sum(usd) - count(*) * 4 * 13.7) / count(*) * 730 FROM bill", bill=bill_rows(fleet)
    )


LLAMA = Labels(cluster="llama", job="llama-70b")


def cold_compiles(fleet: Fleet) -> float:
    """Four nodes compile one graph at each of three starts: the first was needed."""
    for start in (2, 5, 9):
        window = Window(NOON - start * DAY, NOON - start * DAY + start * 10 * MINUTE)
        for n in range(4):
            fleet.compiles.append(Compile(f"i-llama{n}", LLAMA, window, Ending.USED))
            fleet.marks.append(
                CompileMark(window.start, f"i-llama{n}", Mark.BEGUN, "MODULE_1+flags")
            )
            part = slice((window.start - START) // FIVE, (window.end - START) // FIVE)
            fleet.levels[f"i-llama{n}"][part] = 0.0
    rows = [(x.instance, x.window.start, x.window.end) for x in fleet.compiles]
    return sql(
        """
        SELECT sum(epoch(ended) - epoch(began)) / 3600 * 21.5 / (14 * 24) * 730 FROM compile
        WHERE began > (SELECT min(began) FROM compile)
        """,
        compile=[("node VARCHAR", "began TIMESTAMPTZ", "ended TIMESTAMPTZ"), *rows],
    )


def rare_checkpoints(fleet: Fleet) -> float:
    """A checkpoint of ten minutes is saved each day, and a fault throws away half a day three times."""
    pace = np.full(STEPS, 10.0)
    pace[np.arange(STEPS) % 288 < 2] = 0.0
    made = np.cumsum(pace)
    for fault in (3, 7, 11):
        at = fault * 288 + 144
        made[at:] -= made[at - 1] - made[fault * 288 + 1]
    fleet.runs[LLAMA] = made
    for n in range(4):
        fleet.charge(
            START, 14 * 24, "21.50", resource=f"i-llama{n}", instance_type=TRN, cluster="llama",
            usage_type=f"BoxUsage:{TRN}", line=TRN, purchase="on-demand",
        )  # fmt: skip
    return sql(
        """
        WITH fall AS (SELECT c.n, c.made FROM count c JOIN count b ON b.n = c.n - 1
            WHERE c.made < b.made),
        lost AS (SELECT n FROM count c WHERE EXISTS (SELECT 1 FROM fall
            WHERE c.n < fall.n AND c.made > fall.made AND c.n > fall.n - 288)),
        paused AS (SELECT c.n FROM count c JOIN count b ON b.n = c.n - 1
            WHERE c.made = b.made AND c.n NOT IN (SELECT n FROM lost)),
        cost AS (SELECT (SELECT count(*) FROM lost) / 12.0 * 4 * 21.5 AS lost,
            (SELECT count(*) FROM paused) / 12.0 * 4 * 21.5 AS saving)
        SELECT (lost + saving - 2 * sqrt(lost * saving)) / (14 * 24) * 730 FROM cost
        """,
        count=[("n BIGINT", "made DOUBLE"), *((n, float(x)) for n, x in enumerate(made))],
    )


def slower_chips(fleet: Fleet) -> float:
    """Two runs of a model of one size: four GPU nodes do less an hour than four nodes that cost less."""
    kinds = {"gpus": ("p5.48xlarge", "55.04", 40), "frontier": ("trn2.48xlarge", "40.00", 70)}
    for cluster, (kind, usd, million_tokens) in kinds.items():
        for n in range(4):
            fleet.launch(f"i-{cluster}{n}", cluster, level=0.9, kind=kind)
        fleet.listed.append(
            Price(kind, Decimal(usd), Market.ON_DEMAND, Basis.BILLED, REGION, NOON.date(), "a test")
        )
        labels = Labels(cluster=cluster, job=f"on-{cluster}")
        fleet.runs[labels] = np.arange(STEPS) * 4 * million_tokens / 12
    rows = [(name, float(usd), float(pace)) for name, (_, usd, pace) in kinds.items()]
    return sql(
        """
        SELECT 4 * 730 * (a.usd - b.usd * a.pace / b.pace) FROM cluster a, cluster b
        WHERE a.name = 'gpus' AND b.name = 'frontier'
        """,
        cluster=[("name VARCHAR", "usd DOUBLE", "pace DOUBLE"), *rows],
    )


K = SuggestionKind
PLANTED: Sequence[tuple[SuggestionKind, Callable[[Fleet], float]]] = (
    (K.QUOTA, growing),
    (K.QUOTA, planned),
    (K.ELSEWHERE, refused),
    (K.CREDITS, ending_credits),
    (K.POOL, dear_pool),
    (K.WARM_POOL, slow_starts),
    (K.KEPT_WARM, kept_warm),
    (K.NOTEBOOK, sleepless_notebook),
    (K.LESS_THROUGHPUT, idle_throughput),
    (K.MORE_THROUGHPUT, starving),
    (K.STORAGE, left_over),
    (K.VOLUMES, old_volumes),
    (K.RESERVED, empty_places),
    (K.SCHEDULE, office_hours),
    (K.GROWTH, snapshots),
    (K.RENEWAL, lapsing),
    (K.COMMITMENT, uncommitted),
    (K.CACHE, cold_compiles),
    (K.CHECKPOINTS, rare_checkpoints),
    (K.MOVE, slower_chips),
)


@pytest.mark.parametrize(("kind", "plant"), PLANTED, ids=[plant.__name__ for _, plant in PLANTED])
def test_what_is_planted_is_suggested_first_in_its_dollars(
    kind: SuggestionKind, plant: Callable[[Fleet], float]
) -> None:
    fleet = well_run()
    derived = plant(fleet)
    first, *others = weighed(fleet)
    assert (first.kind, others) == (kind, [])
    assert float(first.usd_per_month) == pytest.approx(derived, abs=0.02)
    assert first.low_usd <= first.usd_per_month <= first.high_usd
    assert first.steps
    assert first.holds_if


def test_of_several_the_dearest_is_suggested_first() -> None:
    fleet = well_run()
    planted = (left_over, old_volumes, empty_places, office_hours)
    derived = {kind: plant(fleet) for kind, plant in PLANTED if plant in planted}
    dearest_first = sorted(derived, key=lambda kind: -derived[kind])
    assert [x.kind for x in weighed(fleet)] == dearest_first


def test_each_kind_is_planted() -> None:
    assert {kind for kind, _ in PLANTED} == set(K)


def test_each_kind_has_its_row_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "money.md").read_text(encoding="utf-8")
    section = page.partition("## Suggestions")[2].partition("\n## ")[0]
    rows = {line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")}
    assert rows - {"suggestion"} == {kind.value for kind in K}


def test_a_fleet_that_works_gets_no_suggestion_in_ten_days() -> None:
    fleet = well_run()
    # What is bought, billed and kept goes on as it was; a notebook is stopped each night.
    for n in range(20):
        fleet.charge(
            SETTLED - n * DAY, 9, "3.00", service="AmazonSageMaker", resource=NOTEBOOK
        )  # fmt: skip
        fleet.charge(SETTLED - n * DAY, 24, "86.00", instance_type=TRN, region=REGION)
    # A run compiled once, saves every four hours, and lost half an hour to a fault.
    first = Window(START + DAY, START + DAY + HOUR)
    fleet.compiles = [Compile(f"i-llama{n}", LLAMA, first, Ending.USED) for n in range(4)]
    made = np.cumsum(np.where(np.arange(STEPS) % 48 == 0, 0.0, 10.0))
    made[2000:] -= made[1999] - made[1993]
    fleet.runs[LLAMA] = made
    for day in range(10):
        fleet.now = NOON - day * DAY
        assert weighed(fleet) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda fleet: fleet.quotas.append(replace(fleet.quotas.pop(), vcpus=16 * 128)),
        lambda fleet: fleet.nodes.pop("i-more3"),
    ],
    ids=["a quota with room", "growth in one week alone"],
)
def test_growth_that_fits_or_does_not_last_needs_no_room(change: Callable[[Fleet], Any]) -> None:
    fleet = well_run()
    growing(fleet)
    assert [x.kind for x in weighed(fleet)] == [K.QUOTA]
    change(fleet)
    for name in ("i-more2",) if "i-more3" not in fleet.nodes else ():
        del fleet.nodes[name]
    fleet.levels = {name: fleet.levels[name] for name in fleet.nodes}
    assert weighed(fleet) == []


def test_nodes_beyond_what_their_groups_want_make_no_room_for_another_cluster() -> None:
    fleet = well_run()
    planned(fleet)
    for n in range(2):
        fleet.launch(f"i-more{n}", "other")
    group = NodeGroup("trn", "ACTIVE", "1.33", (TRN,), 0)
    labels = Labels(cluster="other", region=REGION)
    fleet.eks.append(Cluster(labels, "1.33", "ACTIVE", START, node_groups=(group,)))
    (found,) = weighed(fleet)
    assert found.usd_per_month == (8 - 2) * USD * MONTH


@pytest.mark.parametrize(("days", "suggested"), [(2, 0), (4, 1)])
def test_storage_is_suggested_once_it_has_lain_for_days(days: int, suggested: int) -> None:
    fleet = well_run()
    labels = Labels(resource="vol-2", region=REGION)
    attached = NOON - days * DAY
    fleet.volumes.append(Volume(labels, 4000, "gp3", "available", START, detached_at=attached))
    assert [x.kind for x in weighed(fleet)] == [SuggestionKind.STORAGE] * suggested


def test_nodes_of_an_open_alert_wait_for_no_launch() -> None:
    fleet = well_run()
    refused(fleet)
    assert [x.kind for x in weighed(fleet)] == [K.ELSEWHERE]
    found = anomaly(Cause.IDLE, things=("i-gang0", "i-gang1"), window=Window(NOON - HOUR, NOON))
    fleet.store.save(StateUpdate(alerts=[alert(found, opened=NOON - HOUR, seen=NOON)]))
    assert weighed(fleet) == []


def test_what_an_open_alert_tells_of_a_file_system_is_not_suggested_as_well() -> None:
    fleet = well_run()
    idle_throughput(fleet)
    found = anomaly(Cause.STARVED, things=("fs-1",), window=Window(NOON - HOUR, NOON))
    fleet.store.save(StateUpdate(alerts=[alert(found, opened=NOON - HOUR, seen=NOON)]))
    assert weighed(fleet) == []


def test_a_zone_that_refuses_on_demand_may_be_a_better_pool() -> None:
    fleet = well_run()
    dear_pool(fleet)
    fleet.refusals = [replace(refusal, spot=False) for refusal in fleet.refusals]
    (found,) = weighed(fleet)
    assert "in us-west-2a" in found.todo


def test_a_training_job_has_no_auto_scaling_group_to_keep_nodes_warm() -> None:
    fleet = well_run()
    slow_starts(fleet)
    for name, node in fleet.nodes.items():
        fleet.nodes[name] = replace(node, labels=replace(node.labels, job=node.labels.cluster))
    assert weighed(fleet) == []


@pytest.mark.parametrize(("actions", "act"), [(None, ""), (object(), "act delete vol-2")])
def test_a_button_that_acts_is_offered_where_a_role_allows_it(actions: Any, act: str) -> None:
    fleet = well_run()
    left_over(fleet)
    (found,) = suggestions_of(with_parts(ports_of(fleet), actions=actions), NOON).open
    assert found.act == act


def test_credits_are_not_weighed_before_an_admin_sets_their_balance() -> None:
    fleet = well_run()
    ending_credits(fleet)
    fleet.store = MemoryStore()
    assert weighed(fleet) == []


def test_a_zone_that_refuses_is_no_better_pool() -> None:
    fleet = well_run()
    dear_pool(fleet)
    (first,) = weighed(fleet)
    assert "in us-west-2b" in first.todo
    assert first.line == f"spot {TRN}"


def lines(card: Card) -> list[str]:
    return [plain(block.spans) for block in card.blocks if isinstance(block, Text)]


async def test_home_shows_three_that_nobody_decided_about_and_nothing_where_none_is() -> None:
    fleet = well_run()
    plants = (sleepless_notebook, idle_throughput, left_over, old_volumes, slow_starts)
    ports = ports_of(fleet)

    async def page(at: datetime = NOON) -> Card:
        return await home(ports, Request("home", User("u", "u"), at, "slack", MEMBER))

    # Before anything was weighed, and where nothing is suggested, the block is absent.
    assert "suggested" not in (await page()).data
    bot = App(ports, (), Access(), lambda: 0.0)
    await bot.shortlist(NOON)
    assert "suggested" not in (await page()).data

    for plant in plants:
        plant(fleet)
    later = NOON + DAY
    await bot.shortlist(NOON + HOUR)
    assert "suggested" not in (await page()).data, "weighed once a day"
    await bot.shortlist(later)
    listed = suggestions_of(ports, later).open
    assert len(listed) > 3
    assert [x["id"] for x in (await page(later)).data["suggested"]] == [x.id for x in listed[:3]]
    shown = lines(await page(later))
    for x in listed[:3]:
        assert any(x.todo in line and "a month" in line for line in shown)

    # What somebody declines is gone at once, and the next one stands there.
    declined = SuggestionVerdict(Verdict.DECLINED, "", Decimal(1), NOON, "u", "u")
    VERDICTS.put(ports.stores.documents, listed[0].id, declined)
    assert [x["id"] for x in (await page(later)).data["suggested"]] == [x.id for x in listed[1:4]]
    # What was weighed days ago is no news.
    assert "suggested" not in (await page(later + 3 * DAY)).data
