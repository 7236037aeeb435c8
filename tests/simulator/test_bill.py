from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from adapters.simulator.bill import write_bill
from adapters.simulator.fleet import build_fleet
from adapters.simulator.scenario import SCENARIOS

CALM = SCENARIOS["calm"]
LLAMA_RATE = Decimal("21.50")


@pytest.fixture(scope="module")
def bills(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bills")
    fleet = build_fleet(CALM, CALM.start, 14 * 1440, 7)
    for form in ("cur2", "focus1.2", "legacy"):
        write_bill(folder / form, CALM, fleet, form)
    write_bill(folder / "text", CALM, fleet, "cur2", "csv.gz")
    return folder


def one(sql: duckdb.DuckDBPyConnection, bills: Path, query: str, form: str = "cur2") -> Decimal:
    return sql.sql(query.replace("BILL", f"'{bills}/{form}/billing/**/*.parquet'")).fetchall()[0][0]


def test_a_row_is_hours_times_rate(sql: duckdb.DuckDBPyConnection, bills: Path) -> None:
    odd = "SELECT count(*) FROM BILL WHERE line_item_line_item_type = 'Usage' AND line_item_unblended_cost IS NOT NULL AND"
    odd += " abs(line_item_unblended_cost - line_item_usage_amount * line_item_unblended_rate::DECIMAL(12, 8)) > 0.0000001"
    assert one(sql, bills, odd) == 0


def test_a_plan_gives_back_what_it_covers(sql: duckdb.DuckDBPyConnection, bills: Path) -> None:
    kinds = "('SavingsPlanCoveredUsage', 'SavingsPlanNegation')"
    assert (
        one(
            sql,
            bills,
            f"SELECT sum(line_item_unblended_cost) FROM BILL WHERE line_item_line_item_type IN {kinds}",
        )
        == 0
    )


def test_used_commitment_is_the_effective_cost_of_the_hour(
    sql: duckdb.DuckDBPyConnection, bills: Path
) -> None:
    used = one(sql, bills, "SELECT sum(savings_plan_used_commitment) FROM BILL")
    assert used == one(sql, bills, "SELECT sum(savings_plan_savings_plan_effective_cost) FROM BILL")
    assert 0 < used < one(sql, bills, "SELECT sum(savings_plan_total_commitment_to_date) FROM BILL")


def test_hours_of_a_node_that_leaves_add_up(sql: duckdb.DuckDBPyConnection, bills: Path) -> None:
    query = "SELECT sum(line_item_usage_amount) FROM BILL WHERE line_item_line_item_type = 'Usage'"
    query += " AND line_item_usage_type = 'BoxUsage:trn1n.32xlarge'"
    hours = one(sql, bills, query)
    stay, stopped, late, old = (
        5 * (35 + 14) * 24,
        35 * 24 + 240,
        2 * (14 * 24 - 90),
        4 * (35 * 24 + 200),
    )
    assert hours == stay + stopped + late + old


@pytest.mark.parametrize(
    ("cur2", "focus"),
    [
        ("sum(line_item_unblended_cost)", "sum(BilledCost)"),
        (
            "sum(CASE line_item_line_item_type WHEN 'SavingsPlanCoveredUsage' THEN savings_plan_savings_plan_effective_cost"
            " WHEN 'SavingsPlanRecurringFee' THEN savings_plan_total_commitment_to_date - savings_plan_used_commitment"
            " WHEN 'SavingsPlanNegation' THEN 0 ELSE line_item_unblended_cost END)",
            "sum(EffectiveCost)",
        ),
    ],
)
def test_cur_and_focus_agree(
    sql: duckdb.DuckDBPyConnection, bills: Path, cur2: str, focus: str
) -> None:
    assert one(sql, bills, f"SELECT {cur2} FROM BILL") == one(
        sql, bills, f"SELECT {focus} FROM BILL", "focus1.2"
    )


def test_legacy_has_the_same_money_under_its_own_names(
    sql: duckdb.DuckDBPyConnection, bills: Path
) -> None:
    by_team = (
        'SELECT sum("lineItem/UnblendedCost") FROM BILL WHERE "resourceTags/user:team" = \'vision\''
    )
    other = (
        "SELECT sum(line_item_unblended_cost) FROM BILL WHERE resource_tags['user_team'] = 'vision'"
    )
    assert one(sql, bills, by_team, "legacy") == one(sql, bills, other) > 0


def test_text_has_the_same_money_and_tags_as_json(
    sql: duckdb.DuckDBPyConnection, bills: Path
) -> None:
    read = f"read_csv('{bills}/text/billing/**/*.csv.gz', all_varchar=true)"
    money = f"SELECT sum(line_item_unblended_cost::DECIMAL(24, 10)) FROM {read} WHERE resource_tags::JSON->>'user_team' = 'vision'"
    other = (
        "SELECT sum(line_item_unblended_cost) FROM BILL WHERE resource_tags['user_team'] = 'vision'"
    )
    assert sql.sql(money).fetchall()[0][0] == one(sql, bills, other)


def test_split_rows_carry_no_money_of_their_own(
    sql: duckdb.DuckDBPyConnection, bills: Path
) -> None:
    rows = "FROM BILL WHERE line_item_operation = 'EKSPod-EC2'"
    assert one(sql, bills, f"SELECT sum(line_item_unblended_cost) {rows}") is None
    assert one(sql, bills, f"SELECT count(DISTINCT split_line_item_parent_resource_id) {rows}") == 6


def test_months_that_are_over_have_an_invoice(sql: duckdb.DuckDBPyConnection, bills: Path) -> None:
    query = "SELECT max(line_item_usage_start_date)::DATE::VARCHAR FROM BILL WHERE bill_invoice_id IS NOT NULL"
    assert str(one(sql, bills, query)) <= "2026-10-31"


@pytest.mark.parametrize(
    ("usage_type", "usd_per_day"),
    [
        ("USW2-Requests-Tier1", 900),
        ("EU-BoxUsage:p5.48xlarge", 1320.96),
        ("USE2-NatGateway-Bytes", 1100),
    ],
)
def test_spend_incidents_show(
    sql: duckdb.DuckDBPyConnection, causes: Path, usage_type: str, usd_per_day: float
) -> None:
    rows = sql.sql(
        f"SELECT line_item_usage_start_date::DATE AS d, sum(line_item_unblended_cost)::DOUBLE AS usd "
        f"FROM '{causes}/billing/**/*.parquet' WHERE line_item_usage_type = '{usage_type}' GROUP BY d ORDER BY d"
    ).fetchall()
    amounts = [usd for _, usd in rows]
    assert max(amounts) == pytest.approx(usd_per_day, rel=0.05)
    assert usage_type.startswith("EU-") or min(amounts) < usd_per_day / 20
