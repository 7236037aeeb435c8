"""What hostile files of a recording may cost: each ends in one sentence, and what came before it is used."""

from __future__ import annotations

import gzip
import time
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from adapters.aws.api import responses
from adapters.aws.files import Problems, blocks
from adapters.aws.metrics.parquet_files import connect_locked
from bot.model.limits import LINE_BYTES


def test_a_gzip_bomb_among_metrics_is_left_where_it_becomes_too_much(tmp_path: Path) -> None:
    path = tmp_path / "bomb.jsonl.gz"
    member = gzip.compress((b"{}" + b" " * 1021 + b"\n") * (32 << 10))
    path.write_bytes(member * 24)
    problems, began = Problems(), time.process_time()
    lines = sum(len(some) for _, some in blocks(path, "bomb", problems))
    assert time.process_time() - began < 20
    assert lines < 24 * (32 << 10) // 2
    (sentence,) = problems.sentences()
    assert "it is left here, the lines before are used: the file has" in sentence


def test_a_line_without_an_end_takes_no_more_than_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    path.write_bytes(b"{}\n" + b"x" * (LINE_BYTES + (1 << 20)))
    problems = Problems()
    assert [some for _, some in blocks(path, "long", problems) if some == [b"{}"]]
    assert (
        f"a line has over {LINE_BYTES:,} bytes; write one record a line" in problems.sentences()[0]
    )


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
