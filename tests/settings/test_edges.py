"""Each setting at both ends of what it takes, and each contradiction with what heals it."""

from datetime import timedelta
from decimal import Decimal
from ipaddress import ip_network

import pytest

from bot.errors import WrongInput
from bot.model.causes import Cause
from bot.model.frame import Meaning, MetricsSurface
from bot.model.labels import Labels
from bot.model.limits import TOML_BITS, TOML_DEPTH, TOML_DOTS
from bot.model.request import Role, RoleRule
from bot.model.route import Route
from bot.policy.file import parse_toml
from bot.settings.keys import KEYS, Secret
from bot.settings.routes import words
from bot.settings.settings import LOOPBACK, SHORTEST, read_settings
from tests.cases import in_one_run

ROLE = "arn:aws:iam::111122223333:role/trnbot"
READ = {
    "source": {"": "", "aws": "aws", "recording:x": "recording:x", "simulator:7": "simulator:7"},
    "port": {"0": 0, "65535": 65_535},
    "public_url": {"https://x.example/": "https://x.example", "http://x:80": "http://x:80"},
    "route": {"slack:C1, teams:19:x": ("slack:C1", "teams:19:x"), ",": ()},
    "routes": {
        "cluster=x cause=idle -> slack:C1,slack:C2;": (
            Route(("slack:C1", "slack:C2"), Labels(cluster="x"), "idle"),
        ),
        "severity=critical -> slack:C1": (Route(("slack:C1",), Labels(), severity="critical"),),
    },
    "finops_causes": {"idle": (Cause.IDLE,), "": ()},
    "owners": {"Dana = slack:U1, slack:U2;": {"dana": ("slack:U1", "slack:U2")}},
    "guests": {
        **dict.fromkeys(("1", "true", "ON", "yes"), True),
        **dict.fromkeys(("0", "false", "off", "No", ""), False),
    },
    "speed": {"60x": 60.0, "0.000001": 1e-6, "1000000": 1e6},
    "interval": {
        "1m": timedelta(minutes=1),
        "15 min": timedelta(minutes=15),
        "1h": timedelta(hours=1),
    },
    "lines": {"1": 1, "100000": 100_000},
    "words": {"": "", "bedrock:us.amazon.nova-lite-v1:0": "bedrock:us.amazon.nova-lite-v1:0"},
    "dask": {"": "", "tcp://x:1": "tcp://x:1", "tls://x:65535": "tls://x:65535"},
    "retention": {"90d": timedelta(days=90), "2 w": timedelta(weeks=2)},
    "keep.alerts": {"": None, "15d": timedelta(days=15)},
    "metrics.surface": {"promql": MetricsSurface.PROMQL},
    "metrics.url": {
        "http://x:9090/": "http://x:9090",
        "https://x/w/api/v1/query": "https://x/w",
        "https://x/w/api/v1": "https://x/w",
    },
    "spark.server": {
        "sc://x:1/;token=ab==": Secret("sc://x:1/;token=ab%3D%3D"),
        "sc://[::1]": Secret("sc://[::1]"),
    },
    "spark.table": {"a.b.c": "a.b.c", "s3://b/p": "s3://b/p", "/p": "/p"},
    "aws.regions": {"us-gov-west-1, eu-west-1": ("us-gov-west-1", "eu-west-1"), "": ()},
    "aws.billing": {"": "", "s3://b.c": "s3://b.c", "s3://bills/p/q": "s3://bills/p/q"},
    "aws.athena": {"": "", "bills.cur-2": "bills.cur-2"},
    "aws.athena_output": {"s3://Old_Results/p": "s3://Old_Results/p"},
    "aws.stream": {"s3://one/p,s3://two": ("s3://one/p", "s3://two")},
    "aws.events": {
        "https://sqs.us-west-2.amazonaws.com/1/a": ("https://sqs.us-west-2.amazonaws.com/1/a",)
    },
    "aws.roles": {f"self, {ROLE}": ("self", ROLE)},
    "aws.external_id": {"": "", "ab": "ab", "a" * 1224: "a" * 1224},
    "aws.billing_role": {"": "", "self": "", ROLE: ROLE},
    "aws.explorer_calls": {"0": 0, "100000": 100_000},
    "aws.budget": {"": None, "$5": Decimal(5), ".5": Decimal("0.5"), "5.": Decimal(5)},
    "act.roles": {ROLE: (ROLE,)},
    "monitor.metrics": {
        "u -> neuroncore_utilization_ratio in Percent": (
            Meaning("u", "neuroncore_utilization_ratio", "percent"),
        ),
        "e -> neuron_execution_errors_count": (
            Meaning("e", "neuron_execution_errors_count", "count"),
        ),
    },
    "web.roles": {
        "Dana@x.example = admin; group:ops=member, * = reader": (
            RoleRule("dana@x.example", Role.ADMIN),
            RoleRule("group:ops", Role.ANYONE),
            RoleRule("*", Role.READER),
        )
    },
    "web.proxies": {
        "10.0.3.7, ::1/128": (ip_network("10.0.3.7"), ip_network("::1/128")),
        "10.0.3.0/24": (ip_network("10.0.3.0/24"),),
    },
    "oidc.issuer": {
        "https://x.example/realms/work/": "https://x.example/realms/work",
        "http://localhost:8080": "http://localhost:8080",
        "http://[::1]": "http://[::1]",
    },
    "teams.sdk": {"botbuilder": "botbuilder", "agents": "agents"},
}
REFUSED = {
    "source": ("recording:", "simulator", "s3:x", "aws:1"),
    "port": ("65536", "-1", "8080.0", "1" * 10),
    "public_url": ("x.example", "https://x/path", "https://u@x", "https://x?a=1"),
    "route": ("C1", "slack:", ":C1", "1:C1"),
    "routes": ("cluster=x", "-> slack:C1", "cluster -> slack:C1", "colour=x -> slack:C1"),
    "finops_causes": ("idel",),
    "owners": ("dana", "= slack:U1", "dana ="),
    "digest_at": ("09:00", "xyz 09:00", "mon 24:00", "mon 09:00 Mars/Base"),
    "guests": ("2", "maybe"),
    "speed": ("0", "1000001", "-1", "fast", "inf"),
    "interval": ("0m", "7m", "2h", "61m"),
    "lines": ("0", "100001"),
    "words": ("openai:x", "bedrock:", "bedrock:a b"),
    "dask": ("tcp://x", "http://x:1", "tcp://u@x:1", "tcp://x:1/", "tcp://x:123456"),
    "retention": ("90", "1y", "123456d"),
    "keep.alerts": ("15",),
    "metrics.surface": ("prometheus",),
    "metrics.url": ("x:9090", "http://u:p@x", "http://x?q=1"),
    "spark.server": ("spark://x", "sc://x:1/;token", "sc://x:1;token=a", "sc://u@x"),
    "spark.table": ("a.b.c.d", "a b", "s3://b/`"),
    "aws.regions": ("banana", "us-west-2, us-west-", "us-west-2a"),
    "aws.billing": ("billing/exports", "s3://b/p"),
    "aws.athena": ("cur", "a.b.c"),
    "aws.athena_output": ("results",),
    "aws.stream": ("s3://good/p, bad",),
    "aws.events": ("trnbot-events",),
    "aws.roles": ("trnbot", "arn:aws:iam::1:user/x"),
    "aws.external_id": ("a", "a" * 1225, "a b"),
    "aws.billing_role": (f"{ROLE}, {ROLE}2",),
    "aws.explorer_calls": ("100001", "-1"),
    "aws.budget": ("-1", "1e3", "$", "5,0", "1" * 13),
    "act.roles": ("self", f"{ROLE}, self"),
    "monitor.metrics": (
        "u",
        "-> neuroncore_utilization_ratio in percent",
        "u -> utilization in percent",
        "u -> neuroncore_utilization_ratio in count",
        "u -> neuroncore_utilization_ratio",
    ),
    "web.roles": ("dana", "= admin", "dana = owner"),
    "web.proxies": ("10.0.3.7/24", "proxy", "10.0.3.256"),
    "oidc.issuer": ("http://x.example", "http://localhost.example", "https://u@x", "https://x?a"),
    "teams.sdk": ("agent", ""),
}
READERS = {key.name: key.read for key in KEYS}


