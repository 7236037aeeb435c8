"""Roll the export up in a real Spark Connect server: every answer is the one that DuckDB gives over the raw files."""

import random
import socket
import subprocess
import sys
import threading
from concurrent import futures
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial

import duckdb
import pytest

from adapters.aws.bill.exports import RollupCopy, SparkTable
from adapters.billing.bill import BillOptions, open_billing
from adapters.billing.exports import SPARK, rollup_query
from bot.answers.cost.card import cost
from bot.errors import HIDDEN, Unavailable, WrongInput
from bot.grammar.line import understand
from bot.knowledge import load_knowledge
from bot.model.request import Request, User
from bot.model.window import Window
from tests.belonging import MEMBER
from tests.billing.conftest import focus, line, write_parquet
from tests.billing.test_forms import legacy
from tests.builders import ports_over

pytest.importorskip("pysail", reason="the package pysail, a Spark Connect server, is not installed")
pytest.importorskip("pyspark", reason="the package pyspark-client is not installed")

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
NOVEMBER = Window(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))
SERVER = """
from pysail.spark import SparkConnectServer
server = SparkConnectServer("127.0.0.1", 0)
server.start(background=True)
print(server.listening_address[1], flush=True)
input()
"""
LINES = (
    "cost 7d by team",
    "cost 14d by day,service",
    "cost last-month by cluster",
    "cost this-month",
    "cost 7d by purchase,line,resource",
    "cost 2026-11-03T05:00..2026-11-12T17:00 by project",
    "cost 2026-11-01..2026-11-16 by account,zone,usage_type",
    "cost 7d by tag:cost_center",
    "cost 7d by team purchase=on-demand",
)
BY_HOUR = ("cost 2026-11-10..2026-11-12 by hour,team", "cost 2d by pod")


