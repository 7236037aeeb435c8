"""List the settings of an installation in one table, and read the text of each.

The file, the environment, `default.toml` and the docs page follow the table.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, NoReturn, TypeVar

from bot.errors import WrongInput, nearest, require_known
from bot.model.frame import UNITS, Meaning, MetricsSurface
from bot.model.labels import CLUSTER_TAGS
from bot.model.reading import NODE_METRICS
from bot.model.request import Role, RoleRule
from bot.model.window import DAY, HOUR, parse_duration, read_weekly
from bot.ports.work import LINES_A_MINUTE
from bot.settings.routes import addresses, causes, read_owners, read_routes, words


class Secret:
    """Print as `****` wherever text is made of it.

    Str, repr, format, logs, `json.dumps(default=str)`.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the secret itself, only where it is handed to its user."""
        return self._value

    def __str__(self) -> str:
        """Show nothing, not even the length."""
        return "****"

    __repr__ = __str__

    def __format__(self, _: str) -> str:
        """Show nothing in any format."""
        return str(self)

    def __bool__(self) -> bool:
        """Return whether it is set."""
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        """Compare in constant time."""
        return isinstance(other, Secret) and hmac.compare_digest(
            self._value.encode(), other._value.encode()
        )

    __hash__ = None  # type: ignore[assignment] # a hash of a secret tells something of it

    def __deepcopy__(self, _: object) -> Secret:
        """Return itself, so that `dataclasses.asdict` keeps it closed."""
        return self

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled."""
        raise TypeError("a secret is not written down")


T = TypeVar("T")
SOURCES = "aws, recording:DIR or simulator:SEED"
TEAMS_SDKS = ("botbuilder", "agents")


def fitting(pattern: str, mistake: str, make: Callable[[str], T]) -> Callable[[str], T]:
    """Return a reader of texts that fit a pattern, or are empty; `make` makes the value of the text.

    It raises `WrongInput` with the mistake, in which `{text}` stands for the text.
    """

    def read(text: str) -> T:
        if text and not re.fullmatch(pattern, text):
            raise WrongInput(mistake.format(text=text))
        return make(text)

    return read


def whole(most: int, mistake: str, least: int = 0) -> Callable[[str], int]:
    """Return a reader of whole numbers from `least` to `most`, which raises as `fitting` does."""

    def read(text: str) -> int:
        if not re.fullmatch(r"\d{1,9}", text) or not least <= int(text) <= most:
            raise WrongInput(mistake.format(text=text))
        return int(text)

    return read


def word_of(choices: Collection[str], mistake: str, make: Callable[[str], T]) -> Callable[[str], T]:
    """Return a reader of one of some words, which raises `WrongInput` with the nearest of them."""

    def read(text: str) -> T:
        require_known(mistake.format(text=text), text, choices, most=0)
        return make(text)

    return read


