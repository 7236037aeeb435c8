"""The stacks for AWS are valid, grant what the code asks for, and name nothing that it does not read."""

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import boto3
import pytest
import yaml
from moto import mock_aws
from moto.core import DEFAULT_ACCOUNT_ID as ACCOUNT_ID
from moto.iam.policy_validation import IAMPolicyDocumentValidator

from adapters.aws.api.operations import statements
from adapters.billing.exports import Columns, ExportForm
from bot.settings.keys import KEYS
from bot.settings.settings import read_settings
from docs.stacks import columns
from tests.cases import in_one_run

hcl2 = pytest.importorskip("hcl2", reason="python-hcl2 comes with the extra of tests")

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
BOT, MEMBER = (DEPLOY / "cloudformation" / f"{name}.yaml" for name in ("trnbot", "member-role"))
MODULE = "\n".join(path.read_text() for path in sorted((DEPLOY / "terraform").glob("*.tf")))
POLICY = json.loads((DEPLOY / "iam-policy.json").read_text())["Statement"]
LONGEST_POLICY, LONGEST_BODY = 6_144, 51_200
"""The most characters of a managed policy (IAM quotas), and bytes of a template in a call (AWS CloudFormation quotas)."""
GIVEN = {
    "Image": "111122223333.dkr.ecr.us-east-1.amazonaws.com/trnbot:1",
    "Vpc": "vpc-0123456789abcdef0",
    "Subnet": "subnet-0123456789abcdef0",
}
EVERYTHING = {
    **GIVEN,
    "Stream": "yes",
    "BillingBucket": "bills",
    "BillingPrefix": "cur",
    "LogGroup": "/jobs",
    "Workspace": "arn:aws:aps:us-east-1:111122223333:workspace/ws-1",
    "AthenaResultsBucket": "results",
    "Key": "arn:aws:kms:us-east-1:111122223333:key/1",
    "Regions": "us-west-2,us-east-1",
    "Roles": "arn:aws:iam::444455556666:role/trnbot-reader",
    "MoreQueues": "https://sqs.us-west-2.amazonaws.com/111122223333/trnbot-events",
    "MoreStreams": "s3://trnbot-111122223333-us-west-2/metrics/us-west-2/",
    "SecondSubnet": "subnet-0123456789abcdef1",
    "Route": "slack:C02FIN",
    "PublicUrl": "https://trnbot.example.com",
    "TargetGroup": "arn:aws:elasticloadbalancing:us-east-1:111122223333:targetgroup/trnbot/1",
    "LoadBalancerGroup": "sg-0123456789abcdef0",
    "TeamsAppId": "11111111-2222-3333-4444-555555555555",
    "TeamsTenantId": "11111111-2222-3333-4444-555555555555",
}


STOOD_IN = {**EVERYTHING, "Stream": "no", "TargetGroup": "", "LoadBalancerGroup": ""}
"""What moto knows the resources of: no delivery stream, and no target group that was not made there."""


class Template(yaml.SafeLoader):
    """Read the short forms of intrinsic functions as their long forms."""


def intrinsic(loader, suffix, node):
    read = {
        yaml.ScalarNode: loader.construct_scalar,
        yaml.SequenceNode: lambda each: loader.construct_sequence(each, deep=True),
        yaml.MappingNode: lambda each: loader.construct_mapping(each, deep=True),
    }[type(node)](node)
    if suffix == "GetAtt":
        read = read.split(".")
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": read}


Template.add_multi_constructor("!", intrinsic)


