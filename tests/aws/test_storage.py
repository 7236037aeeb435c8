"""Storage that nobody uses: from recorded answers of AWS to the list with its dollars a month."""

import csv
import json
from datetime import timedelta
from decimal import Decimal

import pytest

from adapters.billing.bill import open_billing
from bot.answers.cost.storage import storage
from bot.cards.card import Table
from bot.knowledge import load_knowledge
from bot.model.notification import State
from bot.model.request import Request, User
from tests.aws_live.serialize import validated
from tests.belonging import MEMBER
from tests.builders import ports_over

FSX = {"FileSystemId": "fs-0123456789abcdef0"}


class Nothing:
    """A store that remembers nothing."""

    def load(self, now):
        return State()

    def versions(self, most):
        return ()


def answered(build, service, operation, response, at, shape):
    """Record an answer that botocore's own model takes for one."""
    text = json.dumps(validated(service, shape, response), default=str)
    build.api(f"{service}/{operation}/us-west-2/{at:%Y%m%dT%H%M%SZ}.json", text)


def volume(name, at, kind="gp3", size=100, state="available", **more):
    return {
        "VolumeId": name,
        "Size": size,
        "VolumeType": kind,
        "State": state,
        "CreateTime": at,
        **more,
    }


def listed(usage_type, usd, **more):
    of = {"usagetype": usage_type, "regionCode": "us-west-2", **more}
    dimension = {"unit": "GB-Mo", "pricePerUnit": {"USD": usd}}
    term = {"effectiveDate": "2026-09-01T00:00:00Z", "priceDimensions": {"x": dimension}}
    return json.dumps({"product": {"attributes": of}, "terms": {"OnDemand": {"y": term}}})


