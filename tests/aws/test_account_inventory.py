"""Read who launched what, EKS clusters, quotas and spot chances from recorded answers; botocore checks every one."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from adapters.aws.api.responses import RecordedResponses, argument_and_account
from adapters.aws.files import NAMED, Problems
from adapters.aws.inventory.ownership import TagNames
from adapters.aws.inventory.snapshots import Recent, Snapshots
from adapters.aws.prices.quoted import QuotedPrices
from bot.answers.plan.capacity import use_of
from bot.knowledge import load_knowledge
from bot.model.fleet import Inventory, LauncherKind, Market, Quota
from bot.model.labels import Labels
from tests.aws_live.serialize import validated

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)
ACCOUNT = "111122223333"
TYPES = load_knowledge().types()


def put(
    folder: Path, service: str, operation: str, answer: dict, about: str = "", at: datetime = NOW
) -> None:
    """Write one answer as a recording holds it, if botocore's model allows it."""
    name = "".join(word.capitalize() for word in operation.split("_"))
    if service != "spot-advisor":
        validated(service, name, answer)
    path = (
        folder
        / "api"
        / service
        / operation
        / "us-west-2"
        / f"{at:%Y%m%dT%H%M%SZ}{'.' + about if about else ''}.json"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(answer, default=str))


def inventory(folder: Path, at: datetime = NOW) -> Inventory:
    problems = Problems()
    made = (
        Snapshots(
            RecordedResponses(folder / "api", problems), TagNames(), TYPES, timedelta(days=15)
        )
        .at(at)
        .inventory
    )
    assert problems.sentences() == ()
    return made


def node(
    name: str,
    tags: dict[str, str] | None = None,
    groups: tuple[str, ...] = (),
    kind: str = "trn1.32xlarge",
    **more,
) -> dict:
    found = {
        "InstanceId": name,
        "InstanceType": kind,
        "LaunchTime": NOW - timedelta(hours=3),
        "State": {"Code": 16, "Name": "running"},
        "Tags": [{"Key": key, "Value": value} for key, value in (tags or {}).items()],
        "SecurityGroups": [{"GroupId": group} for group in groups],
    }
    return found | more


def run(folder: Path, *nodes: dict, at: datetime = NOW) -> None:
    put(
        folder,
        "ec2",
        "describe_instances",
        {"Reservations": [{"OwnerId": ACCOUNT, "Instances": list(nodes)}]},
        at=at,
    )


def event(
    identity: dict, *resources: str, name: str = "RunInstances", minutes: int = 0, **told
) -> dict:
    return {
        "EventName": name,
        "EventTime": NOW - timedelta(hours=3) + timedelta(minutes=minutes),
        "Username": "whoever",
        "Resources": [{"ResourceName": resource} for resource in resources],
        "CloudTrailEvent": json.dumps({"userIdentity": identity, **told}),
    }


def assumed(role: str, session: str) -> dict:
    issuer = {"sessionIssuer": {"type": "Role", "userName": role}}
    return {
        "type": "AssumedRole",
        "arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/{role}/{session}",
        "sessionContext": issuer,
    }


@pytest.mark.parametrize(
    ("identity", "said", "kind"),
    [
        ({"type": "IAMUser", "userName": "dana"}, "dana", LauncherKind.PERSON),
        (
            assumed("AWSReservedSSO_Admin_01ab", "kim@example.com"),
            "kim@example.com",
            LauncherKind.PERSON,
        ),
        (assumed("developer", "kim@example.com"), "kim@example.com", LauncherKind.PERSON),
        (assumed("ci-deploy", "botocore-session-17"), "role ci-deploy", LauncherKind.ROLE),
        (
            assumed("AWSServiceRoleForAutoScaling", "AutoScaling"),
            "Auto Scaling",
            LauncherKind.MACHINE,
        ),
        (
            assumed("AWSServiceRoleForAmazonEKSNodegroup", "EKS"),
            "an EKS node group",
            LauncherKind.MACHINE,
        ),
        (assumed("KarpenterControllerRole-llama", "1763"), "Karpenter", LauncherKind.MACHINE),
        (
            {"type": "AWSService", "invokedBy": "ec2fleet.amazonaws.com"},
            "EC2 Fleet",
            LauncherKind.MACHINE,
        ),
        ({"type": "Root"}, "role the account's root user", LauncherKind.ROLE),
        ({}, "whoever", LauncherKind.PERSON),
    ],
)
def test_a_launcher_is_said_as_what_it_is(tmp_path, identity, said, kind):
    run(tmp_path, node("i-1"))
    put(
        tmp_path,
        "cloudtrail",
        "lookup_events",
        {"Events": [event(identity, "i-1", "ami-1")]},
        "i-1",
    )
    by = inventory(tmp_path).instances["i-1"].launched_by
    assert (str(by), by.kind) == (said, kind)
    assert by.person == (said if kind is LauncherKind.PERSON else "")