class Made:
    """Resolve a template as CloudFormation does: functions, conditions, and nothing for AWS::NoValue."""

    def __init__(self, path, given, region="us-east-1"):
        self.template = yaml.load(path.read_text(), Template)
        self.values = {
            "AWS::Region": region,
            "AWS::AccountId": "111122223333",
            "AWS::Partition": "aws",
            "AWS::NoValue": None,
            "Bucket": f"trnbot-111122223333-{region}",
            "Queue": f"https://sqs.{region}.amazonaws.com/111122223333/trnbot-events",
        }
        for name, parameter in self.template["Parameters"].items():
            value = given.get(name, parameter.get("Default", ""))
            is_list = parameter["Type"] == "CommaDelimitedList"
            self.values[name] = value.split(",") if is_list else value
        self.resources = {
            name: self.value(resource["Properties"])
            for name, resource in self.template["Resources"].items()
            if self.holds(resource.get("Condition", ""))
        }

    def holds(self, condition):
        return not condition or self.value(self.template["Conditions"][condition])

    def value(self, node):
        if isinstance(node, list):
            return [made for each in node if (made := self.value(each)) is not None]
        if not isinstance(node, dict):
            return node
        if (
            len(node) == 1
            and (found := self.function(*next(iter(node.items())))) is not NotImplemented
        ):
            return found
        return {x: made for x, y in node.items() if (made := self.value(y)) is not None}

    def function(self, name, of):
        if name == "Ref":
            return self.values.get(of, of)
        if name == "Condition" and isinstance(of, str):
            return self.holds(of)
        if name == "Fn::If":
            return self.value(of[1] if self.holds(of[0]) else of[2])
        if name == "Fn::Sub":
            text, beside = (of, {}) if isinstance(of, str) else of
            known = {**self.values, **self.value(beside)}
            return re.sub(r"\$\{([^}]+)\}", lambda x: str(known.get(x[1], x[1])), text)
        made = self.value(of) if name.startswith("Fn::") else None
        return {
            "Fn::Join": lambda: made[0].join(made[1]),
            "Fn::Equals": lambda: made[0] == made[1],
            "Fn::Not": lambda: not made[0],
            "Fn::And": lambda: all(made),
            "Fn::Or": lambda: any(made),
            "Fn::GetAtt": lambda: ".".join(made),
        }.get(name, lambda: NotImplemented)()


def granted(document):
    return {action for statement in document["Statement"] for action in statement["Action"]}


def environment(made):
    (container,) = made.resources["Task"]["ContainerDefinitions"]
    return {each["Name"]: each["Value"] for each in container["Environment"]}


@pytest.mark.parametrize("path", [BOT, MEMBER], ids=lambda path: path.stem)
def test_a_template_passes_cfn_lint_and_fits_into_a_call(path):
    lint = Path(sys.executable).with_name("cfn-lint")
    if not lint.exists():
        pytest.skip("cfn-lint comes with the extra of tests")
    command = [lint, "-r", "us-east-1", "us-west-2", "-t", path]
    said = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert not said.stdout
    assert said.returncode == 0
    assert path.stat().st_size <= LONGEST_BODY


@pytest.mark.parametrize("region", ["us-east-1", "us-west-2"])
def test_the_bot_has_every_permission_of_the_policy_and_no_other(region):
    made = Made(BOT, EVERYTHING, region)
    policy = made.resources["Permissions"]["PolicyDocument"]
    assert granted(policy) == granted({"Statement": POLICY})
    role = made.resources["TaskRole"]
    assert role["ManagedPolicyArns"] == ["Permissions"]
    assert "Policies" not in role


def test_what_the_policy_narrows_is_narrowed_by_each_stack():
    broad = {statement["Sid"] for word, statement in statements() if word == "*"}
    for path, document in (
        (BOT, lambda x: x["Permissions"]["PolicyDocument"]),
        (MEMBER, lambda x: x["Reader"]["Policies"][0]["PolicyDocument"]),
    ):
        for given in ({"Bot": "arn", "ExternalId": "word"}, EVERYTHING):
            for statement in document(Made(path, given).resources)["Statement"]:
                assert statement["Sid"] in broad or statement["Resource"] != "*"
                assert "YOUR-" not in str(statement)


def test_a_member_s_role_reads_all_that_the_bot_reads_there():
    role = Made(MEMBER, {**EVERYTHING, "Bot": "arn:bot", "ExternalId": "word"}).resources["Reader"]
    (policy,) = role["Policies"]
    left = granted({"Statement": POLICY}) - granted(policy["PolicyDocument"])
    assert granted(policy["PolicyDocument"]) <= granted({"Statement": POLICY})
    assert left == {x for x in left if x.startswith("sqs:")} | {"sts:AssumeRole"}
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"AWS": "arn:bot"}
    assert trust["Condition"] == {"StringEquals": {"sts:ExternalId": "word"}}


@pytest.mark.parametrize("given", [{}, EVERYTHING], ids=["least", "everything"])
def test_iam_takes_the_policies(given):
    bot = Made(BOT, {**GIVEN, **given}).resources
    reader = Made(MEMBER, {**given, "Bot": "arn:aws:iam::1:role/x", "ExternalId": "word"}).resources
    (read,) = reader["Reader"]["Policies"]
    managed = bot["Permissions"]["PolicyDocument"]
    for document in (managed, read["PolicyDocument"]):
        IAMPolicyDocumentValidator(json.dumps(document)).validate()
    assert len(json.dumps(managed, separators=(",", ":"))) <= LONGEST_POLICY


