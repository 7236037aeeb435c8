"""The chart is linted and rendered by Helm itself; what is misspelt is refused before anything is installed."""

from __future__ import annotations

import os
import re
import tomllib

import pytest
import yaml

from bot.settings.settings import KEYS
from docs.chart import FIXED
from tests.deploy.rendered import (
    CHART,
    PLAIN,
    ROOT,
    check_schema,
    helm,
    objects,
    plain_text,
    rendered,
    workload,
)

EVERYTHING = {
    "image": {"repository": "registry.example/trnbot", "tag": "1", "pullSecrets": [{"name": "r"}]},
    "persistence": {"size": "20Gi", "storageClass": "gp3"},
    "settings": {"TRNBOT_SOURCE": "aws", "TRNBOT_LINES": "90"},
    "config": '[policy.idle]\nbelow = "7%"\n',
    "owners": '[cluster]\nllama = "slack:C1"\n',
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/r"}},
    "ingress": {
        "enabled": True,
        "host": "trnbot.example.com",
        "tlsSecret": "t",
        "className": "alb",
    },
    "networkPolicy": {"egress": [{"ports": [{"port": 9090}]}]},
    "monitoring": {"dashboard": True, "labels": {"release": "prometheus"}},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"operator": "Exists"}],
    "podAnnotations": {"a": "b"},
    "podLabels": {"c": "d"},
}
SEVERAL = PLAIN["postgresql"]
OPERATORS = {"monitoring": {"serviceMonitor": True, "prometheusRule": True, "recordingRules": True}}


def test_the_chart_is_linted():
    report = helm().lint(str(CHART), strict=True)
    findings = [each["error"] for each in report["messages"] if each["severity"] > 1]
    assert (report["total_charts_linted"], report["errors"], findings) == (1, [], [])


def test_the_chart_has_the_version_of_the_package():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (chart["version"], chart["appVersion"]) == (project["version"],) * 2


@pytest.mark.parametrize("store", sorted(PLAIN))
def test_plain_manifests_are_the_rendered_chart(store):
    text, file = plain_text(PLAIN[store]), ROOT / f"deploy/kubernetes/{store}.yaml"
    if os.environ.get("GOLDENS") == "write":
        file.write_text(text)
    assert file.read_text() == text, "stale: run 'make manifests' and commit what changed"


@pytest.mark.parametrize("version", ["1.27", "1.31", "newest"])
@pytest.mark.parametrize(
    "values", [{}, EVERYTHING, EVERYTHING | SEVERAL], ids=["as it is", "everything", "several"]
)
def test_what_is_rendered_fits_the_schemas_of_kubernetes(values, version):
    found = objects(rendered(values))
    for each in found.values():
        check_schema(each, version)
    assert len(found) >= 4


def test_each_value_arrives():
    found = objects(rendered(EVERYTHING))
    pod = workload(found)["spec"]["template"]["spec"]
    box = pod["containers"][0]
    assert box["image"] == "registry.example/trnbot:1"
    assert {each["name"]: each["value"] for each in box["env"]} == {
        "TRNBOT_SOURCE": "aws",
        "TRNBOT_LINES": "90",
        "TRNBOT_CONFIG": "/etc/trnbot/trnbot.toml",
        "TRNBOT_OWNERS_FILE": "/etc/trnbot/owners.toml",
        "TRNBOT_PUBLIC_URL": "https://trnbot.example.com",
    }
    files = found["ConfigMap trnbot"]["data"]
    assert tomllib.loads(files["trnbot.toml"]) == {"policy": {"idle": {"below": "7%"}}}
    assert tomllib.loads(files["owners.toml"]) == {"cluster": {"llama": "slack:C1"}}
    assert (
        found["ServiceAccount trnbot"]["metadata"]["annotations"]
        == EVERYTHING["serviceAccount"]["annotations"]
    )
    assert {"port": 9090} in [
        port for rule in found["NetworkPolicy trnbot"]["spec"]["egress"] for port in rule["ports"]
    ]


def test_values_that_the_docs_give_are_taken():
    page = (ROOT / "docs/kubernetes.md").read_text()
    given = re.findall(r"--set(?:-string)? '?([^\s'`]+)", page)
    assert len(given) == 3
    for text in given:
        assert objects(rendered(helm().parse_set_string(text)))


def test_another_policy_starts_the_pods_again_and_another_owner_does_not():
    template = [
        workload(objects(rendered(values)))["spec"]["template"]["metadata"]
        for values in (EVERYTHING, EVERYTHING | {"owners": "[team]\n"}, EVERYTHING | {"config": ""})
    ]
    assert template[0] == template[1]
    assert template[0] != template[2]


def test_several_pods_come_with_postgresql_alone_and_stay_while_nodes_are_drained():
    assert not any(name.startswith("PodDisruptionBudget") for name in objects(rendered({})))
    several = objects(rendered(SEVERAL))
    assert workload(several)["kind"] == "Deployment"
    assert several["PodDisruptionBudget trnbot"]["spec"]["maxUnavailable"] == 1
    policy = several["NetworkPolicy trnbot"]["spec"]["egress"]
    assert {"port": 5432} in [port for rule in policy for port in rule["ports"]]


def test_prometheus_shows_the_console_s_token():
    found = objects(rendered(OPERATORS))
    (endpoint,) = found["ServiceMonitor trnbot"]["spec"]["endpoints"]
    assert endpoint["authorization"]["credentials"] == {"name": "trnbot", "key": "TRNBOT_WEB_TOKEN"}
    rules = yaml.safe_load((CHART / "files/rules.yaml").read_text())
    assert found["PrometheusRule trnbot"]["spec"] == rules
    recording = yaml.safe_load((ROOT / "deploy/prometheus/rules.yaml").read_text())
    assert found["PrometheusRule trnbot-recording"]["spec"] == recording


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"replicas": 2}, "at '/replicas': value must be 1"),
        ({"settings": {"TRNBOT_SORCE": "aws"}}, "additional properties 'TRNBOT_SORCE' not allowed"),
        ({"settings": {"SLACK_BOT_TOKEN": "x"}}, "additional properties 'SLACK_BOT_TOKEN'"),
        (
            {"settings": {"TRNBOT_LINES": 60}},
            "at '/settings/TRNBOT_LINES': got number, want string",
        ),
        ({"ingress": {"enabled": True}}, "at '/ingress/host': minLength"),
        ({"secret": ""}, "at '/secret': minLength"),
        ({"replica": 1}, "additional properties 'replica' not allowed"),
        ({"store": "mysql"}, "at '/store': value must be one of 'sqlite', 'postgresql'"),
    ],
)
def test_a_wrong_value_is_refused_by_name(values, sentence):
    with pytest.raises(helm().HelmValuesError) as refused:
        rendered(values)
    assert sentence in str(refused.value)


def test_every_setting_that_is_no_secret_can_be_set():
    names = {key.variable for key in KEYS if not key.secret} - FIXED
    assert {*objects(rendered({"settings": dict.fromkeys(names, "")}))} == {*objects(rendered({}))}
    secrets = [key.variable for key in KEYS if key.secret]
    for name in secrets:
        with pytest.raises(helm().HelmValuesError):
            rendered({"settings": {name: ""}})
    assert secrets
