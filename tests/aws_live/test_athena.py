"""Roll the export up in Athena: the same numbers as from the export itself, month by month, priced by what is scanned."""

import errno
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial

import numpy as np
import pytest

from adapters.aws.api.calls import Calls
from adapters.aws.api.operations import Place
from adapters.aws.bill.exports import AthenaTable, RollupCopy
from adapters.billing.bill import BillOptions, open_billing
from adapters.billing.exports import TRINO, rollup_query
from bot.errors import Unavailable, WrongInput
from bot.model.window import Window
from tests.aws_live.conftest import served

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
NOVEMBER = Window(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))


def query_of(hourly_rows):
    """Return the query of Athena's that rolls a month of more rows up by day."""
    return partial(rollup_query, replace(TRINO, hourly_rows=hourly_rows))


class Desk:
    def __init__(self, world, folder, table="bills.cur", hourly_rows=0):
        world.now = NOON
        self.calls = Calls(lambda: world.now)
        results, place = "s3://results/trnbot", Place("us-west-2")
        engine = AthenaTable(self.calls, table, "primary", results, place, lambda _: None)
        self.copy = RollupCopy(engine, folder, query_of(hourly_rows), lambda: world.now)
        folder.mkdir(exist_ok=True)
        options = BillOptions(by_day=lambda: "Athena" if self.copy.has_days() else "")
        self.bill = open_billing(folder, options)


@pytest.fixture(scope="module")
def copied(tiny, tmp_path_factory):
    """Return the bill of a copy that was made once."""
    with served(tiny) as world:
        made = Desk(world, tmp_path_factory.mktemp("copied") / "athena")
        made.copy.keep_fresh()
        assert made.copy.problems() == ()
        yield made.bill


@pytest.fixture
def desk(world, tmp_path):
    made = Desk(world, tmp_path / "athena")
    made.copy.keep_fresh()
    return made


def rows(tally):
    return {tuple(row.key.values()): row.money for row in tally.rows}


@pytest.mark.parametrize(
    "by",
    [
        (), ("account",), ("region",), ("zone",), ("service",), ("usage_type",), ("operation",), ("instance_type",), ("purchase",),
        ("line",), ("resource",), ("cluster",), ("namespace",), ("team", "project"), ("tag:owner",), ("day", "service"), ("month",),
    ],
)  # fmt: skip
def test_it_says_what_the_export_says(copied, export, by):
    theirs = export.tally(NOVEMBER, by)
    ours = copied.tally(NOVEMBER, by)
    assert (ours.total, ours.sources, ours.currency) == (
        theirs.total,
        theirs.sources,
        theirs.currency,
    )
    if by != ("namespace",):
        assert rows(ours) == rows(theirs)


def test_days_and_rates_are_those_of_the_export(copied, export):
    ours, theirs = (bill.deltas(NOON, 7).frames["spend"] for bill in (copied, export))
    assert ours.things == theirs.things
    np.testing.assert_allclose(ours.values, theirs.values, atol=0.01)
    assert [(p.instance_type, p.usd_per_hour, p.hours) for p in copied.rates(NOON).by_type] == [
        (p.instance_type, p.usd_per_hour, p.hours) for p in export.rates(NOON).by_type
    ]


def test_pods_share_a_day(copied, export):
    ours, theirs = (bill.tally(NOVEMBER, ("pod",)) for bill in (copied, export))
    assert rows(ours).keys() == rows(theirs).keys()
    assert all(abs(rows(ours)[key].net - money.net) < 1 for key, money in rows(theirs).items())


def test_a_month_of_few_rows_comes_by_the_hour(world, tmp_path, export):
    desk = Desk(world, tmp_path / "athena", hourly_rows=500_000)
    desk.copy.keep_fresh()
    for by in (("hour",), ("hour", "namespace"), ("pod", "day")):
        theirs, ours = (bill.tally(NOVEMBER, by) for bill in (export, desk.bill))
        assert rows(ours) == rows(theirs)
    assert desk.bill.deltas(NOON, 7).frames.keys() == export.deltas(NOON, 7).frames.keys()