class Server:
    """Hold a Spark Connect server in a process of its own."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.place = f"127.0.0.1:{self.process.stdout.readline().strip()}"

    def kill(self):
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def server():
    made = Server()
    yield made
    made.kill()


class NoSource:
    """A source that cannot be read."""

    def read(self, now):
        raise Unavailable("no metrics")


class Rollup:
    """Keep the rollup of a folder of Parquet files, and answer lines over it."""

    def __init__(self, place, table, folder, hourly_rows=SPARK.hourly_rows, token=""):
        self.now = NOON
        address = f"sc://{place}" + (f"/;token={token}" if token else "")
        self.engine = SparkTable(place, lambda: address, str(table))
        query = partial(rollup_query, replace(SPARK, hourly_rows=hourly_rows))
        self.copy = RollupCopy(self.engine, folder, query, lambda: self.now)
        (folder / "billing").mkdir(parents=True)
        by_day = lambda: "Spark" if self.copy.has_days() else ""  # noqa: E731
        self.bill = open_billing(folder, BillOptions(by_day=by_day, copied_from=str(table)))


def answers(bill, words):
    """Answer a `cost` line over a bill: the card, and its data."""
    knowledge = load_knowledge()
    ports = ports_over(NoSource(), None, billing=bill, knowledge=knowledge)
    asked = Request(words, User("slack:U1"), NOON, "slack", MEMBER)
    return cost(ports, asked, **understand(words, NOON).arguments)


def rounded(data):
    """Return the data of an answer, amounts to the millionth of a dollar: engines add doubles in ways of their own."""
    if isinstance(data, Decimal):
        return round(data, 6)
    if isinstance(data, dict):
        return {key: rounded(value) for key, value in data.items()}
    return [rounded(x) for x in data] if isinstance(data, list | tuple) else data


def cur_rows():
    """Return a bill of six weeks: usage in four ways, fees, discounts, credits, tax, pods, rows that repeat a key."""
    draw = random.Random(7)
    rows = []
    for n in range(400):
        at = datetime(2026, 10, 10, tzinfo=UTC) + timedelta(hours=draw.randrange(41 * 24))
        node, amount = n % 12, Decimal(draw.randrange(1, 10**9)).scaleb(-7 if n % 9 else -13)
        kind = draw.choice(
            ["Usage"] * 6
            + ["SavingsPlanCoveredUsage", "SavingsPlanNegation", "DiscountedUsage"]
            + ["SavingsPlanRecurringFee", "EdpDiscount", "Credit", "Refund", "Tax"]
        )
        sign = -1 if kind in ("SavingsPlanNegation", "EdpDiscount", "Credit", "Refund") else 1
        tags = {"user_team": f"team{node % 3}", "user_cost_center": f"r&d {node % 2}"}
        more = {
            "line_item_resource_id": f"i-{node}",
            "line_item_availability_zone": f"us-west-2{'ab'[node % 2]}",
            "resource_tags": tags | {"aws_eks_cluster_name": f"c{node % 2}", "user_project": "p"},
            "discount": {"edp": float(-amount) / 20, "bundled": None}
            if kind == "Usage" and node % 4 == 0
            else {},
        }
        if kind == "SavingsPlanCoveredUsage":
            more["savings_plan_savings_plan_effective_cost"] = str(amount * Decimal("0.7"))
        if kind == "SavingsPlanRecurringFee":
            more["savings_plan_total_commitment_to_date"] = str(amount)
            more["savings_plan_used_commitment"] = str(amount / 3)
        if kind == "DiscountedUsage":
            more["reservation_effective_cost"] = str(amount / 2)
        rows.append(line(at, str(sign * amount), kind, **more))
        if n % 5 == 0:
            pod = f"arn:aws:eks:us-west-2:222222222222:pod/c0/nlp/pod{n % 3}/uid"
            split = {
                "line_item_resource_id": pod,
                "line_item_product_code": "AmazonEKS",
                "line_item_usage_type": "USW2-EKS-EC2-vCPU-Hours",
                "split_line_item_parent_resource_id": f"i-{node}",
                "split_line_item_split_cost": str(amount / 4),
                "split_line_item_unused_cost": str(amount / 8),
                "split_line_item_split_usage_ratio": "0.25",
                "discount": {},
            }
            rows += [line(at, "", **split)] * 2
    return rows


def focus_rows():
    """Return a FOCUS bill in which charges and what corrects them share all that tells rows apart."""
    draw = random.Random(8)
    rows = []
    for n in range(300):
        at = datetime(2026, 10, 10, tzinfo=UTC) + timedelta(hours=draw.randrange(41 * 24))
        amount = Decimal(draw.randrange(-(10**8), 10**9)).scaleb(-7 if n % 9 else -13)
        category = draw.choice(["Usage"] * 5 + ["Credit", "Tax", "Adjustment", "Purchase"])
        rows.append(
            focus(
                BillingPeriodStart=f"{at:%Y-%m-01T00:00:00Z}",
                ChargePeriodStart=f"{at:%Y-%m-%dT%H:%M:%SZ}",
                ChargePeriodEnd=f"{at + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}",
                ResourceId=f"i-{n % 9}",
                Tags={"user_team": f"team{n % 3}", "user_cost_center": "x"},
                ChargeCategory=category,
                ChargeClass="Correction" if n % 11 == 0 else "",
                BilledCost=str(amount if n % 13 else 0),
                EffectiveCost=str(amount * 2 / 3),
                x_Discounts={"total": float(amount) / 10} if n % 7 == 0 else {},
                x_UsageType="USW2-BoxUsage:trn1.32xlarge",
                x_ServiceCode="AmazonEC2",
                SkuPriceDetails='{"InstanceType": "trn1.32xlarge"}',
            )
        )
    return rows


FORMS = {
    "CUR 2.0": cur_rows,
    "legacy CUR": lambda: [legacy(row, slashed=False) for row in cur_rows()],
    "FOCUS 1.2": lambda: [{**row, "InvoiceId": ""} for row in focus_rows()],
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Return a function that writes a bill in one form, a folder a month, as AWS delivers it."""

    def written(form):
        folder = tmp_path_factory.mktemp("export")
        months = {}
        for row in FORMS[form]():
            start = row.get("BillingPeriodStart") or row["bill_billing_period_start_date"]
            months.setdefault(start[:7], []).append(row)
        for month, rows in months.items():
            path = folder / f"BILLING_PERIOD={month}" / "bill-00001.snappy.parquet"
            path.parent.mkdir()
            write_parquet(path, rows)
            if form.startswith("FOCUS"):
                amounts = '"BilledCost"::DOUBLE AS "BilledCost", "EffectiveCost"::DOUBLE AS "EffectiveCost"'
                query = f"COPY (SELECT * REPLACE ({amounts}) FROM read_parquet('{path}', hive_partitioning=false)) TO '{path}.x' (FORMAT parquet)"
                duckdb.sql(query)
                path.with_name(path.name + ".x").replace(path)
        return folder

    made = {form: written(form) for form in FORMS}
    return made.__getitem__


