import gzip
import json

import pytest

from bot.model.fleet import Market

UTILIZATION = "node_neuroncore_utilization"


def instance(id, launched, state="running", **more):
    tags = more.pop(
        "tags", {"eks:cluster-name": "llama", "team": "search", "owner": "ada", "project": "ranker"}
    )
    return {
        "InstanceId": id,
        "InstanceType": "trn1.32xlarge",
        "LaunchTime": launched.isoformat(),
        "State": {"Name": state},
        "Placement": {"AvailabilityZone": "us-west-2b"},
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
        **more,
    }


def described(*instances):
    return {"Reservations": [{"OwnerId": "111122223333", "Instances": list(instances)}]}


def stamp(at):
    return f"{at:%Y%m%dT%H%M%SZ}"


@pytest.fixture
def snapshot(build, at):
    build.node(UTILIZATION, {m: (32, m) for m in range(120)}, "i-0")

    def write(minute, *instances, region="us-west-2"):
        build.api(
            f"ec2/describe_instances/{region}/{stamp(at(minute))}.json", described(*instances)
        )

    return write


def test_an_instance_is_known_by_its_tags(build, snapshot, at):
    snapshot(0, instance("i-1", at(-600), InstanceLifecycle="spot"))
    found = build.open().read(at(30)).inventory.instances["i-1"]
    assert (found.labels.cluster, found.labels.team, found.labels.zone) == (
        "llama",
        "search",
        "us-west-2b",
    )
    assert (found.labels.region, found.labels.account) == ("us-west-2", "111122223333")
    assert (found.owner, found.project, found.market, found.running) == (
        "ada",
        "ranker",
        Market.SPOT,
        True,
    )


@pytest.mark.parametrize(
    ("tags", "cluster"),
    [
        ({"aws:eks:cluster-name": "a"}, "a"),
        ({"kubernetes.io/cluster/b": "owned"}, "b"),
        ({"eks:cluster-name": "c", "kubernetes.io/cluster/b": "owned"}, "c"),
        ({"parallelcluster:cluster-name": "d", "cluster": "e"}, "e"),
        ({"parallelcluster:cluster-name": "d"}, "d"),
        ({"aws:pcs:cluster-id": "pcs_f"}, "pcs_f"),
        ({}, ""),
    ],
)
def test_the_cluster_is_what_the_tags_name(build, snapshot, at, tags, cluster):
    snapshot(0, instance("i-1", at(-600), tags=tags))
    assert build.open().read(at(30)).inventory.instances["i-1"].labels.cluster == cluster


def test_the_newest_snapshot_at_or_before_counts(build, snapshot, at):
    snapshot(0, instance("i-1", at(-600)))
    snapshot(60, instance("i-1", at(-600), state="stopped"))
    recording = build.open()
    assert [recording.read(at(m)).inventory.instances["i-1"].state for m in (59, 60)] == [
        "running",
        "stopped",
    ]


def test_before_the_first_snapshot_counts_what_it_says_was_launched(build, snapshot, at):
    snapshot(60, instance("i-1", at(-600)), instance("i-2", at(30)))
    recording = build.open()
    assert set(recording.read(at(20)).inventory.instances) == {"i-0", "i-1"}
    assert set(recording.read(at(35)).inventory.instances) == {"i-0", "i-1", "i-2"}


def test_an_instance_that_is_no_longer_named_has_ended(build, snapshot, at):
    snapshot(0, instance("i-1", at(-600)), instance("i-2", at(-600)))
    snapshot(60, instance("i-2", at(-600)))
    gone = build.open().read(at(90)).inventory.instances["i-1"]
    assert (gone.state, gone.ended_at) == ("terminated", at(60))


def test_regions_are_told_apart(build, snapshot, at):
    snapshot(0, instance("i-1", at(-600)))
    snapshot(30, instance("i-2", at(-600)), region="us-east-1")
    found = build.open().read(at(60)).inventory.instances
    assert (found["i-1"].running, found["i-2"].labels.region) == (True, "us-east-1")


def test_the_end_is_when_ec2_says(build, snapshot, at):
    reason = f"User initiated ({at(20):%Y-%m-%d %H:%M:%S} GMT)"
    snapshot(60, instance("i-1", at(-600), state="terminated", StateTransitionReason=reason))
    assert build.open().read(at(90)).inventory.instances["i-1"].ended_at == at(20)


def test_an_instance_that_only_metrics_show_runs_while_it_reports(build, at):
    build.node(UTILIZATION, {m: (32, m) for m in range(30)}, "i-7")
    build.node(UTILIZATION, {m: (32, m) for m in range(0, 3000, 5)}, "i-8")
    recording = build.open()
    found = recording.read(at(30)).inventory.instances["i-7"]
    assert (found.running, found.launched_at, found.labels.cluster) == (True, at(0), "llama")
    later = recording.read(at(2900)).inventory
    assert (later.instances["i-7"].state, later.instances["i-8"].state) == ("unknown", "running")
    assert later.asof is None


def test_a_node_that_its_place_no_longer_names_after_its_last_reading_ended_then(
    build, snapshot, at
):
    build.node(UTILIZATION, {m: (32, m) for m in range(30)}, "i-7")
    snapshot(60, instance("i-0", at(-600)))
    gone = build.open().read(at(65)).inventory.instances["i-7"]
    assert (gone.running, gone.ended_at) == (False, at(35))


def test_a_place_without_any_instance_has_no_ghost(build, at):
    build.node(UTILIZATION, {m: (32, m) for m in range(30)}, "i-7")
    build.api(f"ec2/describe_instances/us-west-2/{stamp(at(60))}.json", described())
    assert not build.open().read(at(65)).inventory.instances["i-7"].running


