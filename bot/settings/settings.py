"""Read the settings of this installation once, and say which do not fit together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from bot.errors import NothingToWatch, WrongInput, nearest
from bot.model.frame import MetricsSurface, OwnNames
from bot.model.limits import SETTINGS_BYTES
from bot.model.policy import Policy
from bot.model.route import Routes
from bot.policy.file import Place, gathered, parse_toml, placed, policy_of
from bot.policy.schema import default_policy
from bot.settings.keys import KEYS, SOURCES, Secret
from bot.settings.routes import read_text, tables_as_text

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SHORTEST = 16
"""Characters of the console's token."""


def conflicts(values: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each pair of settings that contradict each other."""
    token, client = values["slack.bot_token"], values["slack.client_id"]
    slack = "SLACK_BOT_TOKEN" if token else "SLACK_CLIENT_ID"
    rules = (
        (
            token and client,
            "SLACK_BOT_TOKEN is for one workspace and SLACK_CLIENT_ID for several;"
            " set one of them.",
        ),
        (
            values["teams.app_id"] and not values["teams.app_password"],
            "MicrosoftAppId also needs MicrosoftAppPassword.",
        ),
        (
            values["aws.billing"] and values["aws.athena"],
            "TRNBOT_AWS_BILLING and TRNBOT_AWS_ATHENA are two ways to one export; set one of them.",
        ),
        (
            values["spark.server"] and (values["aws.billing"] or values["aws.athena"]),
            "TRNBOT_SPARK is another way to the export that TRNBOT_AWS_BILLING or"
            " TRNBOT_AWS_ATHENA names; set one of them.",
        ),
        (
            bool(values["spark.server"]) != bool(values["spark.table"]),
            "TRNBOT_SPARK and TRNBOT_SPARK_TABLE need each other: the server, and the export"
            " that it reads.",
        ),
        (
            values["metrics.url"] and values["metrics.surface"] is MetricsSurface.CLOUDWATCH,
            "TRNBOT_METRICS_URL is asked by PromQL, which"
            " TRNBOT_METRICS_SURFACE=cloudwatch leaves out; set one of them.",
        ),
        (
            values["metrics.token"] and not values["metrics.url"],
            "TRNBOT_METRICS_TOKEN also needs TRNBOT_METRICS_URL.",
        ),
        (
            values["oidc.issuer"]
            and not (values["oidc.client_id"] and values["oidc.client_secret"]),
            "TRNBOT_OIDC_ISSUER also needs TRNBOT_OIDC_CLIENT_ID and TRNBOT_OIDC_CLIENT_SECRET.",
        ),
        (
            values["web.roles"] and not (values["oidc.issuer"] or values["web.proxies"]),
            "TRNBOT_WEB_ROLES is for people who sign in;"
            " set TRNBOT_OIDC_ISSUER or TRNBOT_WEB_PROXIES.",
        ),
        (
            client and not values["slack.client_secret"],
            "SLACK_CLIENT_ID also needs SLACK_CLIENT_SECRET.",
        ),
        (
            client and not values["slack.workspaces"],
            "SLACK_CLIENT_ID also needs TRNBOT_SLACK_WORKSPACES.",
        ),
        (
            (token or client) and not (values["slack.app_token"] or values["slack.signing_secret"]),
            f"{slack} also needs SLACK_APP_TOKEN (Socket Mode) or SLACK_SIGNING_SECRET (HTTP).",
        ),
    )
    return [sentence for broken, sentence in rules if broken]


def serving_conflicts(values: Mapping[str, Any], *, teams_set: bool) -> list[str]:
    """Return why nobody may be served so.

    `teams_set` = the Teams app id was set, even to nothing.
    """
    host, console = values["host"], values["web.token"]
    guarded = console or values["oidc.issuer"] or values["web.proxies"]
    teams, development = values["teams.app_id"], values["teams.development"]
    rules = (
        (
            host not in LOOPBACK and not guarded,
            f"TRNBOT_HOST '{host}' lets others reach the console, so set TRNBOT_WEB_TOKEN,"
            " TRNBOT_OIDC_ISSUER or TRNBOT_WEB_PROXIES.",
        ),
        (
            0 < len(console.reveal()) < SHORTEST,
            "TRNBOT_WEB_TOKEN is short enough to be guessed;"
            f" make it {SHORTEST} characters or longer.",
        ),
        (
            values["public_url"] and not guarded,
            "TRNBOT_PUBLIC_URL lets others reach the console, so set TRNBOT_WEB_TOKEN,"
            " TRNBOT_OIDC_ISSUER or TRNBOT_WEB_PROXIES.",
        ),
        (
            values["slack.client_id"] and not values["secrets.key"],
            "SLACK_CLIENT_ID stores a bot token of each workspace,"
            " so set TRNBOT_SECRETS_KEY to what 'trnbot secrets key' prints.",
        ),
        (
            values["shards"] and not values["database_url"].reveal().startswith("postgres"),
            "TRNBOT_SHARDS shares the watch out over several processes, which a file of SQLite is"
            " not for: set TRNBOT_DATABASE_URL to postgresql://USER:PASSWORD@HOST/NAME.",
        ),
        (
            development and not teams and host not in LOOPBACK,
            "TRNBOT_TEAMS_DEVELOPMENT lets anyone in,"
            f" so it needs a loopback TRNBOT_HOST; got '{host}'.",
        ),
        (
            teams_set and not teams and not development,
            "MicrosoftAppId is empty, which would let anyone in;"
            " set it, unset it, or set TRNBOT_TEAMS_DEVELOPMENT=1.",
        ),
        (
            teams and not (values["teams.tenant_id"] or values["teams.tenants"]),
            "MicrosoftAppId lets any tenant in;"
            " set MicrosoftAppTenantId or TRNBOT_TEAMS_TENANTS (* for every tenant).",
        ),
    )
    return [sentence for broken, sentence in rules if broken]


_LINE = re.compile(r"[^\n]*?, line (\d+): ")
_SERVICE_LINK = re.compile(
    r"TRNBOT_(\w+_)?"
    r"(SERVICE_(HOST|PORT)(_\w+)?=.*|PORT(_\d+_\w+)?=(tcp|udp|sctp)://.*|PORT_\d+_\w+=.*)",
    re.DOTALL,
)
"""What Kubernetes puts into every pod beside a Service called trnbot, `TRNBOT_PORT` among it.

Not said by a person.
"""


NO_SOURCE = (
    f"There is nothing to watch yet: set TRNBOT_SOURCE (or --source) to {SOURCES};"
    " or try 'trnbot demo'."
)
_NAMES = frozenset(key.name for key in KEYS)
_FILE = "trnbot.toml"
"""The settings file, where none is named."""
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

    def secrets(self) -> list[str]:
        """Return every secret, revealed: what no text for people may hold."""
        return [value.reveal() for value in self.values.values() if isinstance(value, Secret)]

    @property
    def source(self) -> str:
        """Return the address of the source; raise `WrongInput` where none is set."""
        if not self.values["source"]:
            raise NothingToWatch(NO_SOURCE)
        return str(self.values["source"])

    @property
    def slack(self) -> bool:
        """Return whether Slack is on."""
        return bool(self.values["slack.bot_token"] or self.values["slack.client_id"])

    @property
    def teams(self) -> bool:
        """Return whether Teams is on."""
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
            self["finops_causes"],
            suggestions=self["suggestions"],
        )

    @property
    def own_names(self) -> OwnNames | None:
        """Return the namespace of neuron-monitor and its metrics' meanings, None without one."""
        if not self["monitor.namespace"]:
            return None
        return OwnNames(
            self["monitor.namespace"],
            self["monitor.metrics"],
            self["monitor.instance"],
            self["monitor.core"],
        )

    def tags(self) -> Mapping[str, tuple[str, ...]]:
        """Return the tag names of cluster, team, project and owner."""
        return {
            name.removeprefix("tags."): value
            for name, value in self.values.items()
            if name.startswith("tags.")
        }

    def facts(self) -> Mapping[str, str]:
        """Return the facts of this installation that an answer may show.

        No secret, no address of a database.
        """
        database = self.text("database_url").partition(":")[0].partition("+")[0]
        listening = [name for name, on in (("Slack", self.slack), ("Teams", self.teams)) if on]
        return {
            "source": self.values["source"],
            "database": database,
            "chat": ", ".join(listening) or "none",
            "route": ", ".join(self["route"]),
            "interval": f"{self['interval'].total_seconds() / 60:g} min",
        }


def read_settings(environ: Mapping[str, str], toml_text: str | None = None) -> Settings:
    """Return the settings; an environment variable wins over the file.

    Raises one `WrongInput` that tells every mistake by its key, and by its line where the file has
    a name, with the nearest right one and no secret.
    """
    mistakes: list[str] = []
    file = environ.get("TRNBOT_CONFIG") or _FILE if toml_text is not None else ""
    document: dict[str, Any] = {}
    with gathered(mistakes):
        tables = parse_toml(toml_text or "", f"The settings file '{file}'", SETTINGS_BYTES)
        document = tables_as_text(tables)

    policy, table = default_policy(), document.pop("policy", {})
    with gathered(mistakes):
        if not isinstance(table, Mapping):
            raise WrongInput("'policy' is a table; write [policy.idle].")
        policy = policy_of(table, placed(toml_text or "", file, "policy"))

    texts = {
        **{key.name: (key.default, key.name) for key in KEYS},
        **_from_file(document, placed(toml_text or "", file), mistakes),
        **_from_environment(environ, mistakes),
    }
    values = {}
    for key in KEYS:
        text, where = texts[key.name]
        with gathered(mistakes, f"{where}: "):
            values[key.name] = key.read(text.strip() or key.default)

    if not mistakes:
        mistakes += conflicts(values)
    if mistakes:
        sentences = [line for mistake in mistakes for line in mistake.splitlines()]
        raise WrongInput("\n".join(sorted(sentences, key=_line_of)))
    teams_set = texts["teams.app_id"][1] == "MicrosoftAppId"
    return Settings(values, policy, tuple(serving_conflicts(values, teams_set=teams_set)))


def _line_of(mistake: str) -> tuple[bool, int]:
    """Return the order in which mistakes are worked off: down the file, then the environment."""
    line = _LINE.match(mistake)
    return (line is None, int(line[1]) if line else 0)


def _from_file(
    document: Mapping[str, Any], place: Place, mistakes: list[str]
) -> dict[str, tuple[str, str]]:
    """Return (text, where it stands) by name; tables are one level deep."""
    flat: dict[str, Any] = {}
    for name, value in document.items():
        inner = value if isinstance(value, Mapping) else None
        flat |= {name: value} if inner is None else {f"{name}.{x}": inner[x] for x in inner}

    texts = {}
    for name, raw in flat.items():
        where = place(name)
        if name not in _NAMES:
            hint = nearest(name, [key.name for key in KEYS], most=0)
            mistakes.append(f"{where}'{name}' is not a setting{hint}.")
        elif isinstance(raw, str | int | float):
            text = str(raw).lower() if isinstance(raw, bool) else str(raw)
            texts[name] = (text, f"{where}{name}")
        elif isinstance(raw, list) and all(isinstance(word, str) for word in raw):
            texts[name] = (",".join(raw), f"{where}{name}")
        else:
            mistakes.append(f"{where}{name} takes a text, a number or a list of texts.")
    return texts


def _from_environment(
    environ: Mapping[str, str], mistakes: list[str]
) -> dict[str, tuple[str, str]]:
    """Return (text, variable) by name."""
    variables = {
        name: value
        for name, value in environ.items()
        if not _SERVICE_LINK.fullmatch(f"{name}={value}")
    }
    for variable in variables:
        if variable.startswith("TRNBOT_") and variable not in _VARIABLES:
            close = get_close_matches(variable, _VARIABLES, n=1, cutoff=0.6)
            hint = f"; did you mean {close[0]}?" if close else "."
            mistakes.append(f"{variable} is not a setting{hint}")
    return {
        key.name: (variables[key.variable], key.variable)
        for key in KEYS
        if key.variable in variables
    }


def settings_text(environ: Mapping[str, str], folder: Path) -> str | None:
    """Return the text of the settings file.

    `TRNBOT_CONFIG`, else `trnbot.toml` in `folder`, else None.

    Raises `WrongInput` for a file that was named and cannot be read.
    """
    config = environ.get("TRNBOT_CONFIG", "")
    path = folder / (config or _FILE)
    if not config and not path.exists():
        return None
    return read_text(path, f"The settings file '{path}'", SETTINGS_BYTES)
