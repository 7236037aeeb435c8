"""Training jobs of SageMaker come from SageMaker, as its own metrics name their hosts."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from adapters.aws.api.operations import Place
from adapters.aws.api.responses import ResponseHistory
from adapters.aws.files import Problems
from adapters.aws.inventory.ownership import TagNames
from adapters.aws.inventory.poller import ResourcePoller
from adapters.aws.inventory.snapshots import Snapshots
from adapters.aws.metrics.points import MetricSeries, instance_of, labels_of, standard
from bot.knowledge import load_knowledge
from bot.model.fleet import Market
from tests.aws_live.serialize import validated

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)
HERE = Place("us-west-2", account="111122223333")
STEP = timedelta(minutes=5)
SECRET = "AKIA-of-a-hyperparameter"


def job(name: str, *, started: bool = True, ended: bool = False, **more: Any) -> dict[str, Any]:
    """Return what DescribeTrainingJob answers, checked against botocore's own description."""
    status, secondary = ("Completed", "Completed") if ended else ("InProgress", "Training")
    times = {"TrainingStartTime": NOW - timedelta(hours=2)} if started else {}
    times |= {"TrainingEndTime": NOW - timedelta(minutes=1)} if ended else {}
    known = {
        "TrainingJobName": name,
        "TrainingJobArn": f"arn:aws:sagemaker:us-west-2:111122223333:training-job/{name}",
        "ModelArtifacts": {"S3ModelArtifacts": "s3://models/x"},
        "TrainingJobStatus": status,
        "SecondaryStatus": secondary,
        "AlgorithmSpecification": {"TrainingInputMode": "File"},
        "ResourceConfig": {
            "InstanceType": "ml.trn1.32xlarge",
            "InstanceCount": 2,
            "VolumeSizeInGB": 100,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 86400},
        "CreationTime": NOW - timedelta(hours=3),
        "HyperParameters": {"token": SECRET},
    }
    answer: dict[str, Any] = validated("sagemaker", "DescribeTrainingJob", known | times | more)
    return answer


@dataclass
class Account:
    """Answer for one account: its training jobs."""

    jobs: dict[str, dict[str, Any]]
    asked: list[str] = field(default_factory=list)

    def pages(self, place: Place, service: str, operation: str, **given: Any) -> list[dict]:
        name = given.get("TrainingJobName", "")
        self.asked.append(f"{operation} {name}".strip())
        if operation == "describe_training_job":
            return [self.jobs[name]]
        if operation != "list_training_jobs":
            return []
        assert given == {"StatusEquals": "InProgress"}
        summaries = [
            {
                key: x[key]
                for key in (
                    "TrainingJobName",
                    "TrainingJobArn",
                    "CreationTime",
                    "TrainingJobStatus",
                )
            }
            for x in self.jobs.values()
            if x["TrainingJobStatus"] == "InProgress"
        ]
        return [validated(service, "ListTrainingJobs", {"TrainingJobSummaries": summaries})]


def nodes(responses: ResponseHistory, now: datetime) -> dict[str, Any]:
    snapshots = Snapshots(responses, TagNames(), load_knowledge().types(), timedelta(days=15))
    return dict(snapshots.at(now).inventory.instances)


def test_the_nodes_of_a_job_are_followed_from_its_start_to_its_end(tmp_path) -> None:
    account = Account({"llama": job("llama", started=False)})
    responses = ResponseHistory(Problems(), tmp_path)
    poller = ResourcePoller(account, responses)
    list(poller.refresh([HERE], NOW))
    assert nodes(responses, NOW) == {}

    account.jobs["llama"] = job("llama")
    list(poller.refresh([HERE], NOW + STEP))
    assert poller.instances(HERE) == {"llama/algo-1", "llama/algo-2"}
    first = nodes(responses, NOW + STEP)["llama/algo-1"]
    assert (first.labels.job, first.labels.instance_type) == ("llama", "ml.trn1.32xlarge")
    assert (first.launched_at, first.running) == (NOW - timedelta(hours=2), True)

    # While it runs its description is not asked for again.
    asked = account.asked.count("describe_training_job llama")
    list(poller.refresh([HERE], NOW + 2 * STEP))
    assert account.asked.count("describe_training_job llama") == asked == 2

    account.jobs["llama"] = job("llama", ended=True)
    list(poller.refresh([HERE], NOW + 3 * STEP))
    ended = nodes(responses, NOW + 3 * STEP)["llama/algo-2"]
    assert (ended.running, ended.ended_at) == (False, NOW - timedelta(minutes=1))
    assert poller.instances(HERE) == frozenset()
    list(poller.refresh([HERE], NOW + 4 * STEP))
    assert account.asked.count("describe_training_job llama") == 3


