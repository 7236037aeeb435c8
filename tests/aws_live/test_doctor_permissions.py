"""Deny each permission of the policy in turn: `doctor` names it, what is lost, and what allows it."""

import json
from pathlib import Path

import pytest
from botocore.auth import SigV4Auth

from adapters.aws.api.operations import declared_as, price_of
from adapters.aws.api.promql import MANAGED, PrometheusServer
from adapters.aws.live.source import Live
from bot.settings.settings import read_settings
from bot.wiring.checks import examine
from bot.wiring.kept import Once
from bot.wiring.source import OpenedSource
from tests.aws_live.serving import ACCOUNT, BUCKET
from tests.aws_live.standin import UNDER_ATHENA
from tests.aws_live.test_events import QUEUE

POLICY = json.loads((Path(__file__).parents[2] / "deploy/iam-policy.json").read_text())
ACTIONS = sorted({action for x in POLICY["Statement"] for action in x["Action"]})
SAMPLED = {"cloudwatch:GetMetricData", "pricing:GetProducts", "s3:GetObject", "ce:GetAnomalies"}
ROLE = "arn:aws:iam::444455556666:role/trnbot-reader"
EXPORT = {"TRNBOT_AWS_BILLING": f"s3://{BUCKET}/billing"}
ATHENA = {"TRNBOT_AWS_ATHENA": "bills.cur", "TRNBOT_AWS_ATHENA_OUTPUT": "s3://results/athena"}
EXPLORER = ["ce:GetCostAndUsage"]


class Workspace(PrometheusServer):
    """The stand-in's Prometheus under the name of Amazon's managed one."""

    service = MANAGED

    def signer(self, region, credentials):
        return lambda request: SigV4Auth(credentials, MANAGED, region).add_auth(request)


class Account(OpenedSource):
    """An account that is read as the test says."""

    def __init__(self, live: Live, given: dict[str, str]) -> None:
        self.settings = read_settings({"TRNBOT_SOURCE": "aws", **given})
        super().__init__("aws", self.settings)
        self.account = Once(lambda: live)


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def told(world, given=EXPORT, *, paid=False, **read):
    """Return what `doctor` finds, by name."""
    opened = Account(world.live(**read), given)
    return {check.name: check for check in examine(opened.settings, opened, paid=paid)}


def set_up(world, action):
    """Return how an account is set up where an action is asked."""
    service = action.partition(":")[0]
    settings, read = EXPORT, {}
    if action in UNDER_ATHENA or service == "athena":
        settings = ATHENA
    elif action in EXPLORER:
        settings = {}
    elif action == "sts:AssumeRole":
        settings, read = EXPORT | {"TRNBOT_AWS_ROLES": f"self,{ROLE}"}, {"roles": ["self", ROLE]}
    elif service == "logs":
        settings, read = EXPORT | {"TRNBOT_AWS_LOGS": "jobs"}, {"logs": ["jobs"]}
    elif service == "sqs":
        settings, read = EXPORT | {"TRNBOT_AWS_EVENTS": QUEUE}, {"events": [QUEUE]}
    elif service == "aps":
        world.standin.publish("prometheus")
        read = {"server": Workspace(f"{world.endpoint}/prometheus")}
    return settings, read


@pytest.mark.parametrize(
    "action", [pytest.param(x, marks=() if x in SAMPLED else pytest.mark.slow) for x in ACTIONS]
)
def test_a_denied_permission_is_named_with_its_loss_and_its_statement(world, action):
    next(world.ticks(0.25, 0.25))
    given, read = set_up(world, action)
    world.standin.faults.denied = {action}
    paid = action.startswith("ce:") or given == ATHENA
    checks = told(world, given, paid=paid, **read)
    denied = [check for name, check in checks.items() if name.startswith("permission")]
    assert [check.name for check in denied] == [f"permission {action}"]
    assert not denied[0].ok
    assert declared_as(action).why in denied[0].found
    statement = json.loads(denied[0].remedy[denied[0].remedy.index("{") :])
    assert (statement["Effect"], statement["Action"]) == ("Allow", [action])
    allowed = {
        x
        for entry in POLICY["Statement"]
        if action in entry["Action"]
        for x in ([entry["Resource"]] if isinstance(entry["Resource"], str) else entry["Resource"])
    }
    assert (statement["Resource"] == "*") == (allowed == {"*"})


def test_nothing_is_spent_at_cost_explorer_or_athena_unasked(world):
    next(world.ticks(0.25, 0.25))
    for given in ({}, EXPORT, ATHENA):
        checks = told(world, given)
        assert "'doctor paid' asks" in checks["AWS's outlook"].found
    assert not [name for name in world.standin.called if name.startswith(("ce:", "athena:"))]


def test_what_was_estimated_is_the_most_that_is_spent(world):
    next(world.ticks(0.25, 0.25))
    before = told(world, {})
    assert "up to 20 calls to Cost Explorer ($0.20)" in before["billing"].found
    checks = told(world, {}, paid=True)
    assert checks["billing"].ok
    calls = sum(n for name, n in world.standin.called.items() if name.startswith("ce:"))
    assert 0 < calls <= 25
    assert price_of("ce", "get_cost_and_usage", calls) <= price_of("ce", "get_cost_and_usage", 25)

    # Fresh answers cost nothing, so they are told without being asked for.
    assert "Cost Explorer from" in str(told(world, {})["billing"].found) or checks["billing"].ok
    assert "AWS's outlook" not in told(world, {})


def test_points_that_may_not_be_read_are_no_nodes_that_are_read(world):
    next(world.ticks(0.25, 0.25))
    world.standin.faults.denied = {"cloudwatch:GetMetricData"}
    place = told(world)[f"AWS us-west-2 of account {ACCOUNT}"]
    assert not place.ok
    assert "3 nodes, AWS cloudwatch:GetMetricData" in place.found


def test_an_instance_that_ended_is_not_counted(world, tmp_path):
    next(world.ticks(0.25, 0.25))
    folder = world.standin.folder / "api/ec2/describe_instances/us-west-2"
    live = world.live(usage=tmp_path / "usage.json")
    list(live.describe(world.now))
    # What was asked counts in the day's budget of the next process too.
    again = world.live(usage=tmp_path / "usage.json").calls.meter.today()
    assert again.calls["ec2:DescribeInstances"] == 1
    (place,) = live.places()
    assert folder.is_dir()
    assert len(live.resources.running(place)) == len(live.resources.instances(place)) == 3
    ended = {"InstanceId": "i-9", "InstanceType": "trn2.48xlarge", "State": {"Name": "terminated"}}
    from adapters.aws.api.responses import ApiCall

    call = ApiCall("ec2", "describe_instances", place)
    pages = json.loads(live.responses.newest(call)[1])
    pages[0]["Reservations"].append({"Instances": [ended]})
    live.responses.put(call, world.now, pages)
    assert len(live.resources.instances(place)) == 4
    assert len(live.resources.running(place)) == 3


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        ("NoCredentialsError", "none are set"),
        ("InvalidClientTokenId", "AWS does not know these keys"),
        ("ExpiredToken", "renew the credentials"),
    ],
)
def test_credentials_are_told_by_what_is_wrong_with_them(code, remedy):
    from adapters.aws.api.outcomes import credentials_remedy

    assert credentials_remedy(code).startswith(remedy)
