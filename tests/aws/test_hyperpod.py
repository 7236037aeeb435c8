"""Nodes of HyperPod come from SageMaker: EC2 lists none of them."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from adapters.aws.api.operations import Place
from adapters.aws.api.responses import ResponseHistory
from adapters.aws.files import Problems
from adapters.aws.inventory.ownership import TagNames
from adapters.aws.inventory.poller import ResourcePoller
from adapters.aws.inventory.snapshots import Snapshots
from bot.knowledge import load_knowledge
from tests.aws_live.serialize import validated

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)
HERE = Place("us-west-2", account="111122223333")
STEP = timedelta(minutes=5)


@dataclass
class Account:
    """Answer for one account: its HyperPod clusters, each with the ids of its nodes."""

    clusters: dict[str, list[str]]
    asked: list[str] = field(default_factory=list)

    def pages(self, place: Place, service: str, operation: str, **given: Any) -> list[dict]:
        self.asked.append(f"{service} {operation}")
        if not operation.startswith("list_cluster"):
            return []
        if operation == "list_clusters":
            summaries = [
                {"ClusterName": name, "ClusterArn": "a" * 20, "CreationTime": NOW,
                 "ClusterStatus": "InService"}
                for name in self.clusters
            ]  # fmt: skip
            return [validated(service, "ListClusters", {"ClusterSummaries": summaries})]
        kinds = ["ml.trn1.32xlarge"] * len(self.clusters[given["ClusterName"]]) + ["ml.c5.large"]
        ids = [*self.clusters[given["ClusterName"]], "i-controller"]
        nodes = [
            {
                "InstanceGroupName": "g",
                "InstanceId": name,
                "InstanceType": kind,
                "LaunchTime": NOW - timedelta(days=1),
                "InstanceStatus": {"Status": "Running"},
            }
            for name, kind in zip(ids, kinds, strict=True)
        ]
        return [validated(service, "ListClusterNodes", {"ClusterNodeSummaries": nodes})]


def running(responses: ResponseHistory, now: datetime) -> list[str]:
    snapshots = Snapshots(responses, TagNames(), load_knowledge().types(), timedelta(days=15))
    return sorted(x.id for x in snapshots.at(now).inventory.instances.values() if x.running)


def test_its_nodes_are_followed_at_each_tick(tmp_path) -> None:
    account, responses = Account({"pod": ["i-1", "i-2"]}), ResponseHistory(Problems(), tmp_path)
    poller = ResourcePoller(account, responses)
    assert list(poller.refresh([HERE], NOW)) == []
    assert poller.instances(HERE) == {"i-1", "i-2"}
    assert running(responses, NOW) == ["i-1", "i-2"]

    account.clusters["pod"] = ["i-2", "i-3"]
    assert list(poller.refresh([HERE], NOW + STEP)) == []
    assert running(responses, NOW + STEP) == ["i-2", "i-3"]
    assert account.asked.count("sagemaker list_clusters") == 1


def test_the_nodes_of_a_cluster_that_was_deleted_while_the_bot_was_down_have_ended(
    tmp_path,
) -> None:
    first = ResponseHistory(Problems(), tmp_path)
    list(ResourcePoller(Account({"pod": ["i-1"]}), first).refresh([HERE], NOW))

    later, second = NOW + timedelta(hours=2), ResponseHistory(Problems(), tmp_path)
    list(ResourcePoller(Account({}), second).refresh([HERE], later))
    assert running(second, later) == []
