"""Copy a billing export from moto's S3: what is new by ETag, a refresh whole or not at all."""

import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from adapters.aws.api.calls import Calls
from adapters.aws.api.operations import Place
from adapters.aws.bill.exports import ExportCache
from bot.errors import Unavailable, WrongInput

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@dataclass
class Bucket:
    s3: Any
    calls: Calls
    folder: Path
    now: list[datetime]

    def put(self, key: str, text: str) -> None:
        self.s3.put_object(Bucket="exports", Key=key, Body=text.encode())

    def cache(self, address: str = "s3://exports/cur") -> ExportCache:
        return ExportCache(self.calls, address, self.folder, Place("us-east-1"))

    def copied(self) -> dict[str, str]:
        files = (p for p in self.folder.rglob("*") if p.is_file() and not p.name.startswith("."))
        return {p.relative_to(self.folder).as_posix(): p.read_text() for p in files}


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    urllib.request.urlopen(
        urllib.request.Request(f"http://{host}:{port}/moto-api/reset", method="POST")
    ).close()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    s3 = boto3.client("s3", region_name="us-east-1")
    s3.create_bucket(Bucket="exports")
    now = [NOON]
    yield Bucket(s3, Calls(lambda: now[0]), tmp_path / "copy", now)
    s3.close()
    server.stop()


def test_only_what_is_new_is_fetched_and_what_is_gone_is_dropped(bucket):
    bucket.put("cur/data/BILLING_PERIOD=2026-11/a.parquet", "one")
    bucket.put("cur/data/BILLING_PERIOD=2026-11/b.csv.gz", "two")
    bucket.put("cur/metadata/Manifest.json", "{}")
    bucket.put("another/c.parquet", "not ours")
    assert bucket.cache().refresh() == 2
    assert bucket.cache().refresh() == 0
    bucket.put("cur/data/BILLING_PERIOD=2026-11/a.parquet", "one, restated")
    bucket.s3.delete_object(Bucket="exports", Key="cur/data/BILLING_PERIOD=2026-11/b.csv.gz")
    assert bucket.cache().refresh() == 2
    assert bucket.copied() == {"data/BILLING_PERIOD=2026-11/a.parquet": "one, restated"}
    assert bucket.calls.meter.today().calls["s3:GetObject"] == 3


def test_of_a_legacy_report_the_newest_version_of_a_month_counts(bucket):
    month = "cur/report/20261101-20261201"
    bucket.put(f"{month}/aaaaaaaa-0000-0000-0000-000000000000/r-1.csv.gz", "old")
    bucket.cache().refresh()
    bucket.put(f"{month}/bbbbbbbb-0000-0000-0000-000000000000/r-1.csv.gz", "new")
    bucket.cache().refresh()
    assert list(bucket.copied().values()) == ["new"]


def test_it_is_refreshed_once_an_hour(bucket):
    cache = bucket.cache()
    cache.keep_fresh()
    bucket.put("cur/a.csv", "one")
    cache.keep_fresh()
    assert bucket.copied() == {}
    bucket.now[0] += timedelta(hours=1)
    cache.keep_fresh()
    assert bucket.copied() == {"a.csv": "one"}


def test_a_bucket_that_is_not_there_leaves_the_copy(bucket):
    bucket.put("cur/a.csv", "one")
    bucket.cache().refresh()
    with pytest.raises(Unavailable, match=r"s3:ListBucket in us-east-1 is broken \(NoSuchBucket\)"):
        bucket.cache("s3://gone/cur").refresh()
    assert bucket.copied() == {"a.csv": "one"}


@pytest.mark.parametrize(
    "address", ["exports/cur", "https://exports/cur", "s3://UPPER/cur", "s3://"]
)
def test_another_address_is_refused(bucket, address):
    with pytest.raises(WrongInput, match="write s3://BUCKET/PREFIX"):
        bucket.cache(address)


def test_a_file_that_is_no_export_is_named(bucket):
    bucket.put("cur/data/BILLING_PERIOD=2026-11/a.csv.zip", "one")
    bucket.put("cur/metadata/Manifest.json", "{}")
    cache = bucket.cache()
    assert (cache.refresh(), cache.problems()) == (1, ())
    bucket.put("cur/data/BILLING_PERIOD=2026-11/b.csv.bz2", "two")
    assert cache.refresh() == 0
    (sentence,) = cache.problems()
    assert (
        "cur/data/BILLING_PERIOD=2026-11/b.csv.bz2: have the export delivered as parquet or csv"
        in sentence
    )
    bucket.put("cur/c.xlsx", "three")
    cache.refresh()
    assert "2 files under" in cache.problems()[0]
    assert bucket.copied() == {"data/BILLING_PERIOD=2026-11/a.csv.zip": "one"}
