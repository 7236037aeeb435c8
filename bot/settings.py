"""Read the settings of this installation once: environment first, then one TOML file, then defaults.

`KEYS` is the schema: the file, the environment, `default.toml` and the docs page follow it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from bot.conflicts import conflicts, serving_conflicts
from bot.errors import WrongInput, nearest
from bot.model.hours import read_weekly
from bot.model.names import OwnNames
from bot.model.policy import Policy
from bot.model.route import Routes
from bot.model.window import parse_duration
from bot.policy.file import policy_of
from bot.readers import SOURCES, count, interval, metric_names, port, source, speed, switch, usd, web_address, words
from bot.routes import addresses, read_owners, read_routes, tables_as_text
from bot.secret import Secret

_SERVICE_LINK = re.compile(
    r"TRNBOT_(\w+_)?(SERVICE_(HOST|PORT)(_\w+)?=.*|PORT(_\d+_\w+)?=(tcp|udp|sctp)://.*|PORT_\d+_\w+=.*)", re.DOTALL
)
"""What Kubernetes puts into every pod beside a Service called trnbot, `TRNBOT_PORT` among it: not said by a person."""


@dataclass(frozen=True)
class Key:
    """Describe one setting: name in the file, variable, default as text, what it means, how it is read."""

    name: str
    variable: str
    default: str
    meaning: str
    read: Callable[[str], Any]

    @property
    def secret(self) -> bool:
        """Tell whether its value must never be shown."""
        return self.read is Secret


_addresses = partial(addresses, like="slack:C02FIN or teams:CONVERSATION")

KEYS: tuple[Key, ...] = (
    Key("source", "TRNBOT_SOURCE", "", f"what is watched: {SOURCES}", source),
    Key("database_url", "TRNBOT_DATABASE_URL", "sqlite:///.trnbot/trnbot.db", "where state is kept; or postgresql://...", Secret),
    Key("host", "TRNBOT_HOST", "127.0.0.1", "the address of the one HTTP port; loopback unless you open it", str),
    Key("port", "TRNBOT_PORT", "8080", "the one HTTP port; 0 = any that is free", port),
    Key("public_url", "TRNBOT_PUBLIC_URL", "", "the https address at which a proxy offers this port", web_address),
    Key("route", "TRNBOT_ROUTE", "", "channels that hear what no route takes, such as slack:C02FIN (a comma list)", _addresses),
    Key("routes", "TRNBOT_ROUTES", "", "who hears which alerts: cluster=llama -> slack:C1; cause=idle -> slack:C2", read_routes),
    Key("finops", "TRNBOT_FINOPS", "", "channels that hear causes of money too (a comma list)", _addresses),
    Key("escalate", "TRNBOT_ESCALATE", "", "channels that hear a critical alert nobody acknowledged (a comma list)", _addresses),
    Key("digest", "TRNBOT_DIGEST", "", "channels that get the weekly digest (a comma list)", _addresses),
    Key("digest_at", "TRNBOT_DIGEST_AT", "mon 09:00 UTC", "when they get it: mon 09:00 Europe/Berlin", read_weekly),
    Key("owners", "TRNBOT_OWNERS", "", "who owners are: dana = slack:U01DANA; namespace:nlp = teams:29:1x", read_owners),
    Key("admins", "TRNBOT_ADMINS", "", "people and groups who may change things: slack:U01ALICE, slack:S0123GROUP", _addresses),
    Key("speed", "TRNBOT_SPEED", "1", "recorded time per real time, for a recording or a simulation", speed),
    Key("interval", "TRNBOT_INTERVAL", "5m", "time from one look at the fleet to the next", interval),
    Key("metrics.lag", "TRNBOT_METRICS_LAG", "1m", "how long after its period a metric can be read", parse_duration),
    Key("billing.lag", "TRNBOT_BILLING_LAG", "24h", "how long after its usage a replay sees a bill row", parse_duration),
    Key("aws.regions", "TRNBOT_AWS_REGIONS", "", "regions that are read; none = the one of AWS_REGION", words),
    Key("aws.roles", "TRNBOT_AWS_ROLES", "", "roles to assume, by ARN, one an account; self = no role", words),
    Key("aws.billing", "TRNBOT_AWS_BILLING", "", "the billing export, s3://BUCKET/PREFIX", str),
    Key("aws.athena", "TRNBOT_AWS_ATHENA", "", "or the table over it, DATABASE.TABLE, rolled up by day in Athena", str),
    Key("aws.athena_workgroup", "TRNBOT_AWS_ATHENA_WORKGROUP", "primary", "the workgroup that Athena's queries run in", str),
    Key("aws.athena_output", "TRNBOT_AWS_ATHENA_OUTPUT", "", "where results go when the workgroup has no place, s3://...", str),
    Key(
        "aws.explorer_calls",
        "TRNBOT_AWS_EXPLORER_CALLS",
        "60",
        "calls to Cost Explorer a day, $0.01 each; 0 = none",
        count,
    ),
    Key("aws.budget", "TRNBOT_AWS_BUDGET", "", "USD a day for the bot's own AWS calls, then optional ones stop", usd),
    Key(
        "aws.spot_advisor",
        "TRNBOT_AWS_SPOT_ADVISOR",
        "",
        "where the Spot Advisor's interruption bands are read: a file, or an https address; none = they are not",
        str,
    ),
    Key("monitor.namespace", "TRNBOT_MONITOR_NAMESPACE", "", "CloudWatch namespace of neuron-monitor on plain EC2", str),
    Key(
        "monitor.metrics",
        "TRNBOT_MONITOR_METRICS",
        "neuroncore_utilization -> neuroncore_utilization_ratio in percent, "
        "neuroncore_utilization_ratio -> neuroncore_utilization_ratio in ratio, "
        "neuron_runtime_memory_used_bytes -> neuron_runtime_memory_used_bytes in bytes, "
        "execution_errors_total -> neuron_execution_errors_count in count, "
        "execution_latency_seconds -> neuron_execution_latency_seconds in seconds, "
        "hardware_ecc_events_total -> neuron_hardware_ecc_events_count in count",
        "what its metrics mean, each NAME -> METRIC in UNIT",
        metric_names,
    ),
    Key("monitor.instance", "TRNBOT_MONITOR_INSTANCE", "InstanceId", "its dimension that holds the instance id", str),
    Key("monitor.core", "TRNBOT_MONITOR_CORE", "NeuronCore", "its dimension that holds the core, where there is one", str),
    Key("web.token", "TRNBOT_WEB_TOKEN", "", "what the console asks for; needed wherever others can reach it", Secret),
    Key(
        "tags.cluster",
        "TRNBOT_TAGS_CLUSTER",
        "eks:cluster-name, aws:eks:cluster-name, cluster",
        "tags that name the cluster, first found wins",
        words,
    ),
    Key("tags.team", "TRNBOT_TAGS_TEAM", "team", "tags that name the team", words),
    Key("tags.project", "TRNBOT_TAGS_PROJECT", "project", "tags that name the project", words),
    Key("tags.owner", "TRNBOT_TAGS_OWNER", "owner", "tags that name who is pinged", words),
    Key("slack.bot_token", "SLACK_BOT_TOKEN", "", "turns Slack on (xoxb-...)", Secret),
    Key("slack.app_token", "SLACK_APP_TOKEN", "", "Socket Mode: no public address needed (xapp-...)", Secret),
    Key(
        "slack.signing_secret", "SLACK_SIGNING_SECRET", "", "HTTP instead of Socket Mode: checks who calls /slack/events", Secret
    ),
    Key("slack.client_id", "SLACK_CLIENT_ID", "", "instead of a bot token: several workspaces install by OAuth", str),
    Key("slack.client_secret", "SLACK_CLIENT_SECRET", "", "the secret of that app", Secret),
    Key(
        "slack.workspaces", "TRNBOT_SLACK_WORKSPACES", "", "workspaces that may install, the one meant first: T0123, T0456", words
    ),
    Key("slack.api_url", "SLACK_API_URL", "", "another address of Slack's API, for tests", str),
    Key("teams.app_id", "MicrosoftAppId", "", "turns Teams on", str),
    Key("teams.app_password", "MicrosoftAppPassword", "", "the app's client secret", Secret),
    Key("teams.tenant_id", "MicrosoftAppTenantId", "", "the tenant of a single-tenant app", str),
    Key(
        "teams.tenants",
        "TRNBOT_TEAMS_TENANTS",
        "",
        "tenants that are served beside that one (a comma list; * = every one)",
        words,
    ),
    Key(
        "teams.development",
        "TRNBOT_TEAMS_DEVELOPMENT",
        "0",
        "1 = an empty app id on a loopback host, for the Playground",
        switch,
    ),
)
_BY_NAME: Mapping[str, Key] = {key.name: key for key in KEYS}
_VARIABLES = ("TRNBOT_CONFIG", *(key.variable for key in KEYS))


@dataclass(frozen=True)
class Settings:
    """Hold every setting by name, read once and never written."""

    values: Mapping[str, Any]
    policy: Policy = field(repr=False)
    unservable: tuple[str, ...] = ()
    """Why `serve` must not start with these settings; a single line is answered all the same."""

    def __getitem__(self, name: str) -> Any:
        """Return one value, typed as its key reads it; `KeyError` for a name outside the schema."""
        return self.values[name]

    def text(self, name: str) -> str:
        """Return a word, or a secret revealed."""
        value = self.values[name]
        return value.reveal() if isinstance(value, Secret) else str(value)

    @property
    def source(self) -> str:
        """Return what is watched; raise `WrongInput` when nobody said."""
        if not self.values["source"]:
            raise WrongInput(
                f"There is nothing to watch yet: set TRNBOT_SOURCE (or --source) to {SOURCES}; or try 'trnbot demo'."
            )
        return str(self.values["source"])

    @property
    def slack(self) -> bool:
        """Tell whether Slack is on."""
        return bool(self.values["slack.bot_token"] or self.values["slack.client_id"])

    @property
    def teams(self) -> bool:
        """Tell whether Teams is on."""
        return bool(self.values["teams.app_id"] or self.values["teams.development"])

    @property
    def routes(self) -> Routes:
        """Return who hears what."""
        return Routes(
            self["routes"],
            self["route"],
            self["finops"],
            self["escalate"],
            self["owners"],
            self["digest"],
            str(self["digest_at"]),
        )

    @property
    def own_names(self) -> OwnNames | None:
        """Return the namespace that this installation chose for neuron-monitor and what its metrics mean, None without one."""
        if not self["monitor.namespace"]:
            return None
        return OwnNames(self["monitor.namespace"], self["monitor.metrics"], self["monitor.instance"], self["monitor.core"])

    def tags(self) -> Mapping[str, tuple[str, ...]]:
        """Return the tag names of cluster, team, project and owner."""
        return {name.removeprefix("tags."): value for name, value in self.values.items() if name.startswith("tags.")}

    def facts(self) -> Mapping[str, str]:
        """Return what an answer may show of this installation: no secret, no address of a database."""
        database = self.text("database_url").partition(":")[0].partition("+")[0]
        listening = [name for name, on in (("Slack", self.slack), ("Teams", self.teams)) if on]
        shown = {"source": self.values["source"], "database": database, "chat": ", ".join(listening) or "none"}
        return shown | {"route": ", ".join(self["route"]), "interval": f"{self['interval'].total_seconds() / 60:g} min"}


def read_settings(environ: Mapping[str, str], toml_text: str | None = None) -> Settings:
    """Return the settings; an environment variable wins over the file.

    Raises one `WrongInput` that tells every mistake by its key, with the nearest right one and no secret.
    """
    mistakes: list[str] = []
    document = tables_as_text(_parsed(toml_text or "", mistakes))
    policy = _policy(document.pop("policy", {}), mistakes)
    texts = {key.name: (key.default, key.name) for key in KEYS}
    texts |= _from_file(document, mistakes) | _from_environment(environ, mistakes)
    values = {key.name: _value(key, *texts[key.name], mistakes) for key in KEYS}
    if not mistakes:
        mistakes += conflicts(values)
    if mistakes:
        raise WrongInput(" ".join(mistakes))
    asked = texts["teams.app_id"][1] == "MicrosoftAppId"
    return Settings(values, policy, tuple(serving_conflicts(values, asked=asked)))


def settings_text(environ: Mapping[str, str], folder: Path) -> str | None:
    """Return the text of the settings file: `TRNBOT_CONFIG`, else `trnbot.toml` in `folder`, else None.

    Raises `WrongInput` for a file that was named and cannot be read.
    """
    named = environ.get("TRNBOT_CONFIG", "")
    path = folder / (named or "trnbot.toml")
    try:
        return path.read_text(encoding="utf-8") if named or path.exists() else None
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else "it is not UTF-8 text"
        raise WrongInput(f"The settings file '{path}' cannot be read: {reason}.") from None


def _parsed(text: str, mistakes: list[str]) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        mistakes.append(f"The settings file is not TOML: {error}.")
        return {}


def _policy(table: Any, mistakes: list[str]) -> Policy:
    try:
        if not isinstance(table, Mapping):
            raise WrongInput("'policy' is a table; write [policy.idle].")
        return policy_of(table)
    except WrongInput as error:
        mistakes.append(str(error))
        return policy_of({})


def _from_file(document: Mapping[str, Any], mistakes: list[str]) -> dict[str, tuple[str, str]]:
    """Return (text, where it was said) by name."""
    found = {}
    for name, raw in _flat(document).items():
        if name not in _BY_NAME:
            mistakes.append(f"'{name}' is not a setting{nearest(name, _BY_NAME, most=0)}.")
        elif isinstance(raw, str | int | float):
            found[name] = (str(raw).lower() if isinstance(raw, bool) else str(raw), name)
        elif isinstance(raw, list) and all(isinstance(x, str) for x in raw):
            found[name] = (",".join(raw), name)
        else:
            mistakes.append(f"{name} takes a text, a number or a list of texts.")
    return found


def _flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with dotted names, one table deep."""
    flat: dict[str, Any] = {}
    for name, value in document.items():
        flat |= {f"{name}.{inner}": x for inner, x in value.items()} if isinstance(value, Mapping) else {name: value}
    return flat


def _from_environment(environ: Mapping[str, str], mistakes: list[str]) -> dict[str, tuple[str, str]]:
    said = {name: value for name, value in environ.items() if not _SERVICE_LINK.fullmatch(f"{name}={value}")}
    for variable in said:
        if variable.startswith("TRNBOT_") and variable not in _VARIABLES:
            close = get_close_matches(variable, _VARIABLES, n=1, cutoff=0.6)
            mistakes.append(f"{variable} is not a setting" + (f"; did you mean {close[0]}?" if close else "."))
    return {key.name: (said[key.variable], key.variable) for key in KEYS if key.variable in said}


def _value(key: Key, text: str, where: str, mistakes: list[str]) -> Any:
    """Read one value; an empty one stands for the default."""
    try:
        return key.read(text.strip() or key.default)
    except WrongInput as error:
        mistakes.append(f"{where}: {error}")
        return key.read(key.default)