def test_every_reader_is_held_at_its_ends():
    """What takes any text needs no row; whatever is read in words is tried by one of its keys."""
    any_text = (str, Secret, words)
    needed = {repr(read) for read in READERS.values() if read not in any_text}
    tried = {repr(READERS[name]) for name in {**READ, **REFUSED}}
    assert needed <= tried


@in_one_run
@pytest.mark.parametrize(
    ("name", "text", "value"),
    [(name, text, value) for name, values in READ.items() for text, value in values.items()],
)
def test_what_a_setting_takes_is_read(name, text, value):
    assert READERS[name](text) == value


@in_one_run
@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in REFUSED.items() for text in texts]
)
def test_what_a_setting_does_not_take_is_refused_in_one_sentence(name, text):
    with pytest.raises(WrongInput) as refused:
        READERS[name](text)
    assert str(refused.value)


SLACK = {"SLACK_BOT_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1"}
OAUTH = {
    "SLACK_CLIENT_ID": "1.2",
    "SLACK_CLIENT_SECRET": "s",
    "SLACK_SIGNING_SECRET": "s",
    "TRNBOT_SLACK_WORKSPACES": "T1",
    "TRNBOT_SECRETS_KEY": "k" * 43 + "=",
}
TEAMS = {"MicrosoftAppId": "id", "MicrosoftAppPassword": "p", "MicrosoftAppTenantId": "t"}
SPARK = {"TRNBOT_SPARK": "sc://x", "TRNBOT_SPARK_TABLE": "cur"}
OIDC = {
    "TRNBOT_OIDC_ISSUER": "https://x.example",
    "TRNBOT_OIDC_CLIENT_ID": "c",
    "TRNBOT_OIDC_CLIENT_SECRET": "s",
}
PROXY = {"TRNBOT_WEB_PROXIES": "10.0.3.7"}
TOKEN = {"TRNBOT_WEB_TOKEN": "t" * SHORTEST}
OPEN = {"TRNBOT_HOST": "0.0.0.0"}
POSTGRES = {"TRNBOT_DATABASE_URL": "postgresql://dana@db/x"}
DEVELOPED = {"TRNBOT_TEAMS_DEVELOPMENT": "1"}