_port = whole(
    65_535,
    "'{text}' is not a port; write a number up to 65535, such as 8080 (0 = any that is free).",
)
_lines = whole(
    100_000,
    "'{text}' is not a number of lines a minute; write one such as 60, up to 100,000.",
    least=1,
)
_count = whole(100_000, "'{text}' is not a number of things; write one such as 60, or 0 for none.")
_model = fitting(
    r"bedrock:[\w.:/-]+",
    "'{text}' is not a model; write bedrock:MODEL, by its id, ARN or inference profile.",
    str,
)
_scheduler = fitting(
    r"(tcp|tls)://[^/\s?#@:]+:\d{1,5}",
    "'{text}' is not the address of a Dask scheduler; write tcp://scheduler.internal:8786.",
    str,
)
_external_id = fitting(
    r"[\w+=,.@:/-]{2,1224}",
    "An external id has 2 to 1224 letters, digits and + = , . @ : / - without a space.",
    str,
)
_in_s3 = fitting(
    r"s3://[\w.-]{3,255}(/.*)?", "'{text}' is not a place in S3; write s3://BUCKET/PREFIX.", str
)
_athena_table = fitting(
    r"\w[\w-]*\.\w[\w-]*", "'{text}' names no Athena table; write DATABASE.TABLE.", str
)
_region = fitting(
    r"[a-z]{2,5}(-[a-z]+)+-\d{1,2}", "'{text}' is not a region; write it like us-west-2.", str
)
_queue = fitting(
    r"https?://[^\s?#@]+",
    "'{text}' is not the URL of an SQS queue;"
    " write https://sqs.us-west-2.amazonaws.com/111122223333/trnbot-events.",
    str,
)
_teams_sdk = word_of(TEAMS_SDKS, "'{text}' is neither botbuilder nor agents", str)
_role = fitting(
    r"self|arn:aws[\w-]*:iam::\d+:role/[\w+=,.@/-]+",
    "'{text}' is not the ARN of a role;"
    " write arn:aws:iam::111122223333:role/trnbot-reader, or self.",
    str,
)
_site = fitting(
    r"https?://[^/\s?#@]+/?",
    "'{text}' is not an address of a site; write https://trnbot.example.com.",
    lambda text: text.rstrip("/"),
)
_issuer = fitting(
    # Of plain http on this machine alone.
    r"(https://[^/\s?#@]+|http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?)(/[^\s?#]*)?",
    "'{text}' is not an OpenID Connect provider; write https://login.example.com/realms/work.",
    lambda text: text.rstrip("/"),
)
_server_address = fitting(
    r"https?://[^/\s?#@]+(/[^\s?#@]*)?",
    "A Prometheus server is named by its address, such as http://prometheus.monitoring:9090,"
    " without a name or password.",
    # The path before `/api/v1` stays, where it has one.
    lambda text: text.rstrip("/").removesuffix("/api/v1/query").removesuffix("/api/v1"),
)
_usd = fitting(
    r"\$?(\d{1,12}(\.\d{0,9})?|\.\d{1,9})",
    "'{text}' is not an amount; write USD such as 5.",
    lambda text: Decimal(text.removeprefix("$")) if text else None,
)
_table = fitting(
    r"[\w-]+(\.[\w-]+){0,2}|([a-z0-9]+:/)?/[^\s`]+",
    "'{text}' names no table of Spark; write CATALOG.SCHEMA.TABLE or s3://BUCKET/PREFIX.",
    str,
)
_surface = word_of(
    list(MetricsSurface), "'{text}' is none of auto, cloudwatch and promql", MetricsSurface
)


def each_of(read: Callable[[str], str]) -> Callable[[str], tuple[str, ...]]:
    """Return a reader of a comma list, each of whose words another reader reads."""
    return lambda text: tuple(map(read, words(text)))


roles = each_of(_role)
"""Reads the ARNs of roles, each of one account, or `self`; raises `WrongInput` for a pattern."""


def acting_roles(text: str) -> tuple[str, ...]:
    """Read the ARNs of roles that may change something; raise `WrongInput` for `self` as well."""
    arns = roles(text)
    if "self" in arns:
        raise WrongInput(
            "The role that may change something must be another one; 'self' is the role that reads."
        )
    return arns


def role(text: str) -> str:
    """Read the ARN of one role, "" and `self` for none; raise `WrongInput` for another text."""
    arns = roles(text)
    if len(arns) > 1:
        raise WrongInput(f"One role reads the bill; got {len(arns)}.")
    return "" if arns in ((), ("self",)) else arns[0]


def source(text: str) -> str:
    """Read the address of a source; raise `WrongInput` for another kind."""
    kind, _, place = text.partition(":")
    if text and text != "aws" and not (kind in ("recording", "simulator") and place):
        raise WrongInput(
            f"'{text}' is not a source"
            f"{nearest(kind, ('aws', 'recording', 'simulator'), most=0)}; write {SOURCES}."
        )
    return text


