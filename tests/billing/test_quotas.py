"""What a hostile export may cost: each ends in one sentence that names the limit and the remedy."""

from __future__ import annotations

import gzip
import json
import tempfile
import zipfile
from pathlib import Path

import pytest

from adapters.billing import files
from adapters.billing.bill import open_billing
from bot.errors import Unavailable
from bot.model.limits import BILL_COLUMNS, UNPACKED_FREE, ZIP_MEMBERS
from bot.model.window import EVER
from tests.billing.conftest import line, write_csv

MEBIBYTE = b"0" * (1 << 20)


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a file unpack to four megabytes, whatever its size."""
    monkeypatch.setattr(files, "unpacked_limit", lambda _: 4 << 20)
    monkeypatch.setattr(files, "UNPACKED_FREE", 0)


def told(folder: Path) -> str:
    """Return the one sentence about a folder of which nothing can be read."""
    bill = open_billing(folder)
    (sentence,) = bill.problems()
    with pytest.raises(Unavailable):
        bill.tally(EVER, ())
    return sentence


@pytest.mark.usefixtures("_small")
def test_a_small_zip_does_not_become_a_thousand_times_larger_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    (tmp_path / "export").mkdir()
    with zipfile.ZipFile(tmp_path / "export" / "bill.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for number in range(6):
            with packed.open(f"{number}.csv", "w") as member:
                member.write(MEBIBYTE)
    sentence = told(tmp_path / "export")
    assert "the zip has" in sentence
    assert "unpacks to over" in sentence
    assert sentence.endswith("unpack it yourself, or have it exported again.")
    assert not list(scratch.iterdir())


def test_a_zip_of_very_many_files_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bill.zip", "w") as packed:
        for number in range(ZIP_MEMBERS + 1):
            packed.writestr(f"{number}.csv", "")
    assert "the zip holds 1,001 files; at most 1,000 are read" in told(tmp_path)


@pytest.mark.usefixtures("_small")
def test_a_gzip_bomb_is_not_unpacked_to_its_end(tmp_path: Path) -> None:
    header = gzip.compress(write_csv(tmp_path / "elsewhere" / "x.csv", [line()]).read_bytes())
    with (tmp_path / "bill.csv.gz").open("wb") as file:
        file.write(header)
        file.write(gzip.compress(MEBIBYTE) * 6)
    (tmp_path / "elsewhere" / "x.csv").unlink()
    assert "unpacks to over" in told(tmp_path)


def test_an_honest_zip_and_gzip_are_read_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    plain = write_csv(
        tmp_path / "plain.csv", [line(line_item_resource_id=f"i-{n}") for n in range(2_000)]
    ).read_bytes()
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "a.csv.gz").write_bytes(gzip.compress(plain))
    assert open_billing(tmp_path / "export").tally(EVER, ()).total.net == 2_000
    (tmp_path / "export" / "a.csv.gz").unlink()
    with zipfile.ZipFile(tmp_path / "export" / "a.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("../out.csv", plain)
    bill = open_billing(tmp_path / "export")
    assert (bill.tally(EVER, ()).total.net, bill.problems()) == (2_000, [])
    assert not list(scratch.iterdir())
    assert len(plain) < UNPACKED_FREE


def test_a_csv_with_2000_tag_columns_is_refused_at_once(tmp_path: Path) -> None:
    rows = [
        line(**{f"resourceTags/user:t{n}": f"v{n}" for n in range(2_000)}, resource_tags="")
        for _ in range(200)
    ]
    write_csv(tmp_path / "bill.csv", rows)
    sentence = told(tmp_path)
    assert (
        f"columns; at most {BILL_COLUMNS:,} are read, so take out tags that nobody asks for"
        in sentence
    )


def test_a_tag_set_nested_without_end_costs_only_its_row_the_tags(tmp_path: Path) -> None:
    deep = '{"a":' * 100_000 + "1" + "}" * 100_000
    rows = [
        line(resource_tags=tags)
        for tags in (deep, '{"n": ' + "9" * 5_000 + "}", json.dumps({"user_team": "search"}))
    ]
    write_csv(tmp_path / "bill.csv", rows)
    bill = open_billing(tmp_path)
    assert {row.key["team"]: row.money.net for row in bill.tally(EVER, ("team",)).rows} == {
        "": 2,
        "search": 1,
    }