CONTRADICTIONS = (
    ("SLACK_BOT_TOKEN is for one", SLACK | OAUTH, ({"SLACK_BOT_TOKEN": ""},)),
    ("AppId also needs", TEAMS | {"MicrosoftAppPassword": ""}, (TEAMS,)),
    (
        "two ways to one export",
        {"TRNBOT_AWS_BILLING": "s3://bills/p", "TRNBOT_AWS_ATHENA": "a.b"},
        ({"TRNBOT_AWS_BILLING": ""}, {"TRNBOT_AWS_ATHENA": ""}),
    ),
    ("another way", SPARK | {"TRNBOT_AWS_BILLING": "s3://bills/p"}, ({"TRNBOT_AWS_BILLING": ""},)),
    ("another way", SPARK | {"TRNBOT_AWS_ATHENA": "a.b"}, ({"TRNBOT_AWS_ATHENA": ""},)),
    ("need each other", SPARK | {"TRNBOT_SPARK": ""}, (SPARK, {"TRNBOT_SPARK_TABLE": ""})),
    ("need each other", SPARK | {"TRNBOT_SPARK_TABLE": ""}, (SPARK, {"TRNBOT_SPARK": ""})),
    (
        "is asked by PromQL",
        {"TRNBOT_METRICS_URL": "http://x", "TRNBOT_METRICS_SURFACE": "cloudwatch"},
        ({"TRNBOT_METRICS_SURFACE": "auto"}, {"TRNBOT_METRICS_URL": ""}),
    ),
    (
        "METRICS_TOKEN also needs",
        {"TRNBOT_METRICS_TOKEN": "t"},
        ({"TRNBOT_METRICS_URL": "http://x"},),
    ),
    ("ISSUER also needs", OIDC | {"TRNBOT_OIDC_CLIENT_ID": ""}, (OIDC,)),
    ("ISSUER also needs", OIDC | {"TRNBOT_OIDC_CLIENT_SECRET": ""}, (OIDC,)),
    ("is for people who sign in", {"TRNBOT_WEB_ROLES": "*=reader"}, (OIDC, PROXY)),
    ("needs SLACK_CLIENT_SECRET", OAUTH | {"SLACK_CLIENT_SECRET": ""}, (OAUTH,)),
    ("needs TRNBOT_SLACK_WORKSPACES", OAUTH | {"TRNBOT_SLACK_WORKSPACES": ""}, (OAUTH,)),
    (
        "SLACK_BOT_TOKEN also needs",
        SLACK | {"SLACK_APP_TOKEN": ""},
        (SLACK, {"SLACK_SIGNING_SECRET": "s"}),
    ),
    (
        "SLACK_CLIENT_ID also needs SLACK_APP",
        OAUTH | {"SLACK_SIGNING_SECRET": ""},
        (OAUTH, {"SLACK_APP_TOKEN": "xapp-1"}),
    ),
    (
        "lets others reach the console",
        OPEN,
        (TOKEN, OIDC, PROXY, *({"TRNBOT_HOST": host} for host in LOOPBACK)),
    ),
    ("lets others reach", {"TRNBOT_PUBLIC_URL": "https://x.example"}, (TOKEN, OIDC, PROXY)),
    (
        "short enough to be guessed",
        {"TRNBOT_WEB_TOKEN": "t" * (SHORTEST - 1)},
        (TOKEN, {"TRNBOT_WEB_TOKEN": ""}),
    ),
    ("stores a bot token", OAUTH | {"TRNBOT_SECRETS_KEY": ""}, (OAUTH,)),
    ("which a file of SQLite is", {"TRNBOT_SHARDS": "1"}, (POSTGRES, {"TRNBOT_SHARDS": "0"})),
    (
        "lets anyone in, so it needs a loopback",
        DEVELOPED | OPEN | TOKEN,
        ({"TRNBOT_HOST": "::1"}, TEAMS, {"TRNBOT_TEAMS_DEVELOPMENT": "0"}),
    ),
    ("AppId is empty", {"MicrosoftAppId": ""}, (TEAMS, DEVELOPED)),
    (
        "lets any tenant in",
        TEAMS | {"MicrosoftAppTenantId": ""},
        (TEAMS, {"TRNBOT_TEAMS_TENANTS": "*"}),
    ),
)


