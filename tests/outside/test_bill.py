"""The four forms of one bill, against sums made the long way."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tests.outside.exports import FORMS, MONEY, added, charges, write

NOW = "2026-11-04T12:00:00Z"
HOSTILE = '<!channel> *pay* [now](http://e), "quoted"\nnext line; =cmd()' + "x" * 3000


def day(number: int, month: int = 11) -> datetime:
    return datetime(2026, month, number, tzinfo=UTC)


def agrees(answer, expected):
    """Hold an answer's rows and total against `expected`: key -> the six sums."""
    rows = {next(iter(row["key"].values())): row for row in answer["rows"]}
    assert set(rows) - {
        key for key, row in rows.items() if not any(Decimal(row[name]) for name in MONEY)
    } <= set(expected)
    for key, sums in expected.items():
        for name in MONEY:
            assert Decimal(rows[key][name] if key in rows else 0) == sums[name], (key, name)
    for name in MONEY:
        assert Decimal(answer["total"][name]) == sum(sums[name] for sums in expected.values()), name
    for row in [*answer["rows"], answer["total"]]:
        assert Decimal(row["net_usd"]) == sum(Decimal(row[name]) for name in MONEY[:4])


QUESTIONS = [
    ("cost 2026-10-31..2026-11-01 by team", day(31, 10), day(2), lambda c: c.tags.get("team", "")),
    ("cost last-month by cluster", day(1, 10), day(1), lambda c: c.tags.get("eks:cluster-name", "")),
    ("cost 2026-10-31T05:00..2026-10-31T07:00 by hour", day(31, 10).replace(hour=5), day(31, 10).replace(hour=7), lambda c: f"{c.start:%Y-%m-%dT%H:00:00Z}"),
    ("cost mtd by operation", day(1), day(5), lambda c: c.operation),
    ("cost 2026-10-30..2026-11-03 by month", day(30, 10), day(4), lambda c: f"{c.start:%Y-%m}"),
    ("cost 2026-11-02 by day", day(2), day(3), lambda c: f"{c.start:%Y-%m-%d}"),
    ("cost 2026-10-30..2026-11-03 by tag:note", day(30, 10), day(4), lambda c: c.tags.get("note", "")),
    ("cost 2026-10-30..2026-11-03 by instance_type", day(30, 10), day(4), lambda c: c.usage_type.partition("Usage:")[2]),
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_sum_is_what_the_rows_say(form, data, tmp_path):
    bill = charges(HOSTILE)
    source = write(tmp_path / "r", form, bill)
    for line, start, end, key in QUESTIONS:
        answer = data(*line.split(), "--source", f"recording:{source}", "--at", NOW)["data"]
        agrees(answer, added(bill, start, end, key))


def test_a_filter_and_its_opposite_make_the_whole(data, tmp_path):
    source = write(tmp_path / "r", "cur2", charges())
    ask = [
        "cost",
        "2026-10-30..2026-11-03",
        "by",
        "resource",
        "--source",
        f"recording:{source}",
        "--at",
        NOW,
    ]
    whole, some, rest = (
        data(*ask, *more)["data"]["total"]
        for more in ([], ["team=search,ads"], ["team!=search,ads"])
    )
    for name in MONEY:
        assert Decimal(some[name]) + Decimal(rest[name]) == Decimal(whole[name])
    assert Decimal(some["amortised_usd"]) > 0 < Decimal(rest["amortised_usd"])


def test_a_file_that_broke_off_is_told_beside_the_sums(trnbot, tmp_path):
    source = write(tmp_path / "r", "cur2", charges())
    whole = (source / "billing" / "part.csv.gz").read_bytes()
    (source / "billing" / "cut.csv.gz").write_bytes(whole[: len(whole) // 2])
    (source / "billing" / "junk.parquet").write_bytes(b"PAR1")
    code, out, _ = trnbot("cost", "mtd", "--source", f"recording:{source}", "--at", NOW)
    assert code == 0
    assert "cut.csv.gz" in out
    assert "junk.parquet" in out