def test_after_a_restart_a_job_that_ended_meanwhile_has_ended(tmp_path) -> None:
    account = Account({"llama": job("llama"), "old": job("old", ended=True)})
    list(ResourcePoller(account, ResponseHistory(Problems(), tmp_path)).refresh([HERE], NOW))
    account.jobs["llama"] = job("llama", ended=True)
    later, responses = NOW + timedelta(hours=2), ResponseHistory(Problems(), tmp_path)
    list(ResourcePoller(account, responses).refresh([HERE], later))
    assert not any(node.running for node in nodes(responses, later).values())
    assert "describe_training_job old" not in account.asked


@pytest.mark.parametrize(("last", "hours"), [("Terminated", 2), ("Reused", 0)])
def test_a_warm_pool_is_followed_until_it_is_given_up(tmp_path, last: str, hours: int) -> None:
    def pool(status: str, seconds: int) -> dict[str, Any]:
        kept = {"Status": status, "ResourceRetainedBillableTimeInSeconds": seconds}
        return job("llama", ended=True, WarmPoolStatus=kept)

    account = Account({"llama": job("llama")})
    responses = ResponseHistory(Problems(), tmp_path)
    poller = ResourcePoller(account, responses)
    list(poller.refresh([HERE], NOW))
    for n, answer in enumerate((pool("Available", 600), pool(last, 7200)), 1):
        account.jobs["llama"] = answer
        list(poller.refresh([HERE], NOW + n * STEP))
    kept = nodes(responses, NOW + 2 * STEP)["llama/algo-1"].kept_warm
    assert kept == timedelta(hours=hours)

    # Its end is known, and nobody asks again.
    asked = account.asked.count("describe_training_job llama")
    list(poller.refresh([HERE], NOW + 3 * STEP))
    assert account.asked.count("describe_training_job llama") == asked == 3


def test_hosts_are_numbered_through_all_groups_and_others_than_accelerated_are_left_out(
    tmp_path,
) -> None:
    group = {"InstanceGroupName": "loaders", "InstanceType": "ml.c5.18xlarge", "InstanceCount": 1}
    trainers = {"InstanceGroupName": "t", "InstanceType": "ml.trn2.48xlarge", "InstanceCount": 2}
    groups = {"VolumeSizeInGB": 1, "InstanceGroups": [group, trainers]}
    account = Account({"moe": job("moe", ResourceConfig=groups, EnableManagedSpotTraining=True)})
    responses = ResponseHistory(Problems(), tmp_path)
    list(ResourcePoller(account, responses).refresh([HERE], NOW))
    found = nodes(responses, NOW)
    assert sorted(found) == ["moe/algo-2", "moe/algo-3"]
    assert {x.market for x in found.values()} == {Market.SPOT}


def test_what_people_gave_to_a_job_is_not_kept(tmp_path) -> None:
    responses = ResponseHistory(Problems(), tmp_path)
    list(ResourcePoller(Account({"llama": job("llama")}), responses).refresh([HERE], NOW))
    kept = [x.read_text() for x in tmp_path.rglob("*.json") if "training" in str(x)]
    assert kept
    assert not any(SECRET in text for text in kept)


def test_its_own_metrics_are_of_the_same_nodes() -> None:
    pair = ("Host", "llama/algo-1")
    series = MetricSeries(
        "/aws/sagemaker/TrainingJobs", "MemoryUtilization", ("Host",), (pair,), "us-west-2"
    )
    (target,) = standard().targets(series.namespace, series.metric, series.names)
    assert labels_of(series, target).instance == instance_of(series) == "llama/algo-1"
    assert (target.metric, target.scale) == ("host_memory_utilization_ratio", 0.01)
    assert np.isclose(42 * target.scale, 0.42)
