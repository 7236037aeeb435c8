"""The plain manifests are valid, confined, name nothing that the bot does not read, and start it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from contextlib import ExitStack
from datetime import date
from decimal import Decimal

import pytest
import yaml

from adapters.aws.api.outcomes import exposition
from bot.model.price import SelfCost
from bot.settings.settings import KEYS
from docs.chart import FIXED
from tests.cases import in_one_run
from tests.deploy.rendered import CHART, PLAIN, ROOT, check_schema, plain, workload
from tests.e2e.product import product, recording
from tests.e2e.slackserver import free_port

TOKEN = "console-token-of-a-test"
SECRET = {"TRNBOT_WEB_TOKEN": TOKEN}
RULES = CHART / "files/rules.yaml"
DASHBOARD = json.loads((CHART / "files/dashboard.json").read_text())
SELECTED = {
    "Service": lambda spec: spec["selector"],
    "NetworkPolicy": lambda spec: spec["podSelector"]["matchLabels"],
    "PodDisruptionBudget": lambda spec: spec["selector"]["matchLabels"],
}
promtool = pytest.mark.skipif(
    not shutil.which("promtool"), reason="promtool (apt-get install prometheus) is not installed"
)
stores = pytest.mark.parametrize("store", sorted(PLAIN))


def container(store):
    (box,) = workload(plain(store))["spec"]["template"]["spec"]["containers"]
    return box


def expressions():
    """Yield every expression of the rules, and of the dashboard for any namespace."""
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"].replace("$namespace", ".*") for target in panel["targets"])


@pytest.mark.parametrize("version", ["1.27", "1.31", "newest"])
@stores
def test_plain_manifests_fit_the_schemas_of_kubernetes(store, version):
    for each in plain(store).values():
        check_schema(each, version)


@stores
def test_a_pod_may_do_nothing_but_its_work(store):
    """What Kubernetes calls the restricted standard, and a root that is read alone."""
    pod, box = workload(plain(store))["spec"]["template"]["spec"], container(store)
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}
    assert box["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not any("hostPath" in volume for volume in pod["volumes"])
    assert "limits" in box["resources"]


@stores
def test_the_same_user_and_folder_as_in_the_image(store):
    image = (ROOT / "deploy/Dockerfile").read_text()
    assert "USER 10001:10001" in image
    assert re.search(r"^EXPOSE (\d+)", image, re.MULTILINE)[1] == "8080"
    (port,) = container(store)["ports"]
    assert port["containerPort"] == 8080
    (folder,) = re.findall(r"^VOLUME (.+)", image, re.MULTILINE)
    assert folder in [mount["mountPath"] for mount in container(store)["volumeMounts"]]


def test_what_is_kept_outlives_the_pod_with_sqlite():
    stateful = workload(plain("sqlite"))
    (claim,) = stateful["spec"]["volumeClaimTemplates"]
    assert claim["metadata"]["name"] == "state"
    assert stateful["spec"]["replicas"] == 1


@stores
def test_every_object_selects_the_pods(store):
    found = plain(store)
    labels = workload(found)["spec"]["template"]["metadata"]["labels"]
    chosen = [SELECTED[x["kind"]](x["spec"]) for x in found.values() if x["kind"] in SELECTED]
    assert len(chosen) == len(found) - 2  # all but the account and the pods' own object
    assert all(selected.items() <= labels.items() for selected in chosen)


@in_one_run
@pytest.mark.parametrize(
    "file",
    [str(x.relative_to(ROOT)) for x in sorted((ROOT / "deploy").rglob("*")) if x.is_file()],
)
def test_every_variable_that_is_shipped_is_read(file):
    known = {key.variable for key in KEYS} | {"TRNBOT_CONFIG", *FIXED}
    named = set(
        re.findall(r"\b(?:TRNBOT|SLACK)_[A-Z_]+\b|\bMicrosoft[A-Z]\w+", (ROOT / file).read_text())
    )
    assert named <= known


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """Yield the bot as the manifest starts it, but for the source that it watches."""
    environment = {each["name"]: each["value"] for each in container("sqlite")["env"]}
    folder = tmp_path_factory.mktemp("pod")
    given = environment | SECRET | {"TRNBOT_SOURCE": f"recording:{recording('tiny')}"}
    with product(folder, free_port(), given) as running:
        yield running


def fetched(started, path, token=""):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(started.url + path, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.status, answer.read().decode()


def test_of_two_pods_with_postgresql_both_are_ready_and_one_watches(postgres_url, tmp_path):
    environment = {each["name"]: each["value"] for each in container("postgresql")["env"]}
    secret = SECRET | {"TRNBOT_DATABASE_URL": postgres_url}
    given = environment | secret | {"TRNBOT_SOURCE": f"recording:{recording('tiny')}"}
    folders = [tmp_path / name for name in ("first", "second")]
    with ExitStack() as pods:
        for folder in folders:
            folder.mkdir()
        running = [pods.enter_context(product(x, free_port(), given)) for x in folders]
        assert [fetched(pod, "/healthz")[0] for pod in running] == [200, 200]
        metrics = [fetched(pod, "/metrics", TOKEN)[1] for pod in running]
    leads = [re.search(r"^trnbot_leading (\d)", text, re.MULTILINE)[1] for text in metrics]
    assert sorted(leads) == ["0", "1"]


@pytest.mark.parametrize("probe", ["startupProbe", "livenessProbe", "readinessProbe"])
def test_probes_are_answered_without_a_token(started, probe):
    (path,) = {container(store)[probe]["httpGet"]["path"] for store in PLAIN}
    assert fetched(started, path)[0] == 200


def test_rules_and_dashboard_ask_for_metrics_that_there_are(started):
    with pytest.raises(urllib.error.HTTPError, match="401"):
        fetched(started, "/metrics")
    of_aws = exposition(SelfCost(date(2026, 11, 20), (), Decimal(0), Decimal(0)))
    there = set(re.findall(r"^# TYPE (\w+)", fetched(started, "/metrics", TOKEN)[1] + of_aws, re.M))
    # Where there is a platform, and where a bill was read for an hour.
    of_others = {"trnbot_messages_waiting", "trnbot_goodput_usd"}

    asked = {name for text in expressions() for name in re.findall(r"\btrnbot_\w+", text)}
    assert asked <= there | of_others
    assert {"trnbot_ok", "trnbot_leading"} <= asked


@promtool
def test_every_expression_is_understood_by_prometheus(tmp_path):
    rules = [{"record": f"trnbot:{i}", "expr": text} for i, text in enumerate(expressions())]
    file = tmp_path / "expressions.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    for each in (file, RULES):
        checked = subprocess.run(
            ["promtool", "check", "rules", each],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr


FIRING = {
    "TrnbotWatchFails": {"trnbot_ok": 0},
    "TrnbotNobodyWatches": {"trnbot_leading": 0},
    "TrnbotNotificationsUndelivered": {"trnbot_notices_undelivered": 2},
    "TrnbotMessagesDelayed": {'trnbot_messages_waiting{platform="slack"}': 21},
    "TrnbotOverBudget": {"trnbot_aws_usd_month": 90, "trnbot_aws_budget_usd_day": 2},
    "TrnbotTicksMissed": {"trnbot_ticks_missed_total": "0+1x120"},
    "TrnbotAbsent": {"trnbot_ok": "_x120"},
}
"""What makes each rule fire; of the whole table no other rule does."""
CALM = {
    "trnbot_ok": 1,
    "trnbot_leading": 1,
    "trnbot_notices_undelivered": 0,
    'trnbot_messages_waiting{platform="slack"}': 3,
    "trnbot_aws_usd_month": 50,
    "trnbot_aws_budget_usd_day": 2,
    "trnbot_ticks_missed_total": 0,
}


@promtool
@pytest.mark.parametrize("firing", ["", *FIRING])
def test_a_rule_fires_where_it_should_and_nowhere_else(tmp_path, firing):
    values = CALM | FIRING.get(firing, {})
    series = [
        {"series": name, "values": value if isinstance(value, str) else f"{value}x120"}
        for name, value in values.items()
    ]
    expected = 'ALERTS{alertstate="firing"}'
    counted = {"expr": f"count by (alertname) ({expected})", "eval_time": "2h", "exp_samples": []}
    if firing:
        counted["exp_samples"] = [{"labels": f'{{alertname="{firing}"}}', "value": 1}]
    case = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": [counted]}],
    }
    file = tmp_path / "case.yaml"
    file.write_text(yaml.safe_dump(case))
    tested = subprocess.run(
        ["promtool", "test", "rules", file], capture_output=True, text=True, timeout=60, check=False
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_every_rule_has_a_case_and_says_what_to_do():
    rules = [
        rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
    ]
    assert sorted(FIRING) == sorted(rule["alert"] for rule in rules)
    assert all(rule["annotations"].keys() == {"summary", "description"} for rule in rules)