def test_only_services_of_aws_are_let_in():
    text = json.dumps([Made(path, EVERYTHING).resources for path in (BOT, MEMBER)])
    services = set(re.findall(r"[a-z.-]+\.amazonaws\.com(?=\")", text))
    assert set(re.findall(r'"([a-z.-]+\.amazonaws\.com)"', MODULE)) <= services
    made = Made(BOT, EVERYTHING).resources
    assert '"Resource": "*"' not in json.dumps({**made, "Permissions": ""})
    for statement in made["BucketPolicy"]["PolicyDocument"]["Statement"]:
        assert statement["Effect"] == "Deny" or "Service" in statement["Principal"]
        assert statement["Condition"]


@pytest.mark.parametrize("given", [GIVEN, EVERYTHING], ids=["least", "everything"])
def test_the_settings_of_the_task_are_read(given):
    settings = environment(Made(BOT, given))
    read = read_settings(
        {**settings, "TRNBOT_WEB_TOKEN": "word", "MicrosoftAppPassword": "word"}, ""
    )
    assert read.source == "aws"
    assert read["aws.regions"] == tuple(given.get("Regions", "us-east-1").split(","))
    bucket = given.get("BillingBucket")
    assert read["aws.billing"] == (
        "s3://bills/cur" if bucket else "s3://trnbot-111122223333-us-east-1/bill"
    )


@pytest.mark.filterwarnings("ignore:Tried to parse")
@mock_aws
def test_a_stand_in_for_aws_makes_the_stack():
    ec2, made = boto3.client("ec2", "us-east-1"), Made(BOT, STOOD_IN)
    vpc = ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    subnets = [each["SubnetId"] for each in ec2.describe_subnets()["Subnets"]]
    places = {"Vpc": vpc, "Subnet": subnets[0], "SecondSubnet": subnets[1]}
    boto3.client("cloudformation", "us-east-1").create_stack(
        StackName="trnbot",
        TemplateBody=BOT.read_text(),
        Parameters=[
            {"ParameterKey": name, "ParameterValue": value}
            for name, value in {**STOOD_IN, **places}.items()
        ],
        Capabilities=["CAPABILITY_NAMED_IAM"],
    )

    ecs = boto3.client("ecs", "us-east-1")
    (container,) = ecs.describe_task_definition(taskDefinition="trnbot")["taskDefinition"][
        "containerDefinitions"
    ]
    read = {
        each["name"]: each["value"].replace(ACCOUNT_ID, "111122223333")
        for each in container["environment"]
    }
    assert read == environment(made)
    iam = boto3.client("iam")
    (policy,) = iam.list_policies(Scope="Local")["Policies"]
    version = iam.get_policy_version(PolicyArn=policy["Arn"], VersionId="v1")
    granted_there = version["PolicyVersion"]["Document"]
    assert granted(granted_there) == granted({"Statement": POLICY})


def test_a_task_of_another_account_cannot_take_the_role():
    (trust,) = Made(BOT, GIVEN).resources["TaskRole"]["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": "111122223333"}}


def test_a_region_without_exports_makes_none():
    made = Made(BOT, GIVEN, "us-west-2")
    assert "Bill" not in made.resources
    assert environment(made)["TRNBOT_AWS_BILLING"] == ""


def test_without_an_image_no_bot_is_made():
    kinds = {Made(BOT, {}).template["Resources"][x]["Type"] for x in Made(BOT, {}).resources}
    assert kinds == {
        "AWS::S3::Bucket",
        "AWS::S3::BucketPolicy",
        "AWS::BCMDataExports::Export",
        "AWS::SQS::Queue",
        "AWS::SQS::QueuePolicy",
        "AWS::Events::Rule",
        "AWS::IAM::ManagedPolicy",
    }


@in_one_run
@pytest.mark.parametrize(
    "path",
    [path for path in sorted(DEPLOY.rglob("*")) if path.is_file()],
    ids=lambda path: str(path.relative_to(DEPLOY)),
)
def test_no_file_names_a_setting_that_is_not_read(path):
    named = re.findall(r"\b(?:TRNBOT|SLACK)_[A-Z][A-Z_]+\b|\bMicrosoftApp\w+", path.read_text())
    assert set(named) <= {"TRNBOT_CONFIG", *(key.variable for key in KEYS)}