def test_tags_of_machines_win_and_one_event_tells_of_all_its_nodes(tmp_path):
    run(tmp_path, node("i-1", {"karpenter.sh/nodepool": "trn"}), node("i-2"), node("i-3"))
    events = [event({"type": "IAMUser", "userName": "dana"}, "i-1", "i-2", "i-3")]
    put(tmp_path, "cloudtrail", "lookup_events", {"Events": events}, "i-2")
    found = inventory(tmp_path).instances
    assert [str(found[name].launched_by) for name in ("i-1", "i-2", "i-3")] == [
        "Karpenter node pool trn",
        "dana",
        "dana",
    ]


def test_the_creation_wins_over_a_later_start_and_a_failed_call_counts_for_nothing(tmp_path):
    run(tmp_path, node("i-1"))
    kim, dana = ({"type": "IAMUser", "userName": name} for name in ("kim", "dana"))
    failed = event(kim, "i-1", minutes=-2, errorCode="Server.InsufficientInstanceCapacity")
    events = [event(kim, "i-1", name="StartInstances", minutes=5), event(dana, "i-1"), failed]
    put(tmp_path, "cloudtrail", "lookup_events", {"Events": events}, "i-1")
    assert str(inventory(tmp_path).instances["i-1"].launched_by) == "dana"


def test_a_session_name_cannot_break_a_line(tmp_path):
    run(tmp_path, node("i-1"))
    events = [event({"type": "IAMUser", "userName": "<!channel>\n*x*" + "y" * 200}, "i-1")]
    put(tmp_path, "cloudtrail", "lookup_events", {"Events": events}, "i-1")
    said = str(inventory(tmp_path).instances["i-1"].launched_by)
    assert "\n" not in said
    assert len(said) == 80


def cluster(
    folder: Path, name: str, group: str, at: datetime = NOW, labels: dict[str, str] | None = None
) -> None:
    arn = f"arn:aws:eks:us-west-2:{ACCOUNT}:cluster/{name}"
    vpc = {"clusterSecurityGroupId": f"sg-{name}"}
    told = {
        "name": name,
        "arn": arn,
        "version": "1.33",
        "status": "ACTIVE",
        "resourcesVpcConfig": vpc,
        "createdAt": at,
    }
    put(folder, "eks", "describe_cluster", {"cluster": told}, name)
    nodes = {
        "nodegroupName": "trn",
        "clusterName": name,
        "instanceTypes": ["trn1.32xlarge"],
        "scalingConfig": {"desiredSize": 2},
    }
    nodes |= {"resources": {"autoScalingGroups": [{"name": group}]}, "labels": labels or {}}
    put(folder, "eks", "describe_nodegroup", {"nodegroup": nodes}, f"{name}.trn")


def test_eks_tells_the_cluster_of_nodes_without_the_tag(tmp_path):
    put(tmp_path, "eks", "list_clusters", {"clusters": ["llama", "bert"]})
    cluster(tmp_path, "llama", "asg-1")
    cluster(tmp_path, "bert", "asg-2")
    by_group, by_security_group = (
        node("i-1", {"aws:autoscaling:groupName": "asg-1"}),
        node("i-2", groups=("sg-0", "sg-bert")),
    )
    run(
        tmp_path,
        by_group,
        by_security_group,
        node("i-3", {"eks:cluster-name": "other"}, ("sg-bert",)),
        node("i-4"),
    )
    found = inventory(tmp_path)
    assert [found.instances[f"i-{i}"].labels.cluster for i in (1, 2, 3, 4)] == [
        "llama",
        "bert",
        "other",
        "",
    ]
    assert [
        (x.name, x.version, x.labels.account, [g.desired for g in x.node_groups]) for x in found.eks
    ] == [
        ("bert", "1.33", ACCOUNT, [2]),
        ("llama", "1.33", ACCOUNT, [2]),
    ]


