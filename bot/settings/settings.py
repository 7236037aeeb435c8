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
from bot.policy.file import Place, parse_toml, placed, policy_of
from bot.settings.keys import KEYS, SettingKey
from bot.settings.readers import SOURCES, Secret
from bot.settings.routes import read_text, tables_as_text

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SHORTEST = 16
"""Characters of the console's token."""


def conflicts(values: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each pair of settings that contradict each other."""
    sentences = []
    if values["slack.bot_token"] and values["slack.client_id"]:
        sentences.append(
            "SLACK_BOT_TOKEN is for one workspace and SLACK_CLIENT_ID for several; set one of them."
        )
    if values["teams.app_id"] and not values["teams.app_password"]:
        sentences.append("MicrosoftAppId also needs MicrosoftAppPassword.")
    if values["aws.billing"] and values["aws.athena"]:
        sentences.append(
            "TRNBOT_AWS_BILLING and TRNBOT_AWS_ATHENA are two ways to one export; set one of them."
        )
    if values["metrics.url"] and values["metrics.surface"] is MetricsSurface.CLOUDWATCH:
        sentences.append(
            "TRNBOT_METRICS_URL is asked by PromQL, which TRNBOT_METRICS_SURFACE=cloudwatch leaves out; set one of them."
        )
    if values["metrics.token"] and not values["metrics.url"]:
        sentences.append("TRNBOT_METRICS_TOKEN also needs TRNBOT_METRICS_URL.")
    if values["slack.client_id"]:
        needed = (
            ("SLACK_CLIENT_SECRET", "slack.client_secret"),
            ("TRNBOT_SLACK_WORKSPACES", "slack.workspaces"),
        )
        sentences += [
            f"SLACK_CLIENT_ID also needs {variable}."
            for variable, name in needed
            if not values[name]
        ]
    speaks = values["slack.bot_token"] or values["slack.client_id"]
    if speaks and not (values["slack.app_token"] or values["slack.signing_secret"]):
        variable = "SLACK_BOT_TOKEN" if values["slack.bot_token"] else "SLACK_CLIENT_ID"
        sentences.append(
            f"{variable} also needs SLACK_APP_TOKEN (Socket Mode) or SLACK_SIGNING_SECRET (HTTP)."
        )
    return sentences


def serving_conflicts(values: Mapping[str, Any], *, asked: bool) -> list[str]:
    """Return why nobody may be served so; `asked` = the Teams app id was set, even to nothing."""
    sentences, host = [], values["host"]
    if host not in LOOPBACK and not values["web.token"]:
        sentences.append(
            f"TRNBOT_HOST '{host}' lets others reach the console, so set TRNBOT_WEB_TOKEN."
        )
    if 0 < len(values["web.token"].reveal()) < SHORTEST:
        sentences.append(
            f"TRNBOT_WEB_TOKEN is short enough to be guessed; make it {SHORTEST} characters or longer."
        )
    if values["public_url"] and not values["web.token"]:
        sentences.append(
            "TRNBOT_PUBLIC_URL lets others reach the console, so set TRNBOT_WEB_TOKEN."
        )
    if values["slack.client_id"] and not values["secrets.key"]:
        sentences.append(
            "SLACK_CLIENT_ID stores a bot token of each workspace, so set TRNBOT_SECRETS_KEY to what 'trnbot secrets key' prints."
        )
    if values["teams.development"] and not values["teams.app_id"] and host not in LOOPBACK:
        sentences.append(
            f"TRNBOT_TEAMS_DEVELOPMENT lets anyone in, so it needs a loopback TRNBOT_HOST; got '{host}'."
        )
    if asked and not values["teams.app_id"] and not values["teams.development"]:
        sentences.append(
            "MicrosoftAppId is empty, which would let anyone in; set it, unset it, or set TRNBOT_TEAMS_DEVELOPMENT=1."
        )
    if values["teams.app_id"] and not (values["teams.tenant_id"] or values["teams.tenants"]):
        sentences.append(
            "MicrosoftAppId lets any tenant in; set MicrosoftAppTenantId or TRNBOT_TEAMS_TENANTS (* for every tenant)."
        )
    return sentences


_SERVICE_LINK = re.compile(
    r"TRNBOT_(\w+_)?(SERVICE_(HOST|PORT)(_\w+)?=.*|PORT(_\d+_\w+)?=(tcp|udp|sctp)://.*|PORT_\d+_\w+=.*)",
    re.DOTALL,
)
"""What Kubernetes puts into every pod beside a Service called trnbot, `TRNBOT_PORT` among it.

Not said by a person.
"""


NO_SOURCE = f"There is nothing to watch yet: set TRNBOT_SOURCE (or --source) to {SOURCES}; or try 'trnbot demo'."
_BY_NAME: Mapping[str, SettingKey] = {key.name: key for key in KEYS}
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
            self["finops_causes"],
        )

    @property
    def own_names(self) -> OwnNames | None:
        """Return the namespace chosen for neuron-monitor and the meanings of its metrics, None without one."""
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
        shown = {
            "source": self.values["source"],
            "database": database,
            "chat": ", ".join(listening) or "none",
        }
        return shown | {
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
    document = tables_as_text(_parsed(toml_text or "", file, mistakes))
    policy = _policy(document.pop("policy", {}), placed(toml_text or "", file, "policy"), mistakes)
    texts = {key.name: (key.default, key.name) for key in KEYS}
    texts |= _from_file(document, placed(toml_text or "", file), mistakes) | _from_environment(
        environ, mistakes
    )
    values = {key.name: _value(key, *texts[key.name], mistakes) for key in KEYS}
    if not mistakes:
        mistakes += conflicts(values)
    if mistakes:
        raise WrongInput(" ".join(mistakes))
    asked = texts["teams.app_id"][1] == "MicrosoftAppId"
    return Settings(values, policy, tuple(serving_conflicts(values, asked=asked)))


def settings_text(environ: Mapping[str, str], folder: Path) -> str | None:
    """Return the text of the settings file.

    `TRNBOT_CONFIG`, else `trnbot.toml` in `folder`, else None.

    Raises `WrongInput` for a file that was named and cannot be read.
    """
    named = environ.get("TRNBOT_CONFIG", "")
    path = folder / (named or _FILE)
    return (
        read_text(path, f"The settings file '{path}'", SETTINGS_BYTES)
        if named or path.exists()
        else None
    )


def _parsed(text: str, file: str, mistakes: list[str]) -> dict[str, Any]:
    try:
        return parse_toml(text, f"The settings file '{file}'", SETTINGS_BYTES)
    except WrongInput as error:
        mistakes.append(str(error))
        return {}


def _policy(table: Any, place: Place, mistakes: list[str]) -> Policy:
    try:
        if not isinstance(table, Mapping):
            raise WrongInput("'policy' is a table; write [policy.idle].")
        return policy_of(table, place)
    except WrongInput as error:
        mistakes.append(str(error))
        return policy_of({})


def _from_file(
    document: Mapping[str, Any], place: Place, mistakes: list[str]
) -> dict[str, tuple[str, str]]:
    """Return (text, where it was said) by name."""
    texts = {}
    for name, raw in _flat(document).items():
        where = place(name)
        if name not in _BY_NAME:
            mistakes.append(f"{where}'{name}' is not a setting{nearest(name, _BY_NAME, most=0)}.")
        elif isinstance(raw, str | int | float):
            texts[name] = (
                str(raw).lower() if isinstance(raw, bool) else str(raw),
                f"{where}{name}",
            )
        elif isinstance(raw, list) and all(isinstance(x, str) for x in raw):
            texts[name] = (",".join(raw), f"{where}{name}")
        else:
            mistakes.append(f"{where}{name} takes a text, a number or a list of texts.")
    return texts


def _flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with dotted names, one table deep."""
    flat: dict[str, Any] = {}
    for name, value in document.items():
        flat |= (
            {f"{name}.{inner}": x for inner, x in value.items()}
            if isinstance(value, Mapping)
            else {name: value}
        )
    return flat


def _from_environment(
    environ: Mapping[str, str], mistakes: list[str]
) -> dict[str, tuple[str, str]]:
    variables = {
        name: value
        for name, value in environ.items()
        if not _SERVICE_LINK.fullmatch(f"{name}={value}")
    }
    for variable in variables:
        if variable.startswith("TRNBOT_") and variable not in _VARIABLES:
            close = get_close_matches(variable, _VARIABLES, n=1, cutoff=0.6)
            mistakes.append(
                f"{variable} is not a setting" + (f"; did you mean {close[0]}?" if close else ".")
            )
    return {
        key.name: (variables[key.variable], key.variable)
        for key in KEYS
        if key.variable in variables
    }


def _value(key: SettingKey, text: str, where: str, mistakes: list[str]) -> Any:
    """Read one value; an empty one stands for the default."""
    try:
        return key.read(text.strip() or key.default)
    except WrongInput as error:
        mistakes.append(f"{where}: {error}")
        return key.read(key.default)
