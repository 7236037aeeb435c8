"""Describe what moto's EC2 runs: real requests and responses of botocore's, filters and pages included."""

import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import boto3
import pytest

from adapters.aws.api.calls import Calls
from adapters.aws.api.operations import Place
from adapters.aws.api.responses import ApiCall, ResponseHistory
from adapters.aws.files import Problems
from adapters.aws.inventory.ownership import TagNames
from adapters.aws.inventory.poller import ClusterPoller
from adapters.aws.inventory.snapshots import Snapshots
from bot.model.fleet import Inventory
from bot.model.labels import Labels
from tests.aws_live.conftest import FIVE, TYPES

AMI = "ami-12c6146b"
HOME = Place("us-east-1", account="123456789012")


@pytest.fixture
def ec2(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    urllib.request.urlopen(
        urllib.request.Request(f"http://{host}:{port}/moto-api/reset", method="POST")
    ).close()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    client = boto3.client("ec2", region_name="us-east-1")
    yield client
    client.close()
    server.stop()


def run(ec2, kind: str, team: str, **more: str) -> str:
    pairs = [{"Key": key, "Value": value} for key, value in {"team": team, **more}.items()]
    tags = [{"ResourceType": "instance", "Tags": pairs}]
    made = ec2.run_instances(
        ImageId=AMI, MinCount=1, MaxCount=1, InstanceType=kind, TagSpecifications=tags
    )
    return made["Instances"][0]["InstanceId"]


def test_instances_and_volumes_over_time(ec2):
    node, other = run(ec2, "trn1.32xlarge", "search"), run(ec2, "trn1.2xlarge", "search")
    volume = ec2.create_volume(Size=100, AvailabilityZone="us-east-1a")["VolumeId"]
    at = datetime.now(UTC).replace(microsecond=0) + FIVE
    before = described(ResponseHistory(Problems()), at)
    assert set(before.instances) == {node, other}
    assert before.instances[node].labels.only(("team", "instance_type", "account")) == Labels(
        team="search", instance_type="trn1.32xlarge", account="123456789012"
    )
    assert next(x for x in before.volumes if x.labels.resource == volume).state == "available"
    ec2.terminate_instances(InstanceIds=[node])
    after = described(ResponseHistory(Problems()), at + FIVE)
    assert (after.instances[node].state, after.instances[other].state) == ("terminated", "running")


@pytest.mark.parametrize(
    ("tags", "cluster", "group", "launcher"),
    [
        (
            {"parallelcluster:cluster-name": "hpc", "parallelcluster:queue-name": "trn2"},
            "hpc",
            "trn2",
            "ParallelCluster hpc",
        ),
        (
            {"aws:pcs:cluster-id": "pcs_1a2b", "aws:pcs:compute-node-group-id": "pcs_3c4d"},
            "pcs_1a2b",
            "pcs_3c4d",
            "AWS PCS pcs_1a2b",
        ),
    ],
)
def test_a_node_of_slurm_belongs_to_its_cluster_and_queue(ec2, tags, cluster, group, launcher):
    node = run(ec2, "trn1.32xlarge", "search", **tags)
    at = datetime.now(UTC).replace(microsecond=0) + FIVE
    found = described(ResponseHistory(Problems()), at).instances[node]
    assert (found.labels.cluster, found.node_group) == (cluster, group)
    assert found.launched_by is not None
    assert found.launched_by.name == launcher


def test_an_instance_that_is_no_longer_named_has_ended(ec2):
    node = run(ec2, "trn1.32xlarge", "search")
    at, heard = datetime.now(UTC).replace(microsecond=0) + FIVE, ResponseHistory(Problems())
    assert described(heard, at).instances[node].running
    heard.put(ApiCall("ec2", "describe_instances", HOME), at + FIVE, [{"Reservations": []}])
    gone = inventory(heard, at + FIVE).instances[node]
    assert (gone.state, gone.ended_at) == ("terminated", at + FIVE)


def described(heard: ResponseHistory, at: datetime) -> Inventory:
    """Describe all that moto runs; its filter of instance types knows no wildcards, EC2's does."""
    calls = Calls(lambda: at)
    for operation in ("describe_instances", "describe_volumes"):
        heard.put(
            ApiCall("ec2", operation, HOME),
            at,
            list(calls.pages(HOME, "ec2", operation, MaxResults=5)),
        )
    return inventory(heard, at)


def inventory(heard: ResponseHistory, at: datetime) -> Inventory:
    return Snapshots(heard, TagNames(), TYPES, timedelta(days=15)).at(at).inventory


def test_clusters_and_node_groups_of_two_accounts(ec2, monkeypatch):
    role = {
        "roleArn": "arn:aws:iam::123456789012:role/eks",
        "resourcesVpcConfig": {"subnetIds": []},
    }
    node_role, subnet = (
        "arn:aws:iam::123456789012:role/node",
        ec2.describe_subnets()["Subnets"][0]["SubnetId"],
    )
    eks = boto3.client("eks", region_name="us-east-1")
    eks.create_cluster(name="llama", **role)
    eks.create_nodegroup(
        clusterName="llama", nodegroupName="trn", subnets=[subnet], nodeRole=node_role
    )
    at = datetime.now(UTC).replace(microsecond=0) + FIVE
    other = Place("us-east-1", "arn:aws:iam::444455556666:role/trnbot-reader", "444455556666")
    heard, calls = ResponseHistory(Problems()), Calls(lambda: at)
    assert list(ClusterPoller(calls, heard).refresh([HOME, other], at)) == []
    found = inventory(heard, at)
    assert [
        (x.name, x.labels.account, [group.name for group in x.node_groups]) for x in found.eks
    ] == [("llama", "123456789012", ["trn"])]
    eks.delete_nodegroup(clusterName="llama", nodegroupName="trn")
    eks.delete_cluster(name="llama")
    assert list(ClusterPoller(calls, heard).refresh([HOME, other], at + FIVE)) == [], (
        "asked once an hour"
    )
    assert list(ClusterPoller(calls, heard).refresh([HOME, other], at + 13 * FIVE)) == []
    assert inventory(heard, at + 13 * FIVE).eks == ()
    eks.close()