@pytest.mark.parametrize("form", FORMS)
async def test_every_answer_is_that_of_the_raw_files(server, exported, tmp_path, form):
    raw = open_billing(exported(form))
    rollup = Rollup(server.place, exported(form), tmp_path)
    rollup.copy.keep_fresh()
    assert rollup.copy.problems() == ()
    assert raw.tally(NOVEMBER, ()).sources == (form,)
    for words in (*LINES, *BY_HOUR):
        theirs, ours = await answers(raw, words), await answers(rollup.bill, words)
        assert replace(ours, data={}) == replace(theirs, data={}), words
        assert rounded(ours.data) == rounded(theirs.data), words
    ours, theirs = rollup.bill.rates(NOON).by_type, raw.rates(NOON).by_type
    assert [(x.instance_type, round(x.usd_per_hour, 6)) for x in ours] == [
        (x.instance_type, round(x.usd_per_hour, 6)) for x in theirs
    ]
    assert rollup.bill.deltas(NOON, 7).frames.keys() == raw.deltas(NOON, 7).frames.keys()


async def test_a_large_month_comes_by_day(server, exported, tmp_path):
    raw = open_billing(exported("FOCUS 1.2"))
    rollup = Rollup(server.place, exported("FOCUS 1.2"), tmp_path, hourly_rows=100)
    rollup.copy.keep_fresh()
    assert rollup.copy.has_days()
    by = ("day", "team", "resource", "purchase", "line")
    ours, theirs = (bill.tally(NOVEMBER, by).rows for bill in (rollup.bill, raw))
    assert [(row.key, rounded(asdict(row.money))) for row in ours] == [
        (row.key, rounded(asdict(row.money))) for row in theirs
    ]
    with pytest.raises(WrongInput, match="Spark gives a bill of this size by day; set TRNBOT_AWS"):
        rollup.bill.tally(NOVEMBER, ("hour",))
    assert "spend_hour" not in rollup.bill.deltas(NOON, 7).frames


@pytest.mark.parametrize(("hourly_rows", "rows"), [(2, 2), (1, 1)])
def test_charges_of_other_ends_stay_apart_where_a_month_comes_row_by_row(
    server, tmp_path, hourly_rows, rows
):
    """The one may be estimated still when the other is not."""
    at, folder = NOON - timedelta(days=1), tmp_path / "export"
    folder.mkdir()
    write_parquet(folder / "bill.parquet", [line(at, hours=1), line(at, hours=5)])
    rollup = Rollup(server.place, folder, tmp_path / "copy", hourly_rows)
    rollup.copy.keep_fresh()
    (path,) = (tmp_path / "copy" / "billing").glob("*-2026-11.parquet")
    query = f"SELECT count(*) FROM read_parquet('{path}')"
    assert duckdb.sql(query).fetchall() == [(rows,)]


def test_a_server_that_dies_amid_a_query_leaves_the_bill_of_before(exported, tmp_path):
    dying = Server()
    rollup = Rollup(dying.place, exported("CUR 2.0"), tmp_path)
    rollup.copy.keep_fresh()
    before = rollup.bill.tally(NOVEMBER, ("team",))

    endless = "SELECT CAST(id AS STRING) AS rolled_by FROM range(100000000000)"
    rollup.copy.query = lambda *_: endless
    rollup.now += timedelta(hours=7)
    asked = threading.Thread(target=rollup.copy.keep_fresh)
    asked.start()
    part = tmp_path / "billing" / f".{next((tmp_path / 'billing').glob('*11.parquet')).name}.part"
    while not part.exists():
        asked.join(0.05)
    # Who asks meanwhile is answered at once, from the bill of before.
    rollup.copy.keep_fresh()
    assert rollup.bill.tally(NOVEMBER, ("team",)) == before
    dying.kill()
    asked.join()
    assert rollup.copy.problems() == (
        f"Spark at {dying.place} went away amid a question; look whether it runs; it is tried again later."
        " Until then the bill of Nov 20, 12:00 UTC counts.",
    )
    assert rollup.bill.tally(NOVEMBER, ("team",)) == before
    assert list(rollup.bill.problems()) == []