@pytest.mark.parametrize(
    ("region", "broken"),
    [("us-east-1", False), ("us-west-2", True)],
    ids=["another region says nothing", "a broken answer says nothing"],
)
def test_a_node_runs_where_nobody_says_otherwise(build, at, region, broken):
    build.node(UTILIZATION, {m: (32, m) for m in range(30)}, "i-7")
    build.api(
        f"ec2/describe_instances/{region}/{stamp(at(60))}.json", "{}" if broken else described()
    )
    assert build.open().read(at(65)).inventory.instances["i-7"].running


def test_a_node_that_reports_after_its_place_was_described_without_it_runs(build, snapshot, at):
    build.node(UTILIZATION, {m: (32, m) for m in range(120)}, "i-7")
    snapshot(60, instance("i-0", at(-600)))
    assert build.open().read(at(115)).inventory.instances["i-7"].running


def test_frames_carry_the_inventorys_labels(build, snapshot, at):
    snapshot(0, instance("i-0", at(-600), tags={"team": "search"}))
    reading = build.open().read(at(30))
    (thing,) = reading.frames["node"].things
    assert (thing.cluster, thing.team, thing.zone, thing.instance_type) == (
        "llama",
        "search",
        "us-west-2b",
        "trn1.32xlarge",
    )
    assert reading.inventory.instances["i-0"].labels == thing


def test_nothing_is_built_anew_while_nothing_changes(build, snapshot, at):
    snapshot(0, instance("i-0", at(-600)))
    recording = build.open()
    assert recording.read(at(30)).inventory is recording.read(at(35)).inventory


def test_a_broken_response_is_reported_and_the_one_before_used(build, snapshot, at):
    snapshot(0, instance("i-1", at(-600)))
    build.api(f"ec2/describe_instances/us-west-2/{stamp(at(10))}.json", "{")
    build.api(f"ec2/describe_instances/us-west-2/{stamp(at(20))}.json", "{}")
    build.api(
        f"ec2/describe_instances/us-west-2/{stamp(at(30))}.json", described({"InstanceId": "i-9"})
    )
    recording = build.open()
    assert recording.read(at(60)).inventory.instances["i-1"].running
    assert [x.rpartition("/")[2].partition(":")[0] for x in recording.problems()] == [
        f"{stamp(at(m))}.json" for m in (10, 20, 30)
    ]
    assert "'Reservations' is missing" in recording.problems()[1]


def test_pages_and_gzip_are_read(build, snapshot, at):
    path = build.api(f"ec2/describe_instances/us-west-2/{stamp(at(0))}.json", [])
    path.unlink()
    pages = [described(instance("i-1", at(-60))), described(instance("i-2", at(-60)))]
    path.with_suffix(".json.gz").write_bytes(gzip.compress(json.dumps(pages).encode()))
    assert {"i-1", "i-2"} <= set(build.open().read(at(30)).inventory.instances)


def test_storage_and_reservations_are_described(build, snapshot, at):
    snapshot(0, instance("i-1", at(-600)))
    created = at(-60).isoformat()
    attached = {
        "VolumeId": "vol-1",
        "Size": 500,
        "VolumeType": "gp3",
        "State": "in-use",
        "CreateTime": created,
    }
    loose = {
        **attached,
        "VolumeId": "vol-2",
        "State": "available",
        "Attachments": [],
        "CreateTime": at(45).isoformat(),
    }
    attached["Attachments"] = [{"InstanceId": "i-1"}]
    build.api(
        f"ec2/describe_volumes/us-west-2/{stamp(at(60))}.json", {"Volumes": [attached, loose]}
    )
    lustre = {
        "FileSystemId": "fs-1",
        "StorageCapacity": 4800,
        "CreationTime": created,
        "FileSystemType": "LUSTRE",
    }
    lustre["LustreConfiguration"] = {
        "DeploymentType": "PERSISTENT_2",
        "PerUnitStorageThroughput": 250,
    }
    build.api(f"fsx/describe_file_systems/us-west-2/{stamp(at(0))}.json", {"FileSystems": [lustre]})
    block = {
        "CapacityReservationId": "cr-1",
        "InstanceType": "trn2.48xlarge",
        "TotalInstanceCount": 4,
        "AvailableInstanceCount": 3,
        "StartDate": created,
        "EndDate": at(900).isoformat(),
        "ReservationType": "capacity-block",
        "OwnerId": "444455556666",
        "State": "active",
    }
    expired = {**block, "CapacityReservationId": "cr-2", "State": "expired"}
    build.api(
        f"ec2/describe_capacity_reservations/us-west-2/{stamp(at(0))}.111122223333.json",
        {"CapacityReservations": [block, expired]},
    )
    recording = build.open()
    early, late = recording.read(at(30)).inventory, recording.read(at(70)).inventory
    assert [x.labels.resource for x in early.volumes] == ["vol-1"]
    assert [(x.labels.resource, x.attached_to, x.labels.cluster) for x in late.volumes] == [
        ("vol-1", "i-1", "llama"),
        ("vol-2", "", ""),
    ]
    assert [(x.storage_gib, x.throughput_mbps_per_tib) for x in late.file_systems] == [(4800, 250)]
    assert [(x.labels.resource, x.available, x.market) for x in late.reservations] == [
        ("cr-1", 3, Market.CAPACITY_BLOCK)
    ]
    # Another account may share its reservation, and says whose it is.
    assert late.reservations[0].labels.account == "444455556666"