@pytest.fixture
def ask(build, at, tmp_path):
    """Return the answer to `storage` over two loose volumes, an attached one, and a file system without clients."""
    build.node("node_neuroncore_utilization", {m: (32, m) for m in range(120)})
    zeros = dict.fromkeys(range(120), (1, 0))
    for name in (
        "ClientConnections",
        "DataReadOperations",
        "DataWriteOperations",
        "MetadataOperations",
    ):
        build.add(name, FSX, zeros, namespace="AWS/FSx")
    tags = [{"Key": "team", "Value": "search"}]
    volumes = [
        volume("vol-0a", at(-9000), size=500, Tags=tags),
        volume("vol-0b", at(-50), "io2", size=8),
        volume(
            "vol-0c",
            at(-9000),
            state="in-use",
            Attachments=[{"InstanceId": "i-1", "State": "attached"}],
        ),
    ]
    system = {**FSX, "StorageCapacity": 1200, "CreationTime": at(-9000), "FileSystemType": "LUSTRE",
              "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125}}  # fmt: skip
    answered(build, "ec2", "describe_volumes", {"Volumes": volumes}, at(0), "DescribeVolumes")
    answered(
        build,
        "fsx",
        "describe_file_systems",
        {"FileSystems": [system]},
        at(0),
        "DescribeFileSystems",
    )

    async def answer(cluster="", prices=()):
        if prices:
            build.api(
                "pricing/get_products/us-east-1/20261117T120000Z.json", {"PriceList": list(prices)}
            )
        (tmp_path / "none").mkdir(exist_ok=True)
        seen, state = build.open(), Nothing()
        ports = ports_over(
            seen, state, billing=open_billing(tmp_path / "none"), knowledge=load_knowledge()
        )
        return await storage(ports, Request("storage", User("u"), at(115), "web", MEMBER), cluster)

    return answer


async def test_each_is_listed_with_its_dollars_a_month(ask, at):
    card = await ask()
    found = {one["resource"]: one for one in card.data["storage"]}
    assert set(found) == {"vol-0a", "vol-0b", FSX["FileSystemId"]}
    assert found["vol-0a"]["usd_per_month"] == Decimal("40.00")
    assert found["vol-0a"]["unused_since"] == at(
        0
    )  # the first answer: it may have been attached just before
    assert found[FSX["FileSystemId"]]["usd_per_month"] == Decimal("174.00")
    assert found["vol-0b"]["usd_per_month"] is None
    assert card.data["usd_per_month"] == Decimal("214.00")
    assert card.title == "2 volumes and 1 file system unused: $214 a month"
    (table,) = (block for block in card.blocks if isinstance(block, Table))
    assert [(row[0], row[4], row[5]) for row in table.rows] == [
        (FSX["FileSystemId"], "–", "$174"), ("vol-0a", "search", "$40.00"), ("vol-0b", "–", "?")]  # fmt: skip


async def test_a_volume_is_unused_since_it_was_last_seen_attached_not_since_it_was_made(
    ask, build, at
):
    for minute, names in ((60, ["vol-0a"]), (70, ["vol-0a", "vol-0n"])):
        volumes = {
            "Volumes": [volume(name, at(65 if name == "vol-0n" else -9000)) for name in names]
        }
        volumes["Volumes"].append(volume("vol-0c", at(-9000)))
        answered(build, "ec2", "describe_volumes", volumes, at(minute), "DescribeVolumes")
    found = {one["resource"]: one["unused_since"] for one in (await ask()).data["storage"]}
    # Seen attached at 0 and not at 60; loose in every answer; made between two answers, so never attached.
    assert (found["vol-0c"], found["vol-0a"], found["vol-0n"]) == (at(60), at(0), at(65))


async def test_a_volume_in_use_the_day_before_is_not_unused_since_it_was_made(ask, build, at):
    # vol-0c is attached at 0; an answer that broke off leaves it out; then it is listed as attached to nothing, made 6 days before.
    answered(
        build,
        "ec2",
        "describe_volumes",
        {"Volumes": [volume("vol-0a", at(-9000))]},
        at(60),
        "DescribeVolumes",
    )
    later = {"Volumes": [volume(name, at(-9000)) for name in ("vol-0a", "vol-0c", "vol-0z")]}
    answered(build, "ec2", "describe_volumes", later, at(70), "DescribeVolumes")
    found = {one["resource"]: one["unused_since"] for one in (await ask()).data["storage"]}
    # vol-0z is older than the answer that did not name it: nobody knows that it was not attached until then.
    assert (found["vol-0a"], found["vol-0c"], found["vol-0z"]) == (at(0), at(70), at(70))


async def test_the_price_list_comes_before_the_dated_fallback(ask):
    prices = [listed("USW2-EBS:VolumeUsage.gp3", "0.0880"), listed("USW2-EBS:VolumeUsage.io2", "0.125"),
              listed("USW2-EBS:VolumeP-IOPS.io2", "0.065"), listed("USW2-Storage.SSD.125", "0.20", operation="CreateFileSystem:Lustre"),
              listed("USW2-Storage.SSD.125", "9", operation="CreateFileSystem:Windows")]  # fmt: skip
    card = await ask(prices=prices)
    found = {one["resource"]: str(one["usd_per_month"]) for one in card.data["storage"]}
    assert found == {"vol-0a": "44.00", "vol-0b": "1.00", FSX["FileSystemId"]: "240.00"}
    assert "price list of Nov 17, 2026" in card.data["storage"][0]["price"]


async def test_nothing_unused_is_said(ask):
    card = await ask("llama")
    assert card.data["storage"] == []
    assert card.title == "No storage of llama is unused, as far as could be read"


BILL = ["line_item_usage_account_id", "line_item_line_item_type", "line_item_product_code", "line_item_usage_type",
        "line_item_resource_id", "line_item_usage_start_date", "line_item_usage_end_date", "line_item_unblended_cost"]  # fmt: skip


async def test_s3_requests_stand_apart_from_bytes_kept_by_bucket(ask, at, tmp_path):
    (tmp_path / "none").mkdir()
    with (tmp_path / "none" / "bill.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(BILL)
        for back in range(1, 12):
            start = at(115).replace(hour=0, minute=0) - timedelta(days=back)
            day = [start.isoformat(), (start + timedelta(days=1)).isoformat()]
            for usage_type, bucket, usd in (
                ("USW2-TimedStorage-ByteHrs", "corpus", "2"),
                ("USW2-Requests-Tier1", "corpus", "5"),
                ("USW2-Requests-Tier2", "corpus", "1"),
                ("USW2-Requests-Tier2", "logs", "0.5"),
                ("USW2-Requests-Tier1", "", "0.25"),
            ):
                writer.writerow(
                    ["111122223333", "Usage", "AmazonS3", usage_type, bucket, *day, usd]
                )
    card = await ask()
    found = {
        x["bucket"]: (x["kept_usd"], x["requests_usd"], x["total_usd"])
        for x in card.data["s3"]["buckets"]
    }
    assert found == {
        "corpus": (14, 42, 56),
        "logs": (0, Decimal("3.5"), Decimal("3.5")),
        "": (0, Decimal("1.75"), Decimal("1.75")),
    }
    assert (card.data["s3"]["kept_usd"], card.data["s3"]["requests_usd"]) == (14, Decimal("47.25"))
    assert (card.data["s3"]["until"] - card.data["s3"]["since"]).days == 7
    (table,) = (
        block for block in card.blocks if isinstance(block, Table) and "S3" in block.caption
    )
    assert table.rows[0] == ("corpus", "$14.00", "$42.00", "$56.00")
    assert table.rows[-1] == ("(no bucket named)", "$0.00", "$1.75", "$1.75")


async def test_a_file_system_moves_the_bytes_of_a_step_over_its_seconds(ask, build):
    """Two disks report a sum a minute: 1.8 GB read and 0.6 GB written are 40 MB/s; ten times that for ten minutes is 400 MB/s."""
    for name, gb in (("DataReadBytes", 1.8), ("DataWriteBytes", 0.6)):
        minutes = {m: (2, gb * 1e9 * (10 if 60 <= m < 70 else 1)) for m in range(120)}
        build.add(name, FSX, minutes, namespace="AWS/FSx", peak=gb * 1e9)
    (load,) = (await ask()).data["file_systems"]
    assert load["provisioned_bytes_per_second"] == 1.2 * 125e6
    assert load["bytes_per_second"] == pytest.approx((1.8e9 + 0.6e9) / 60)
    assert load["peak_bytes_per_second"] == pytest.approx(5 * (18e9 + 6e9) / 300)
    assert load["verdict"] == "beyond its limit: cache or burst credits"


async def test_of_one_cluster_its_own_file_systems_alone_are_told(ask, build):
    for name in ("DataReadBytes", "DataWriteBytes"):
        build.add(name, FSX, dict.fromkeys(range(120), (2, 1e9)), namespace="AWS/FSx")
    assert len((await ask()).data["file_systems"]) == 1
    assert (await ask("llama")).data["file_systems"] == [], "no tag gives it to a cluster"