def test_a_cluster_that_is_no_longer_listed_is_gone(tmp_path):
    put(tmp_path, "eks", "list_clusters", {"clusters": ["llama"]})
    put(tmp_path, "eks", "list_clusters", {"clusters": []}, at=NOW + timedelta(hours=1))
    cluster(tmp_path, "llama", "asg-1")
    run(tmp_path, node("i-1"))
    assert [x.name for x in inventory(tmp_path).eks] == ["llama"]
    assert inventory(tmp_path, NOW + timedelta(hours=1)).eks == ()


def quota(name: str, value: float, code: str = "L-1") -> dict:
    arn = f"arn:aws:servicequotas:us-west-2:{ACCOUNT}:ec2/{code}"
    return {
        "QuotaName": name,
        "QuotaCode": code,
        "QuotaArn": arn,
        "Value": value,
        "ServiceCode": "ec2",
    }


def test_running_vcpus_count_against_their_quota_only(tmp_path):
    answers = [
        quota("Running On-Demand Trn instances", 512, "L-2C3B7624"),
        quota("All Trn Spot Instance Requests", 256),
        quota("Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", 99),
        quota("VPC security groups per network interface", 5),
    ]
    put(tmp_path, "service-quotas", "list_service_quotas", {"Quotas": answers})
    block, spot = {"InstanceLifecycle": "capacity-block"}, {"InstanceLifecycle": "spot"}
    stopped = {"State": {"Code": 80, "Name": "stopped"}}
    nodes = [
        node("i-1"),
        node("i-2"),
        node("i-3", **block),
        node("i-4", **spot),
        node("i-5", **stopped),
    ]
    run(tmp_path, *nodes, node("i-6", kind="trn9.huge"), node("i-7", kind="p5.48xlarge"))
    found = inventory(tmp_path)
    uses = {use.quota.name: use for use in (use_of(quota, found) for quota in found.quotas)}
    assert set(uses) == {"Running On-Demand Trn instances", "All Trn Spot Instance Requests"}
    demand, asked = uses["Running On-Demand Trn instances"], uses["All Trn Spot Instance Requests"]
    assert (demand.used, demand.free, demand.unknown) == (256, 256, ("trn9.huge",))
    assert (asked.used, asked.running) == (128, (("trn1.32xlarge", 1),))
    assert demand.quota.labels == Labels(region="us-west-2", account=ACCOUNT)


@pytest.mark.parametrize(
    ("families", "counted", "left"),
    [
        (
            ("p",),
            ("p4d.24xlarge", "p5.48xlarge", "p6-b200.48xlarge"),
            ("g5.xlarge", "trn1.2xlarge"),
        ),
        (("p5",), ("p5.48xlarge", "p5en.48xlarge"), ("p4d.24xlarge",)),
        (("g",), ("g5.xlarge", "g6e.xlarge"), ("p5.48xlarge",)),
        (("trn",), ("trn1n.32xlarge", "trn2u.48xlarge"), ("t3.large", "inf2.xlarge")),
    ],
)
def test_families_are_told_apart(families, counted, left):
    one = Quota("any", "L-1", Labels(), families, Market.ON_DEMAND, 1.0, NOW)
    assert all(one.counts(name) for name in counted)
    assert not any(one.counts(name) for name in left)


def test_spot_chances(tmp_path):
    scores = [
        {"Region": "us-west-2", "AvailabilityZoneId": zone, "Score": score}
        for zone, score in (("usw2-az1", 3), ("usw2-az3", 9))
    ]
    put(
        tmp_path,
        "ec2",
        "get_spot_placement_scores",
        {"SpotPlacementScores": scores},
        f"trn1.2xlarge+trn1.32xlarge+trn1n.32xlarge.{ACCOUNT}",
    )
    put(
        tmp_path,
        "ec2",
        "get_spot_placement_scores",
        {"SpotPlacementScores": scores},
        f"inf2.xlarge.{ACCOUNT}",
    )
    bands = [{"index": 0, "label": "<5%"}, {"index": 2, "label": "10-15%"}]
    told = {"us-east-2": {"Linux": {"trn1.32xlarge": {"s": 90, "r": 2}}, "Windows": {}}}
    put(tmp_path, "spot-advisor", "get_data", {"ranges": bands, "spot_advisor": told})
    found = QuotedPrices(RecordedResponses(tmp_path / "api", Problems()))
    assert [(x.zone_id, x.score) for x in found.placement("trn1.32xlarge", NOW)] == [
        ("usw2-az3", 9),
        ("usw2-az1", 3),
    ]
    assert (
        found.placement("inf2.xlarge", NOW) == ()
    )  # asked with one type: always low, so it is not shown
    (band,) = found.interruptions("trn1.32xlarge", NOW)
    assert (band.region, band.band, band.savings_ratio) == ("us-east-2", "10-15%", 0.9)
    assert found.placement("trn2.48xlarge", NOW) == found.interruptions("trn2.48xlarge", NOW) == ()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", ("", "")),
        ("trn1.32xlarge", ("trn1.32xlarge", "")),
        (ACCOUNT, ("", ACCOUNT)),
        (f"a.b.{ACCOUNT}", ("a.b", ACCOUNT)),
    ],
)
def test_a_file_says_what_it_is_about_and_whose(name, said):
    assert argument_and_account(name) == said