def test_a_copy_of_before_hours_were_kept_is_made_anew(world, desk, tmp_path):
    queries = world.standin.called["athena:StartQueryExecution"]
    for path in (tmp_path / "athena" / "billing").glob("*.asked"):
        path.write_text(path.read_text().partition(" ")[0])
    world.now += timedelta(hours=7)
    desk.copy.keep_fresh()
    assert world.standin.called["athena:StartQueryExecution"] - queries == 3


def test_a_copy_of_which_nothing_is_known_is_due_and_gives_no_hours(world, tmp_path):
    """The process ended between a copy and what is noted of it, or noted nothing else yet."""
    desk = Desk(world, tmp_path / "athena", hourly_rows=500_000)
    desk.copy.keep_fresh()
    assert not desk.copy.has_days()
    (noted,) = (tmp_path / "athena" / "billing").glob("*11.asked")
    noted.unlink()
    assert desk.copy.has_days()
    with pytest.raises(WrongInput, match="by day"):
        desk.bill.tally(NOVEMBER, ("hour",))
    world.standin.costs.failing = "no slot"
    desk.copy.keep_fresh()
    assert "Until then the bill of Nov 20, 12:00 UTC counts." in desk.copy.problems()[0]
    world.standin.costs.failing = ""
    world.now += timedelta(hours=1)
    desk.copy.keep_fresh()
    assert not desk.copy.has_days()


def test_who_asks_amid_a_refresh_waits_only_where_the_copy_is_not_whole(world, tmp_path):
    waits = []

    class Lock:
        """Is held by another thread."""

        def acquire(self, *, blocking):
            waits.append(blocking)

    desk = Desk(world, tmp_path / "athena")
    desk.copy._lock = Lock()
    desk.copy.keep_fresh()
    home = tmp_path / "athena" / "billing"
    home.mkdir()
    for month in ("2026-11", "2026-10", "2026-09"):  # in their order
        (home / f"bills.cur-{month}.csv").touch()
        desk.copy.keep_fresh()
    world.now = datetime(2026, 12, 1, tzinfo=UTC)
    desk.copy.keep_fresh()
    assert waits == [True, True, True, False, False]


def test_a_full_disk_is_told_and_leaves_no_half_of_a_copy(world, desk, tmp_path):
    before = desk.bill.tally(NOVEMBER, ("service",))

    class Full:
        """Fills the disk."""

        table, ending = desk.copy.engine.table, desk.copy.engine.ending
        columns = desk.copy.engine.columns

        def write(self, query, path):
            path.write_text("half")
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    desk.copy.engine = Full()
    world.now += timedelta(hours=7)
    desk.copy.keep_fresh()
    assert desk.copy.problems() == (
        "The rollup of bills.cur was not written (No space left on device); it is tried again later."
        " Until then the bill of Nov 20, 12:00 UTC counts.",
    )
    assert not list((tmp_path / "athena" / "billing").glob(".*.part"))
    assert desk.bill.tally(NOVEMBER, ("service",)).rows == before.rows


def test_hours_are_refused_by_a_sentence(copied):
    with pytest.raises(
        WrongInput, match="Athena gives a bill of this size by day; set TRNBOT_AWS_BILLING"
    ):
        copied.tally(NOVEMBER, ("hour",))


def test_a_month_is_asked_again_when_it_may_have_changed(world, desk):
    def queries():
        return world.standin.called["athena:StartQueryExecution"]

    assert queries() == 3
    world.now += timedelta(hours=5)
    desk.copy.keep_fresh()
    assert queries() == 3
    world.now += timedelta(hours=1)
    desk.copy.keep_fresh()
    assert queries() == 4
    world.now = datetime(2026, 12, 2, tzinfo=UTC)
    desk.copy.keep_fresh()
    assert queries() == 6


def test_the_month_before_is_asked_daily_until_the_twelfth(world, desk):
    for day, asked in ((11, 2), (12, 2), (13, 1)):
        before = world.standin.called["athena:StartQueryExecution"]
        world.now = datetime(2026, 12, day, 18, tzinfo=UTC)
        desk.copy.keep_fresh()
        assert world.standin.called["athena:StartQueryExecution"] - before == asked, day