def said(environ):
    """Return all that is said against these settings."""
    try:
        return " ".join(read_settings(environ).unservable)
    except WrongInput as error:
        return str(error)


@in_one_run
@pytest.mark.parametrize(("words", "environ", "remedies"), CONTRADICTIONS)
def test_a_contradiction_is_told_and_each_remedy_ends_it(words, environ, remedies):
    assert words in said(environ)
    for remedy in remedies:
        assert said(environ | remedy) == "", remedy


@in_one_run
@pytest.mark.parametrize(
    ("text", "taken"),
    [
        (f"x = {2**TOML_BITS - 1}", True),
        (f"x = {2**TOML_BITS}", False),
        (f"x = [{2**TOML_BITS}]", False),
        ("x = " + "[" * (TOML_DEPTH - 1) + "]" * (TOML_DEPTH - 1), True),
        ("x = " + "[" * TOML_DEPTH + "1" + "]" * TOML_DEPTH, False),
        ("a" + ".a" * TOML_DOTS + " = 1", False),
        ("a." * (TOML_DEPTH - 2) + "a = 1", True),
        ("x = '" + "." * TOML_DOTS + "'", True),
        ("x = '" + "." * (TOML_DOTS + 1) + "'", False),
        ("x = '" + "a" * 93 + "'", True),
        ("x = '" + "a" * 94 + "'", False),
        ("x = '" + "ä" * 47 + "'", False),
    ],
)
def test_a_file_is_as_long_deep_and_wide_as_it_may_be(text, taken):
    most = 99 if "aa" in text or "ä" in text else 100_000
    try:
        parse_toml(text, "It", most)
    except WrongInput as error:
        assert not taken, error
        assert str(error).startswith("It ")
    else:
        assert taken, text[:60]