def test_the_export_has_the_columns_that_are_read():
    (query,) = re.findall(r"SELECT (.+) FROM COST_AND_USAGE_REPORT", str(Made(BOT, {}).resources))
    selected = query.split(", ")
    assert selected == columns()
    assert Columns([(name, "VARCHAR") for name in selected]).form is ExportForm.CUR2
    assert [name for name in selected if f'"{name}",' not in MODULE] == []


def test_the_rule_sends_the_notices_that_are_understood():
    with (ROOT / "adapters/aws/events/notices.csv").open() as file:
        rows = list(csv.DictReader(file))
    pattern = Made(BOT, {}).resources["Notices"]["EventPattern"]
    assert set(pattern["source"]) == {row["source"] for row in rows}
    assert set(pattern["detail-type"]) == {row["detail_type"] for row in rows}
    for word in (*pattern["source"], *pattern["detail-type"]):
        assert f'"{word}"' in MODULE


def test_the_stream_has_the_metrics_that_are_read():
    with (ROOT / "adapters/aws/metrics/metrics.csv").open() as file:
        rows = [(row["namespace"], row["metric"]) for row in csv.DictReader(file)]
    made = Made(BOT, {"Stream": "yes"}).resources["MetricStream"]["IncludeFilters"]
    streamed = {each["Namespace"]: each.get("MetricNames", []) for each in made}
    assert set(streamed) == {space for space, _ in rows} - {"PromQL", "neuron-monitor"}
    for space, names in streamed.items():
        assert set(names) in (set(), {name for each, name in rows if each == space})
    (module,) = [x["streamed"] for x in parsed("stream")["locals"]]
    plain = {x.strip('"'): [y.strip('"') for y in names] for x, names in module.items()}
    assert plain == streamed


def test_the_task_runs_as_the_image_s_user_and_is_asked_what_a_pod_is_asked():
    (container,) = Made(BOT, GIVEN).resources["Task"]["ContainerDefinitions"]
    assert container["User"] in (DEPLOY / "Dockerfile").read_text()
    workload = (DEPLOY / "helm/trnbot/templates/workload.yaml").read_text()
    (path,) = re.findall(r"livenessProbe:\s+httpGet:\s+path: (\S+)", workload)
    *_, command = container["HealthCheck"]["Command"]
    assert f"http://127.0.0.1:8080{path}'" in command
    assert command in MODULE


def test_the_pages_name_parameters_that_there_are():
    page = "".join(path.read_text() for path in (ROOT / "docs").glob("aws*.md"))
    named = set(re.findall(r"ParameterKey=(\w+)", page))
    assert named
    assert named <= Made(MEMBER, {}).template["Parameters"].keys()
    (overrides,) = re.findall(r"--parameter-overrides ([^`]+)`", page)
    named = set(re.findall(r"(\w+)=", overrides))
    assert named
    assert named <= Made(BOT, {}).template["Parameters"].keys()


def parsed(name):
    with (DEPLOY / "terraform" / f"{name}.tf").open() as file:
        return hcl2.load(file)


def test_the_module_declares_what_it_names():
    names = [path.stem for path in (DEPLOY / "terraform").glob("*.tf")]
    blocks = [parsed(name) for name in names]
    declared = {
        f"{kind.strip(chr(34))}.{name.strip(chr(34))}"
        for block in blocks
        for resource in block.get("resource", ())
        for kind, named in resource.items()
        for name in named
    }
    variables = {
        name.strip('"') for block in blocks for each in block.get("variable", ()) for name in each
    }
    values = {
        name
        for block in blocks
        for each in block.get("locals", ())
        for name in each
        if not name.startswith("__")
    }
    used = set(re.findall(r"(?<!data\.)\baws_\w+\.\w+", MODULE))
    assert used <= declared
    assert set(re.findall(r"\bvar\.(\w+)", MODULE)) == variables
    assert set(re.findall(r"\blocal\.(\w+)", MODULE)) == values


def test_the_module_fills_in_the_policy_itself():
    (filled,) = [x["resources"] for x in parsed("permissions")["locals"]]
    assert {name for name in filled if name != "__is_block__"} == {
        statement["Sid"] for statement in POLICY if statement["Resource"] != "*"
    }