def test_what_is_scanned_is_priced(world, desk):
    assert desk.calls.meter.today().units["athena:GetQueryExecution"] == 75
    assert desk.calls.meter.today().usd == Decimal("0.000375")
    world.standin.costs.scanned = 1
    world.now += timedelta(hours=7)
    desk.copy.keep_fresh()
    assert desk.calls.meter.today().units["athena:GetQueryExecution"] == 85


def test_a_failed_query_leaves_the_month_as_it_was(world, desk):
    before = desk.bill.tally(NOVEMBER, ("service",))
    world.standin.costs.failing = "SCHEMA_MISMATCH: a column changed\nstack of the engine"
    world.now += timedelta(hours=7)
    desk.copy.keep_fresh()
    assert desk.copy.problems() == (
        "Athena's query over bills.cur is failed (SCHEMA_MISMATCH: a column changed); it is tried again later."
        " Until then the bill of Nov 20, 12:00 UTC counts.",
    )
    assert desk.bill.tally(NOVEMBER, ("service",)).rows == before.rows
    world.standin.costs.failing = ""
    world.now += timedelta(hours=1)
    desk.copy.keep_fresh()
    assert desk.copy.problems() == ()


def test_a_denied_call_is_told(world, tmp_path):
    world.standin.faults.denied = {"athena:GetTableMetadata"}
    desk = Desk(world, tmp_path / "athena")
    with pytest.raises(
        Unavailable,
        match=r"athena:GetTableMetadata in us-west-2 is denied \(AccessDeniedException\)",
    ):
        desk.copy.refresh(NOON)


@pytest.mark.parametrize("table", ["cur", "a.b.c", 'a."b"', "a.b; DROP"])
def test_another_name_is_refused(world, tmp_path, table):
    with pytest.raises(WrongInput, match=r"write DATABASE\.TABLE"):
        Desk(world, tmp_path / "athena", table)


@pytest.mark.parametrize(
    ("partitions", "said"),
    [
        (["billing_period"], "billing_period = '2026-03'"),
        (["year", "month"], "year = '2026' AND month IN ('3', '03')"),
        ([], "\"bill_billing_period_start_date\" = TIMESTAMP '2026-03-01 00:00:00'"),
    ],
)
def test_only_the_month_is_scanned(partitions, said):
    columns = [
        ("bill_billing_period_start_date", "timestamp"),
        ("line_item_usage_start_date", "timestamp"),
        ("line_item_usage_end_date", "timestamp"),
        ("line_item_unblended_cost", "double"),
    ]
    assert said in rollup_query(TRINO, "bills.cur", columns, partitions, date(2026, 3, 1))


@pytest.mark.parametrize(
    ("kind", "read"),
    [("map<string,double>", '"discount"'), ("varchar", 'json_parse("discount")')],
)
def test_discounts_of_a_map_are_summed_with_those_of_columns(kind, read):
    columns = [
        ("bill_billing_period_start_date", "timestamp"),
        ("line_item_usage_start_date", "timestamp"),
        ("line_item_usage_end_date", "timestamp"),
        ("line_item_unblended_cost", "double"),
        ("discount_edp_discount", "double"),
        ("discount", kind),
    ]
    query = rollup_query(TRINO, "bills.cur", columns, ["billing_period"], date(2026, 3, 1))
    total = query.partition("'{\"total\": ' || CAST(sum(")[2]
    assert total.startswith('coalesce(CAST("discount_edp_discount" AS DECIMAL(38, 15)), 0) + ')
    assert read in total.partition(") AS VARCHAR) || '}'")[0]


def test_a_table_that_is_no_export_is_refused():
    with pytest.raises(WrongInput, match=r"bills\.other is not a CUR or FOCUS export"):
        rollup_query(TRINO, "bills.other", [("id", "string")], [], date(2026, 3, 1))


def test_a_table_with_the_names_of_a_csv_is_refused():
    columns = [("lineItem/UsageStartDate", "string"), ("lineItem/UnblendedCost", "string")]
    with pytest.raises(WrongInput, match=r"bills\.csv lacks line_item_usage_start_date"):
        rollup_query(TRINO, "bills.csv", columns, [], date(2026, 3, 1))
