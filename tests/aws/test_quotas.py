"""What hostile files of a recording may cost: each ends in one sentence, and what came before it is used."""

from __future__ import annotations

import gzip
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from adapters.aws import files
from adapters.aws.api import responses
from adapters.aws.files import Problems
from adapters.aws.metrics.parquet_files import connect_locked
from bot.model.limits import LINE_BYTES


def test_a_gzip_bomb_among_metrics_is_left_where_it_becomes_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "unpacked_limit", lambda _: 3_000_000)
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress((b"{}" + b" " * 1021 + b"\n") * 9_000))
    read = list(files.blocks(path, "bomb", problems := Problems()))
    assert sum(len(some) for _, some in read) == 3_014_656 // 1_024
    (sentence,) = problems.sentences()
    assert "it is left here, the lines before are used: the file has" in sentence


def test_a_line_without_an_end_takes_no_more_than_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LINE_BYTES", 1 << 18)
    path = tmp_path / "long.jsonl"
    path.write_bytes(b"{}\n" + b"x" * (1 << 19))
    read = list(files.blocks(path, "long", problems := Problems()))
    assert (read[0], len(read)) == ((1, [b"{}"]), 5)
    assert (
        f"a line has over {LINE_BYTES:,} bytes; write one record a line" in problems.sentences()[0]
    )


def test_lines_are_counted_through_all_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "wide.jsonl"
    path.write_bytes((b"{}" + b" " * 9_000 + b"\n") * 40 + b"no json\n{}")
    read = list(files.objects(path, "wide", problems := Problems(), lambda x: x, "record"))
    assert [number for _, number in read] == [*range(1, 41), 42]
    assert "wide, line 41: not JSON" in problems.sentences()[0]


def test_a_response_that_unpacks_to_too_much_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses, "RESPONSE_BYTES", 1_000)
    path = tmp_path / "api/ec2/describe_volumes/us-west-2/20261101T000000Z.json.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(b"[" + b" " * 5_000 + b"{}]"))
    recorded = responses.RecordedResponses(tmp_path / "api", problems := Problems())
    assert recorded.histories("ec2", "describe_volumes", lambda pages, _: pages) == []
    assert "over 1,000 bytes" in problems.sentences()[0]


def test_parquet_is_read_by_a_database_that_reaches_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "it's").mkdir()
    (tmp_path / "it's" / "a.csv").write_text("a\n1\n")
    with closing(connect_locked([tmp_path / "it's" / "a.parquet"])) as db:
        assert db.execute("FROM read_csv(?)", [str(tmp_path / "it's" / "a.csv")]).fetchall() == [
            (1,)
        ]
        for query in (
            "FROM read_text('/etc/passwd')",
            "LOAD httpfs",
            "INSTALL httpfs",
            "SET enable_external_access = true",
        ):
            with pytest.raises(duckdb.Error):
                db.execute(query)