def _spark_address(text: str) -> Secret:
    """Return an address whose token may end with signs of equality, which its client misreads."""
    server, *parameters = text.split(";")
    pairs = [parameter.partition("=") for parameter in parameters]
    return Secret(";".join([server, *(f"{x}={y.replace('=', '%3D')}" for x, _, y in pairs)]))


_spark_server = fitting(
    r"sc://(\[[\da-fA-F:]+\]|[^/:;\s?#@]+)(:\d{1,5})?(/?|/(;[\w-]+=[^;\s]*)+)",
    "A Spark Connect server is named by its address: sc://HOST:PORT/;token=TOKEN, or"
    " sc://HOST:PORT where it asks for none.",
    _spark_address,
)


def metric_names(text: str) -> tuple[Meaning, ...]:
    """Read the meanings of metrics of a chosen namespace: `NAME -> METRIC in UNIT`, a comma list.

    Raise `WrongInput`.
    """
    meanings = []
    for pair in words(text):
        name, arrow, meaning = pair.partition("->")
        metric, _, unit = meaning.strip().partition(" in ")
        name, metric, unit = name.strip(), metric.strip(), unit.strip().lower()

        if not arrow or not name:
            raise WrongInput(
                f"'{pair}' names no metric; write NAME -> METRIC in UNIT,"
                " such as nc_util -> neuroncore_utilization_ratio in percent."
            )
        require_known(f"'{metric}' is not a metric of a node", metric, NODE_METRICS, most=0)

        # Where only one unit is possible, it need not be said.
        units = UNITS[metric.rpartition("_")[2]]
        if unit not in units and (unit or len(units) > 1):
            raise WrongInput(
                f"'{pair}' needs its unit: write {name} -> {metric} in {' or '.join(units)}."
            )
        meanings.append(Meaning(name, metric, unit or next(iter(units))))
    return tuple(meanings)


_ROLES = {"reader": Role.READER, "member": Role.ANYONE, "admin": Role.ADMIN}


def console_roles(text: str) -> tuple[RoleRule, ...]:
    """Read who has which role on the console: `dana@example.com = admin; group:ops = member`.

    Raise `WrongInput`.
    """
    rules = []
    for rule in filter(None, map(str.strip, re.split("[;,]", text))):
        who, equals, word = (part.strip().lower() for part in rule.rpartition("="))
        if not equals or not who or word not in _ROLES:
            raise WrongInput(
                f"'{rule}' gives no role{nearest(word, _ROLES)};"
                " write dana@example.com = admin; group:ops = member; * = reader."
            )
        rules.append(RoleRule(who, _ROLES[word]))
    return tuple(rules)


