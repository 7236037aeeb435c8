"""Which files are read, how much they may unpack to, and what Cost Explorer's answers are rows of."""

from __future__ import annotations

import gzip
import json
import os
import zipfile
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from adapters.billing import files
from adapters.billing.files import (
    ExplorerFiles,
    Unreadable,
    about_of,
    check_explorer_dimension,
    line_type,
    list_files,
    newest_answers,
    rows_in,
    unpacked,
)
from bot.errors import WrongInput
from bot.model.limits import UNPACKED_BYTES, UNPACKED_FREE, ZIP_MEMBERS, unpacked_limit
from tests.cases import in_one_run


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let a file unpack to 3,000,000 bytes, whatever its size."""
    monkeypatch.setattr(files, "unpacked_limit", lambda _: 3_000_000)
    monkeypatch.setattr(files, "UNPACKED_FREE", 0)
    return 3_000_000


@in_one_run
@pytest.mark.parametrize("beyond", [0, 1])
@pytest.mark.parametrize("form", ["csv.gz", "zip"])
def test_a_file_unpacks_to_its_limit_and_no_further(
    form: str, beyond: int, small: int, tmp_path: Path
) -> None:
    content, path = b"0" * (small + beyond), tmp_path / f"{beyond}.{form}"
    if form == "zip":
        half = len(content) // 2
        zipped(path, {"a.csv": content[:half], "b.csv": content[half:], "c.json": content})
    else:
        path.write_bytes(gzip.compress(content))
    if beyond:
        with pytest.raises(Unreadable, match="unpack"), unpacked(path, tmp_path / "scratch"):
            pass
    else:
        with unpacked(path, tmp_path / "scratch") as plain:
            found = sorted(plain.parent.glob(plain.name))
            assert len(found) == (2 if form == "zip" else 1)
    assert not (tmp_path / "scratch").exists()


def test_a_file_may_grow_a_hundredfold_within_bounds() -> None:
    sizes = (0, UNPACKED_FREE // 100, 1 << 20, 1 << 40)
    limits = [unpacked_limit(size) for size in sizes]
    assert limits == [UNPACKED_FREE, UNPACKED_FREE, 100 << 20, UNPACKED_BYTES]


@in_one_run
@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.xlsx", b"x", "'.xlsx' is not a kind of file"),
        ("export", b"x", "'export' is not a kind of file"),
        ("a.zip", b"x", "the zip is broken"),
        ("broken.csv.gz", b"x" * 100, "the gzip is broken"),
    ],
)
def test_what_cannot_be_read_says_why(
    name: str, content: bytes, why: str, small: int, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(Unreadable, match=why), unpacked(path, tmp_path / "scratch"):
        pass


def test_a_zip_holds_so_many_files_at_most_and_one_that_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ZIP_MEMBERS > 1
    monkeypatch.setattr(files, "ZIP_MEMBERS", 2)
    two = {"a.csv": b"1", "../../b.csv": b"2", "c.txt": b"3"}
    with unpacked(zipped(tmp_path / "two.zip", two), tmp_path / "s") as plain:
        assert {path.name for path in plain.parent.iterdir()} == {"0.csv", "1.csv"}
    for members, why in (({**two, "d.csv": b"4"}, "3 files"), ({"c.txt": b"3"}, "no .csv")):
        path = zipped(tmp_path / f"{len(members)}.zip", members)
        with pytest.raises(Unreadable, match=why), unpacked(path, tmp_path / "s"):
            pass


def test_every_file_that_may_be_an_export_is_listed_and_named_by_its_size_and_time(
    tmp_path: Path,
) -> None:
    for name in ("b/x.parquet", "a.csv", "a.xlsx", ".hidden.csv", "m.json", "_SUCCESS", "n.md"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("1")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "b")
    listed = list_files(tmp_path, ExplorerFiles(tmp_path / "ce"))
    assert list(listed) == ["a.csv", "a.xlsx", "b/x.parquet"]
    before = listed["a.csv"]
    os.utime(tmp_path / "a.csv", ns=(5, 5))
    after = list_files(tmp_path, ExplorerFiles(tmp_path / "ce"))["a.csv"]
    assert (after.stamp, after.modified) == ("1:5", 5)
    assert before.stamp != after.stamp


def test_the_newest_whole_set_of_answers_counts(tmp_path: Path) -> None:
    folder = tmp_path / "get_cost_and_usage"
    folder.mkdir()
    for name in ("1.accounts", "1.1111", "2.1111", "2.tag=team", "1.tag=team", "3.tag=team"):
        time, _, about = name.partition(".")
        (folder / f"2026112{time}T120000Z.{about}.json").write_text("[]")
    assert [x.name[:9] + x.name[17:] for x in newest_answers(tmp_path, "")] == [
        "20261121T1111.json",
        "20261121Taccounts.json",
    ]
    assert [x.name[:8] for x in newest_answers(tmp_path, "tag=team")] == ["20261123"]
    assert newest_answers(tmp_path, "tag=owner") == []


@in_one_run
@pytest.mark.parametrize(
    ("dimension", "view", "told"),
    [
        ("service", "", True),
        ("month", "", True),
        ("resource", "", False),
        ("hour", "", False),
        ("team", "", False),
        ("team", "tag=team", True),
        ("tag:owner", "tag=owner", True),
        ("day", "tag=team", True),
        ("service", "tag=team", False),
    ],
)
def test_a_dimension_that_cost_explorer_does_not_tell_is_refused(
    dimension: str, view: str, told: bool
) -> None:
    if told:
        check_explorer_dimension(dimension, view)
        return
    with pytest.raises(WrongInput, match=f"'{dimension}'"):
        check_explorer_dimension(dimension, view)


def cell(*keys: str, cost: str = "1", amortised: str = "2") -> dict[str, Any]:
    metrics = {
        "UnblendedCost": {"Amount": cost, "Unit": "EUR"},
        "AmortizedCost": {"Amount": amortised},
    }
    return {"Keys": list(keys), "Metrics": metrics}


def answer(folder: Path, about: str, grouped: tuple[str, ...], *cells: dict[str, Any]) -> Path:
    day = date(2026, 11, 20)
    by = [{"Type": "TAG" if x == "team" else "DIMENSION", "Key": x} for x in grouped]
    span = {
        "TimePeriod": {"Start": f"{day}", "End": f"{day}"},
        "Estimated": True,
        "Groups": list(cells),
    }
    path = folder / f"20261121T120000Z.{about}.json"
    path.write_text(json.dumps([{"GroupDefinitions": by, "ResultsByTime": [span]}]))
    return path


def test_each_amount_is_a_row_of_the_answer_that_splits_it_furthest(tmp_path: Path) -> None:
    paths = [
        answer(tmp_path, "accounts", ("LINKED_ACCOUNT", "RECORD_TYPE"),
               cell("1", "Usage"), cell("2", "Usage", cost="5"), cell("3", "Tax", cost="0", amortised="0")),
        answer(tmp_path, "1", ("REGION", "RECORD_TYPE"),
               cell("us-west-2", "Usage"), cell("NoRegion", "Fee", cost="9", amortised="0")),
        answer(tmp_path, about_of("1", "us-west-2", "Usage"), ("SERVICE", "USAGE_TYPE"),
               cell("Amazon EC2", "BoxUsage", cost="4", amortised="0")),
        answer(tmp_path, "2", ("REGION", "RECORD_TYPE")),
        answer(tmp_path, "tag=team", ("team", "RECORD_TYPE"),
               cell("team$search", "Usage", cost="7"), cell("team$", "Usage", cost="8")),
    ]  # fmt: skip
    broken = tmp_path / "20261121T120000Z.4.json"
    broken.write_text("{}")
    rows, problems = rows_in([*paths, broken], {"Amazon EC2": "AmazonEC2"})
    read = [dict(zip(files.COLUMNS, row, strict=True)) for row in rows]
    assert [Decimal(x["line_item_unblended_cost"]) for x in read] == [5, 9, 4, 7, 8]
    assert [x["line_item_usage_account_id"] for x in read] == ["2", "1", "1", "", ""]
    assert [x["product_region_code"] for x in read] == ["", "", "us-west-2", "", ""]
    assert [x["resource_tags"] for x in read][3:] == ['{"team": "search"}', ""]
    assert read[2]["line_item_product_code"] == "AmazonEC2"
    arns = [x["reservation_reservation_a_r_n"] for x in read]
    assert arns == ["", "said by its amortised cost of zero", "", "", ""]
    assert {x["bill_invoice_id"] for x in read} == {""}
    assert {x["line_item_currency_code"] for x in read} == {"EUR"}
    assert read[0]["line_item_usage_end_date"] == "2026-11-21"
    assert read[0]["bill_billing_period_start_date"] == "2026-11-01"
    assert problems == ["Cost Explorer's answer about 4 cannot be read (KeyError) and is left out."]


def test_every_discount_is_one_and_unknown_types_stay() -> None:
    assert line_type("Enterprise Discount Program Discount") == "EdpDiscount"
    assert line_type("Something New") == "Something New"