def test_a_node_has_the_kubernetes_labels_of_its_node_group_where_its_tags_are_silent(tmp_path):
    put(tmp_path, "eks", "list_clusters", {"clusters": ["llama"]})
    cluster(
        tmp_path,
        "llama",
        "asg-1",
        labels={"owner": "dana", "team": "search", "project": "chat", "tier": "spot"},
    )
    in_group = {"aws:autoscaling:groupName": "asg-1"}
    run(
        tmp_path,
        node("i-1", in_group),
        node("i-2", in_group | {"owner": "kim", "team": "nlp"}),
        node("i-3"),
    )
    found = inventory(tmp_path).instances
    assert [
        (x.owner, x.labelled_owner, x.labels.team, x.project, x.node_group) for x in found.values()
    ] == [
        ("", "dana", "search", "chat", "trn"),
        ("kim", "dana", "nlp", "chat", "trn"),
        ("", "", "", "", ""),
    ]
    assert found["i-1"].node_labels["tier"] == "spot"


def test_a_node_pool_is_the_node_group_of_a_node_that_karpenter_launched(tmp_path):
    run(
        tmp_path,
        node("i-1", {"karpenter.sh/nodepool": "trn2-pool"}),
        node("i-2", {"eks:nodegroup-name": "trn"}),
    )
    assert [x.node_group for x in inventory(tmp_path).instances.values()] == ["trn2-pool", "trn"]


def hyperpod(
    folder: Path, *nodes: tuple[str, str], at: datetime = NOW, cluster: str = "pod"
) -> None:
    summaries = [
        {
            "InstanceGroupName": "workers",
            "InstanceId": name,
            "InstanceType": "ml.trn1.32xlarge",
            "LaunchTime": NOW - timedelta(hours=3),
            "InstanceStatus": {"Status": status},
        }
        for name, status in nodes
    ]
    put(folder, "sagemaker", "list_cluster_nodes", {"ClusterNodeSummaries": summaries}, cluster, at)


def test_nodes_of_hyperpod_are_known_though_ec2_never_lists_them(tmp_path: Path) -> None:
    run(tmp_path, node("i-1"))
    hyperpod(tmp_path, ("i-7", "Running"), ("i-8", "Failure"), ("i-9", "ShuttingDown"))
    known = inventory(tmp_path)
    assert {name for name, x in known.instances.items() if x.running} == {"i-1", "i-7", "i-8"}
    pod = known.instances["i-7"]
    assert (pod.labels.cluster, pod.labels.instance_type) == ("pod", "ml.trn1.32xlarge")
    assert known.types[pod.labels.instance_type].cores == 32
    assert str(pod.launched_by) == "HyperPod cluster pod"


def test_a_node_that_hyperpod_scaled_in_has_ended(tmp_path: Path) -> None:
    hyperpod(tmp_path, ("i-7", "Running"), ("i-8", "Running"))
    later = NOW + timedelta(minutes=10)
    hyperpod(tmp_path, ("i-7", "Running"), at=later)
    gone = inventory(tmp_path, later).instances["i-8"]
    assert (gone.running, gone.ended_at) == (False, later)


def test_a_sentence_that_is_named_already_is_not_counted_as_one_more() -> None:
    named, later = Problems(), Problems()
    for n in range(NAMED):
        named.add("a", f"reason {n}")
    later.add("a", "reason 0")
    named.take(later)
    assert len(named.sentences()) == NAMED
    later.add("a", "another reason")
    named.take(later)
    assert named.sentences()[NAMED:] == ("a: 1 more of the kind.",)
    again = Problems()
    again.take(named)
    assert again.sentences() == named.sentences()


def test_what_is_asked_for_again_and_again_is_made_once():
    recent, made = Recent[int](), []
    for key in range(20):
        recent.get("always", lambda: made.append("always") or 1)
        recent.get(key, lambda: 1)
    assert made == ["always"]