def test_a_wrong_address_is_named(tmp_path):
    rollup = Rollup("127.0.0.1:1", "bills.cur", tmp_path)
    rollup.copy.keep_fresh()
    assert rollup.copy.problems() == (
        "Spark at 127.0.0.1:1 cannot be reached; start it, or set TRNBOT_SPARK to its address; it is tried again later.",
    )
    with pytest.raises(Unavailable, match=r"Nothing of the bill in bills\.cur could be read yet"):
        rollup.bill.tally(NOVEMBER, ())


@pytest.mark.parametrize("ending", [":99999/;token=dapi-1", ":1/;session_id=x;token=dapi-1"])
def test_an_address_that_the_client_does_not_take_is_named_and_never_shown(tmp_path, ending):
    rollup = Rollup("127.0.0.1:1", "bills.cur", tmp_path)
    rollup.engine.address = lambda: f"sc://127.0.0.1{ending}"
    rollup.copy.keep_fresh()
    (problem,) = rollup.copy.problems()
    assert "an address that its client does not take; mend TRNBOT_SPARK" in problem
    assert "dapi" not in problem


@pytest.mark.parametrize("table", ["main.bills.cur", "/nowhere/at/all"])
def test_a_table_that_is_not_there_is_named(server, tmp_path, table):
    rollup = Rollup(server.place, table, tmp_path)
    rollup.copy.keep_fresh()
    (problem,) = rollup.copy.problems()
    assert problem.startswith(f"Spark at {server.place} finds no {table}; set TRNBOT_SPARK_TABLE")


def test_each_row_of_a_large_rollup_is_written_once(server, tmp_path):
    path = tmp_path / "rows.parquet"
    engine = SparkTable(server.place, lambda: f"sc://{server.place}", "bills.cur")
    rows = "SELECT CAST(id AS STRING) AS id, 'day' AS rolled_by FROM range(250000)"
    assert engine.write(rows, path) == "day"
    counts = duckdb.sql(f"SELECT count(*), count(DISTINCT id) FROM read_parquet('{path}')")
    assert counts.fetchall() == [(250_000, 250_000)]


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ("UNAUTHENTICATED", "refuses the token; set one that is valid in TRNBOT_SPARK"),
        ("INVALID_ARGUMENT", f"failed over bills.cur (Bearer {HIDDEN})"),
    ],
)
def test_a_refused_token_is_named_and_never_shown(tmp_path, caplog, status, sentence):
    """A server of gRPC that lets nobody in, and repeats what it was shown."""
    import grpc

    class Refusing(grpc.GenericRpcHandler):
        def service(self, call):
            shown = dict(call.invocation_metadata).get("authorization", "")
            said = lambda _, context: context.abort(grpc.StatusCode[status], shown)  # noqa: E731
            return grpc.unary_unary_rpc_method_handler(said)

    refusing = grpc.server(futures.ThreadPoolExecutor(1), [Refusing()])
    port = refusing.add_secure_port("localhost:0", grpc.local_server_credentials())
    refusing.start()
    rollup = Rollup(f"localhost:{port}", "bills.cur", tmp_path, token="dapi-not-to-be-seen")
    rollup.copy.keep_fresh()
    refusing.stop(None)
    assert rollup.copy.problems() == (
        f"Spark at localhost:{port} {sentence}; it is tried again later.",
    )
    assert "dapi" not in repr(rollup.engine) + caplog.text


def test_a_server_that_says_nothing_is_not_awaited_for_ever(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        rollup = Rollup(f"127.0.0.1:{silent.getsockname()[1]}", "bills.cur", tmp_path)
        rollup.engine.seconds = 0.2
        rollup.copy.keep_fresh()
    (problem,) = rollup.copy.problems()
    assert "did not answer in time; look at it, or give it more cores" in problem
