"""The bill's database reads the export's folder, and reaches nothing else whatever is asked of it."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from adapters.billing.bill import USUAL, Bill, open_billing
from bot.model.window import EVER
from tests.billing.conftest import line, write_csv


@pytest.fixture
def bill(tmp_path: Path) -> Bill:
    write_csv(tmp_path / "recording" / "billing" / "bill.csv", [line()])
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.csv").write_text("a,b\n1,2\n")
    return open_billing(tmp_path / "recording")


@pytest.mark.parametrize(
    "query",
    [
        "FROM read_csv('{outside}/secret.csv')",
        "FROM read_csv('{outside}/*.csv')",
        "FROM read_csv('{folder}/../../outside/secret.csv')",
        "FROM read_text('/etc/passwd')",
        "FROM read_blob('/proc/self/environ')",
        "FROM read_parquet('/proc/self/environ')",
        "FROM read_json('/etc/passwd')",
        "FROM sniff_csv('/etc/passwd')",
        "FROM glob('/etc/*')",
        "FROM parquet_metadata('/etc/passwd')",
        "COPY (SELECT 1) TO '{outside}/written.csv'",
        "EXPORT DATABASE '{outside}/written'",
        "ATTACH '{outside}/written.db' AS other",
        "FROM read_csv('https://127.0.0.1:1/x.csv')",
        "FROM read_csv('http://169.254.169.254/latest/meta-data')",
        "FROM 's3://bucket/x.parquet'",
        "INSTALL httpfs",
        "INSTALL spatial FROM community",
        "LOAD httpfs",
        "LOAD '{outside}/mine.duckdb_extension'",
        "CREATE PERSISTENT SECRET s (TYPE s3)",
        "SET enable_external_access = true",
        "SET GLOBAL allowed_directories = ['/']",
        "RESET allowed_directories",
        "SET lock_configuration = false",
        "RESET lock_configuration",
        "SET memory_limit = '1TB'",
        "SET temp_directory = '{outside}'",
        "SET autoload_known_extensions = true",
        "SET threads = 64",
        "PRAGMA enable_profiling",
        "FROM frame_of_python",
    ],
)
def test_duckdb_reaches_no_file_no_network_no_extension_and_no_setting(
    bill: Bill, tmp_path: Path, query: str
) -> None:
    frame_of_python = {"a": [1]}
    bill.tally(EVER, ())
    where = {"outside": tmp_path / "outside", "folder": tmp_path / "recording" / "billing"}
    for db in (bill._db, bill._db.cursor()):
        with pytest.raises(duckdb.Error):
            db.execute(query.format_map(where)).fetchall()
    assert os.listdir(tmp_path / "outside") == ["secret.csv"]
    assert frame_of_python


def test_memory_and_disk_of_queries_are_bounded_and_no_extension_loads_by_itself(
    bill: Bill,
) -> None:
    settings = dict(bill._db.execute("SELECT name, value FROM duckdb_settings()").fetchall())
    assert settings["enable_external_access"] == settings["autoinstall_known_extensions"] == "false"
    assert (
        settings["autoload_known_extensions"] == settings["python_enable_replacements"] == "false"
    )
    assert (settings["lock_configuration"], settings["max_temp_directory_size"]) == (
        "true",
        "8.0 GiB",
    )
    free = duckdb.connect().execute("SELECT current_setting('memory_limit')").fetchall()[0][0]
    assert settings["memory_limit"] != free


def test_a_link_out_of_the_exports_folder_is_not_read(tmp_path: Path) -> None:
    write_csv(tmp_path / "outside.csv", [line()])
    folder = tmp_path / "recording" / "billing"
    folder.mkdir(parents=True)
    (folder / "bill.csv").symlink_to(tmp_path / "outside.csv")
    assert open_billing(tmp_path / "recording").problems() == [
        "bill.csv could not be read and is left out: it is a link out of the folder; put the file itself there."
    ]


def test_a_folder_that_is_a_link_itself_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_csv(tmp_path / "recording" / "billing" / "bill.csv", [line()])
    (tmp_path / "linked").symlink_to(tmp_path / "recording")
    assert open_billing(tmp_path / "linked").tally(EVER, ()).total.net == 1
    monkeypatch.chdir(tmp_path)
    assert open_billing(Path("linked")).tally(EVER, ()).total.net == 1


def test_a_query_can_be_interrupted_from_another_thread(bill: Bill) -> None:
    with bill._cursor() as db:
        stop = threading.Timer(0.3, db.interrupt)
        stop.start()
        with pytest.raises(duckdb.InterruptException):
            db.execute(
                "SELECT count(*) FROM range(100000) a, range(100000) b WHERE hash(a.range + b.range) = 0"
            ).fetchall()
        stop.join()
    assert bill.tally(EVER, ()).total.net == 1


def test_what_memory_does_not_hold_is_written_where_the_bot_keeps_its_files(
    bill: Bill, tmp_path: Path
) -> None:
    place = tmp_path / "state" / "scratch"
    for _ in range(2):
        opened = open_billing(tmp_path / "recording", replace(USUAL, scratch=place))
        with opened._cursor() as db:
            ((spills,),) = db.execute("SELECT current_setting('temp_directory')").fetchall()
        assert Path(spills).parent == place