def networks(text: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """Read addresses and networks, a comma list; raise `WrongInput` for another text."""
    read = []
    for word in words(text):
        try:
            read.append(ipaddress.ip_network(word))
        except ValueError:
            raise WrongInput(
                f"'{word}' is not an address of a proxy; write 10.0.3.7, or 10.0.3.0/24 for"
                " several."
            ) from None
    return tuple(read)


def length(text: str) -> timedelta | None:
    """Read a length of time, None where nothing is said; raise `WrongInput`."""
    return parse_duration(text) if text else None


def speed(text: str) -> float:
    """Read how much faster than life time runs; raise `WrongInput`."""
    try:
        factor = Decimal(text.removesuffix("x"))
    except InvalidOperation:
        factor = Decimal(0)
    if not (factor.is_finite() and 0 < factor <= 1_000_000):
        raise WrongInput(f"'{text}' is not a speed; write how much faster than life, such as 60.")
    return float(factor)


def interval(text: str) -> timedelta:
    """Read a length of time that divides a day; raise `WrongInput`."""
    length = parse_duration(text)
    if not timedelta(minutes=1) <= length <= HOUR or DAY % length:
        raise WrongInput(
            f"'{text}' does not divide a day evenly; write 1m, 5m, 10m, 15m, 30m or 1h."
        )
    return length


def switch(text: str) -> bool:
    """Read on or off; raise `WrongInput`."""
    if text.lower() not in {"1", "true", "on", "yes", "0", "false", "off", "no", ""}:
        raise WrongInput(f"'{text}' is neither on nor off; write 1 or 0.")
    return text.lower() in {"1", "true", "on", "yes"}


@dataclass(frozen=True)
class SettingKey:
    """Describe one setting: name in the file, variable, default as text, meaning, and reader."""

    name: str
    variable: str
    default: str
    meaning: str
    read: Callable[[str], Any]

    @property
    def secret(self) -> bool:
        """Return whether its value must never be shown."""
        return self.read is Secret


def _key(
    name: str,
    meaning: str,
    read: Callable[[str], Any] = str,
    default: str = "",
    variable: str = "",
) -> SettingKey:
    """Describe a setting, whose variable is its name after `TRNBOT_` unless another is given."""
    usual = f"TRNBOT_{name.upper().replace('.', '_')}"
    return SettingKey(name, variable or usual, default, meaning, read)


_addresses = partial(addresses, like="slack:C02FIN or teams:CONVERSATION")
_METRICS = (
    "neuroncore_utilization -> neuroncore_utilization_ratio in percent, "
    "neuroncore_utilization_ratio -> neuroncore_utilization_ratio in ratio, "
    "neuron_runtime_memory_used_bytes -> neuron_runtime_memory_used_bytes in bytes, "
    "execution_errors_total -> neuron_execution_errors_count in count, "
    "execution_latency_seconds -> neuron_execution_latency_seconds in seconds, "
    "hardware_ecc_events_total -> neuron_hardware_ecc_events_count in count"
)

# fmt: off
# Laid out by hand, a row a setting: its name, its meaning, its reader, its default, its variable.
KEYS: tuple[SettingKey, ...] = (
    _key("source", f"the source to watch: {SOURCES}", source),
    _key("database_url",
        "where state is kept; or postgresql://...", Secret, "sqlite:///.trnbot/trnbot.db"),
    _key("host",
        "the address to listen on; only this machine can reach the default", str, "127.0.0.1"),
    _key("port", "the HTTP port; 0 = any free port", _port, "8080"),
    _key("public_url", "the public https address of the proxy in front of this port", _site),
    _key("route",
        "channels notified of alerts that match no route: slack:C02FIN (a comma list)", _addresses),
    _key("routes",
        "channels notified by label: cluster=llama -> slack:C1; cause=idle -> slack:C2",
        read_routes),
    _key("finops",
        "channels also notified of spending and of what is paid for and unused (a comma"
        " list)", _addresses),
    _key("finops_causes",
        "the causes that those channels are notified of (a comma list); none = money, idle and"
        " unused nodes, unused capacity, orphaned storage", causes),
    _key("escalate",
        "channels notified of critical alerts nobody acknowledged (a comma list)", _addresses),
    _key("digest", "channels that get the weekly digest (a comma list)", _addresses),
    _key("digest_at",
        "when the digest is sent: mon 09:00 Europe/Berlin", read_weekly, "mon 09:00 UTC"),
    _key("suggestions",
        "channels that get suggestions when the digest is sent, three a week at most (a comma"
        " list)", _addresses),
    _key("owners",
        "addresses of owners: dana = slack:U01DANA; namespace:nlp = teams:29:1x", read_owners),
    _key("owners_file",
        "TOML file that maps clusters, node groups, namespaces, tags and labels to owners; read"
        " again when it changes"),
    _key("admins",
        "people and groups who may change things: slack:U01ALICE, slack:S0123GROUP", _addresses),
    _key("guests",
        "1 = guests of the Slack workspace or the Teams tenant are answered too", switch, "0"),
    _key("recordings", "folder whose recordings chats and the console may name; none = none"),
    _key("policies",
        "folder whose policies (NAME.toml) chats and the console may name; none = none"),
    _key("speed",
        "how many times faster than real time a recording or a simulation is replayed", speed, "1"),
    _key("interval", "time from one tick of the watch to the next", interval, "5m"),
    _key("shards",
        "1 = the processes that serve with one PostgreSQL share the clusters out among themselves",
        switch, "0"),
    _key("lines",
        "lines that one person may ask in a minute; the seconds that they may work grow with it",
        _lines, str(LINES_A_MINUTE)),
    _key("words",
        "a model that is asked which line unclear plain words mean: bedrock:MODEL; none = they"
        " never leave the process", _model),
    _key("dask",
        "the scheduler of a Dask cluster that replays what takes long: tcp://HOST:PORT or"
        " tls://HOST:PORT; none = this process", _scheduler),
    _key("retention",
        "how long the notification log is kept", parse_duration, "90d"),
    _key("audit",
        "where changes, refusals, sign-ins and long reads are written, a line of JSON each: a"
        " file, stdout, syslog or syslog:HOST:PORT; none = nowhere"),
    _key("mcp",
        "0 = no /mcp on the port, even where trnbot[mcp] is installed",
        switch, "1"),
    _key("keep.alerts",
        "how long alerts that ended are kept, with what people decided about them (15d at"
        " least); none = for ever", length),
    _key("keep.silences", "how long silences that ended are kept; none = for ever", length),
    _key("keep.attempts",
        "how long attempts to change the policy are kept; none = for ever", length),
    _key("secrets.key",
        "keys that seal stored secrets, made by 'trnbot secrets key' (a comma list; the first"
        " seals, each opens)", Secret),
    _key("metrics.lag",
        "time from the end of a metric's period until it can be read", parse_duration, "1m"),
    _key("metrics.surface",
        "where NeuronCore metrics are read: cloudwatch (GetMetricData), promql, or auto ="
        " promql for nodes that the first lacks", _surface, "auto"),
    _key("metrics.url",
        "a Prometheus server or a workspace of Amazon Managed Prometheus: asked by PromQL"
        " instead of CloudWatch's OTel store", _server_address),
    _key("metrics.token", "a bearer token for that server, where it asks for one", Secret),
    _key("billing.lag",
        "time from the end of the usage until a replay sees its charge", parse_duration, "24h"),
    _key("spark.server",
        "a Spark Connect server that rolls the billing export up (trnbot[spark]):"
        " sc://HOST:PORT/;token=TOKEN", _spark_server, variable="TRNBOT_SPARK"),
    _key("spark.table",
        "the export there: CATALOG.SCHEMA.TABLE, or a folder of Parquet files, s3://BUCKET/PREFIX",
        _table),
    _key("aws.regions", "regions to read; none = AWS_REGION", each_of(_region)),
    _key("aws.roles", "ARNs of the roles to assume, one per account; self = no role", roles),
    _key("aws.external_id",
        "the external id that the trust policies of those roles ask for; none = it is not sent",
        _external_id),
    _key("aws.billing_role",
        "ARN of the role under which the export, Athena and Cost Explorer are read; none = the"
        " bot's own", role),
    _key("aws.billing", "the billing export, s3://BUCKET/PREFIX", _in_s3),
    _key("aws.athena",
        "or the Athena table over the export, DATABASE.TABLE, rolled up there", _athena_table),
    _key("aws.athena_workgroup", "the workgroup in which Athena's queries run", str, "primary"),
    _key("aws.athena_output",
        "where results are stored if the workgroup sets no location, s3://...", _in_s3),
    _key("aws.explorer_calls",
        "calls to Cost Explorer allowed a day, $0.01 each; 0 = none", _count, "60"),
    _key("aws.budget",
        "USD a day for the bot's own AWS calls; optional calls stop as it is used up", _usd),
    _key("aws.spot_advisor",
        "file or https address of the Spot Advisor's interruption bands; none = they are not"
        " read"),
    _key("aws.stream",
        "metric streams in S3, each s3://BUCKET/PREFIX (a comma list)", each_of(_in_s3)),
    _key("aws.logs",
        "log groups with the output of the Neuron compiler, each GROUP or REGION:GROUP (a comma"
        " list); none = no log is read", words),
    _key("aws.events",
        "URLs of SQS queues that EventBridge sends interruption notices and AWS Health events"
        " to (a comma list)", each_of(_queue)),
    _key("act.roles",
        "ARNs of the roles under which the bot may change something once admins press for it, one"
        " per account; none = it changes nothing", acting_roles),
    _key("act.second_usd",
        "USD a month of what is touched from which two admins must press", _usd, "20000"),
    _key("monitor.namespace", "CloudWatch namespace of neuron-monitor on plain EC2"),
    _key("monitor.metrics",
        "meaning of the metrics in that namespace, each NAME -> METRIC in UNIT",
        metric_names, _METRICS),
    _key("monitor.instance",
        "the dimension in that namespace that holds the instance id", str, "InstanceId"),
    _key("monitor.core",
        "the dimension in that namespace that holds the core, if there is one", str, "NeuronCore"),
    _key("web.token",
        "the token that the console asks for; required wherever others can reach it", Secret),
    _key("web.roles",
        "roles of people who sign in (reader, member or admin): dana@example.com = admin;"
        " group:ops = member; * = reader; none = all are members", console_roles),
    _key("web.proxies",
        "addresses of the proxies whose headers say who a person is (a comma list)", networks),
    _key("web.proxy_user",
        "the header in which those proxies name the person", str, "X-Forwarded-User"),
    _key("web.proxy_groups",
        "the header in which they name the person's groups", str, "X-Forwarded-Groups"),
    _key("oidc.issuer",
        "the OpenID Connect provider that signs people in to the console (trnbot[oidc])", _issuer),
    _key("oidc.client_id", "the console's name at that provider"),
    _key("oidc.client_secret", "the secret of that name", Secret),
    _key("oidc.claim", "the claim that says who a person is", str, "email"),
    _key("oidc.groups", "the claim that lists a person's groups", str, "groups"),
    _key("tags.cluster",
        "tags that name the cluster; the first with a value counts",
        words, ", ".join(CLUSTER_TAGS)),
    _key("tags.team", "tags that name the team", words, "team"),
    _key("tags.project", "tags that name the project", words, "project"),
    _key("tags.owner", "tags that name the owner", words, "owner"),
    _key("slack.bot_token", "enables Slack (xoxb-...)", Secret, "", "SLACK_BOT_TOKEN"),
    _key("slack.app_token",
        "Socket Mode: no public address needed (xapp-...)", Secret, "", "SLACK_APP_TOKEN"),
    _key("slack.signing_secret",
        "HTTP instead of Socket Mode: verifies calls of /slack/events",
        Secret, "", "SLACK_SIGNING_SECRET"),
    _key("slack.client_id",
        "instead of a bot token: several workspaces install the app by OAuth",
        str, "", "SLACK_CLIENT_ID"),
    _key("slack.client_secret", "the secret of that app", Secret, "", "SLACK_CLIENT_SECRET"),
    _key("slack.workspaces",
        "workspaces that may install the app, the default workspace first: T0123, T0456", words),
    _key("slack.api_url", "another address for Slack's API, for tests", str, "", "SLACK_API_URL"),
    _key("teams.app_id", "enables Teams", str, "", "MicrosoftAppId"),
    _key("teams.app_password", "the app's client secret", Secret, "", "MicrosoftAppPassword"),
    _key("teams.tenant_id", "the tenant of a single-tenant app", str, "", "MicrosoftAppTenantId"),
    _key("teams.tenants", "further tenants to serve (a comma list; * = every tenant)", words),
    _key("teams.development",
        "1 = allow an empty app id on a loopback host, for the Playground", switch, "0"),
    _key("teams.sdk",
        "botbuilder, or agents = the Microsoft 365 Agents SDK (the extra trnbot[agents])",
        _teams_sdk, "botbuilder"),
)
# fmt: on