def test_the_module_and_the_stack_are_made_of_the_same_pieces():
    made = Made(BOT, EVERYTHING).resources
    documents = json.dumps({name: x for name, x in made.items() if name != "Permissions"})
    action = r'"((?:s3|sqs|sts|firehose|secretsmanager):[A-Za-z*]+)"'
    assert set(re.findall(action, MODULE)) == set(re.findall(action, documents))
    container = made["Task"]["ContainerDefinitions"][0]
    secrets = re.findall(r'default\s+= \["(TRNBOT_WEB_TOKEN.+)"\]', MODULE)[0].split('", "')
    assert set(secrets) <= {each["Name"] for each in container["Secrets"]}
    assert (
        set(re.findall(r"^    (TRNBOT_\w+)", MODULE, re.MULTILINE))
        <= environment(Made(BOT, EVERYTHING)).keys()
    )


FOUND = {
    "data.aws_caller_identity.current.account_id": "111122223333",
    "data.aws_partition.current.partition": "aws",
    "data.aws_region.current.name": "us-east-1",
    "aws_s3_bucket.trnbot.bucket": "trnbot-111122223333-us-east-1",
    "aws_sqs_queue.events.url": "https://sqs.us-east-1.amazonaws.com/111122223333/trnbot-events",
}
"""What the provider would answer; its plugin is not at hand where tests run."""
EQUALLY = {
    "stream": True,
    "billing": {"bucket": EVERYTHING["BillingBucket"], "prefix": EVERYTHING["BillingPrefix"]},
    "log_group": EVERYTHING["LogGroup"],
    "workspace": EVERYTHING["Workspace"],
    "athena_results_bucket": EVERYTHING["AthenaResultsBucket"],
    "key": EVERYTHING["Key"],
    "regions": EVERYTHING["Regions"].split(","),
    "roles": [EVERYTHING["Roles"]],
    "more_queues": [EVERYTHING["MoreQueues"]],
    "more_streams": [EVERYTHING["MoreStreams"]],
}
"""The variables that say the same as the parameters in EVERYTHING."""


def terraform(folder, *words):
    """Return what Terraform prints; skip where it is not installed."""
    program = shutil.which("terraform")
    if program is None:
        pytest.skip("terraform is not installed here")
    command = [program, *words, "-no-color"]
    said = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert said.returncode == 0, said.stdout + said.stderr
    return said.stdout


def evaluated(variables, folder):
    """Return what Terraform makes of the module's own values, from its variables."""
    module = folder / "terraform"
    module.mkdir()
    for name in ("iam-policy.json", "terraform/variables.tf"):
        shutil.copy(DEPLOY / name, folder / name)
    values = "".join(re.findall(r"^locals \{\n.*?^\}\n", MODULE, re.MULTILINE | re.DOTALL))
    for name, value in FOUND.items():
        values = values.replace(name, json.dumps(value))
    outputs = "".join(
        f'output "{name}" {{\n  value = local.{name}\n}}\n'
        for name in ("granted", "environment", "columns", "makes_export", "runs")
    )
    (module / "values.tf").write_text(values + outputs)
    (module / "terraform.tfvars.json").write_text(json.dumps(variables))
    terraform(module, "init", "-input=false")
    terraform(module, "apply", "-auto-approve", "-input=false")
    made = json.loads(terraform(module, "output", "-json"))
    return {name: each["value"] for name, each in made.items()}


def plain(statements):
    """Return statements without their order, a single resource as a list of it."""
    return {
        each["Sid"]: (
            each["Action"],
            [x] if isinstance(x := each["Resource"], str) else x,
        )
        for each in statements
    }


def test_terraform_reads_the_module_as_it_is_written():
    terraform(DEPLOY / "terraform", "fmt", "-check", "-diff")


@pytest.mark.parametrize(
    ("given", "variables"), [({}, {}), (EVERYTHING, EQUALLY)], ids=["least", "everything"]
)
def test_the_module_grants_and_sets_what_the_stack_does(given, variables, tmp_path):
    made, stack = evaluated(variables, tmp_path), Made(BOT, {**given, "Image": "x"})
    document = stack.resources["Permissions"]["PolicyDocument"]
    assert plain(made["granted"]) == plain(document["Statement"])
    settings = environment(stack)
    assert made["environment"] == {name: settings[name] for name in made["environment"]}
    assert made["columns"] == columns()
    assert made["makes_export"] == ("Bill" in stack.resources)
    assert made["runs"] == 0
