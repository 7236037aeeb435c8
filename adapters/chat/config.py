"""Hold how the apps of Slack and Teams are set up, and refuse a setup that cannot work."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from importlib.util import find_spec
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from bot.errors import refuse

Json = dict[str, Any]
"""A payload of a chat's API."""

REDIRECT_PATH = "/slack/oauth_redirect"
INSTALLATIONS = "slack.installations"
"""The documents that hold the workspaces' bot tokens: secrets, which the store seals."""


@dataclass(frozen=True)
class SlackConfig:
    """Hold one app's tokens and addresses.

    Raise `WrongInput` where neither Socket Mode nor signed HTTP is possible.
    """

    bot_token: str = field(default="", repr=False)
    app_token: str = field(default="", repr=False)
    signing_secret: str = field(default="", repr=False)
    api_url: str = ""
    """The Web API's address, "" for Slack's own."""
    client_id: str = ""
    """The app's id for OAuth; with it, workspaces install the app, and no bot token is needed."""
    client_secret: str = field(default="", repr=False)
    workspaces: tuple[str, ...] = ()
    """Who may install; an address without a workspace means the first of them."""
    public_url: str = ""
    interval_s: float = 1.0
    """Seconds between two messages of one channel."""

    def __post_init__(self) -> None:
        """Refuse a missing or mistaken token by the name of its variable."""
        refuse(
            (
                not self.client_id and not self.bot_token.startswith("xox"),
                "SLACK_BOT_TOKEN is missing or not a bot token;"
                " copy it from the app's page, it begins with xoxb-.",
            ),
            (
                self.app_token and not self.app_token.startswith("xapp-"),
                "SLACK_APP_TOKEN is not an app token;"
                " it begins with xapp- and needs the scope connections:write.",
            ),
            (
                not self.app_token and not self.signing_secret,
                "Set SLACK_APP_TOKEN for Socket Mode,"
                " or SLACK_SIGNING_SECRET to serve Slack's requests over HTTP.",
            ),
        )

    @property
    def redirect_uri(self) -> str:
        """Return where Slack sends people back to after OAuth, "" for the app page's own address."""
        return f"{self.public_url.rstrip('/')}{REDIRECT_PATH}" if self.public_url else ""


@dataclass(frozen=True)
class Cloud:
    """Name one cloud's addresses.

    A service is `scheme://host`, where a host `*.x` means any host under x.
    """

    channel_keys: str
    emulator_keys: str
    issuer: str
    scope: str
    login: str
    home: str
    """The tenant that signs in bots of many tenants."""
    services: tuple[str, ...]
    emulator_issuers: tuple[str, ...] = ()
    """Who signs for the Bot Framework Emulator, which is believed in development alone."""
    graph: str = "https://graph.microsoft.com"

    def serves(self, url: str) -> bool:
        """Return whether a service URL is one of Microsoft's."""
        scheme, host, port = _split(url)
        services = (pattern.partition("://") for pattern in self.services)
        return (port in (None, 443) or is_loopback(host)) and any(
            name == host or (name.startswith("*.") and host.endswith(name[1:]))
            for served, _, name in services
            if served == scheme
        )


PUBLIC = Cloud(
    channel_keys="https://login.botframework.com/v1/.well-known/openidconfiguration",
    emulator_keys="https://login.microsoftonline.com/botframework.com/v2.0/"
    ".well-known/openid-configuration",
    issuer="https://api.botframework.com",
    scope="https://api.botframework.com",
    login="https://login.microsoftonline.com",
    home="botframework.com",
    services=(
        "https://smba.trafficmanager.net",
        "https://*.botframework.com",
        "https://*.teams.microsoft.com",
    ),
    emulator_issuers=(
        "https://sts.windows.net/d6d49420-f39b-4df7-a1dc-d59a935871db/",
        "https://login.microsoftonline.com/d6d49420-f39b-4df7-a1dc-d59a935871db/v2.0",
        "https://sts.windows.net/f8cdef31-a31e-4b4a-93e4-5f571e91255a/",
        "https://login.microsoftonline.com/f8cdef31-a31e-4b4a-93e4-5f571e91255a/v2.0",
    ),
)


class TeamsSdk(StrEnum):
    """Name the SDKs of Microsoft's that can carry activities."""

    BOTBUILDER = "botbuilder"
    AGENTS = "agents"

    @property
    def installed(self) -> bool:
        """Return whether its packages are there; botbuilder's always are."""
        try:
            return (
                self is TeamsSdk.BOTBUILDER
                or find_spec("microsoft_agents.hosting.aiohttp") is not None
            )
        except ModuleNotFoundError:  # of a package above it
            return False


@dataclass(frozen=True)
class TeamsConfig:
    """Hold the app's identity and the tenants it serves.

    Raise `WrongInput` where it could prove itself to nobody.
    """

    app_id: str = ""
    """Empty where nobody signs: with `development` alone, and then for this machine alone."""
    app_password: str = field(default="", repr=False)
    tenant_id: str = ""
    development: bool = False
    tenants: tuple[str, ...] = ()
    """Tenants served besides `tenant_id`, `*` for every one.

    A message of another gets a refusal and no data.
    """
    cloud: Cloud = PUBLIC
    answer_timeout_s: float = 8.0
    """How long a press is answered in place; Teams gives up after about 10 s."""
    sdk: TeamsSdk = TeamsSdk.BOTBUILDER

    def __post_init__(self) -> None:
        """Refuse a missing id, password or SDK by the name of its variable."""
        refuse(
            (
                not self.app_id and not self.development,
                "MicrosoftAppId is empty;"
                " set it, or TRNBOT_TEAMS_DEVELOPMENT=1 to try it on this machine.",
            ),
            (
                self.app_id and not self.app_password,
                "MicrosoftAppPassword is empty; set the secret of the app named by MicrosoftAppId.",
            ),
            (
                not self.sdk.installed,
                "TRNBOT_TEAMS_SDK=agents needs an extra that is not installed: "
                "pip install 'trnbot[agents]', or set TRNBOT_TEAMS_SDK=botbuilder.",
            ),
        )

    @property
    def served_tenants(self) -> frozenset[str] | None:
        """Return the tenants that are served, None for every one."""
        listed = frozenset(tenant for tenant in (self.tenant_id, *self.tenants) if tenant)
        return listed if self.app_id and "*" not in listed else None

    def serves(self, service_url: str) -> bool:
        """Return whether the bot may answer to a service address.

        Microsoft's, in development this machine's.
        """
        return (self.development and on_loopback(service_url)) or (
            bool(self.app_id) and self.cloud.serves(service_url)
        )


def on_loopback(url: str) -> bool:
    """Return whether a URL leads to this machine."""
    _, host, _ = _split(url)
    return is_loopback(host)


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address or `localhost`."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _split(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port of a URL.

    Nothing of an address that hides its host behind a name or cannot be read.
    """
    try:
        parts = urlsplit(url)
        hides = "@" in parts.netloc or "\\" in url or any(sign.isspace() for sign in url)
        return ("", "", None) if hides else (parts.scheme, parts.hostname or "", parts.port)
    except ValueError:
        return "", "", None
