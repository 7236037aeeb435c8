"""State where Microsoft's side lives: issuers, keys, logins and the services that a bot may answer to.

Sources: learn.microsoft.com, "Authentication with the Bot Connector API" and "Configure the bot for US Government";
read 2026-11-20.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Cloud:
    """Name one cloud's addresses; a service is `scheme://host`, where a host `*.x` means any host under x."""

    channel_keys: str
    emulator_keys: str
    issuer: str
    scope: str
    login: str
    home: str
    """The tenant that signs in bots of many tenants."""
    services: tuple[str, ...]
    graph: str = "https://graph.microsoft.com"

    def serves(self, url: str) -> bool:
        """Tell whether a service URL is one of Microsoft's."""
        parts = _split(url)
        return parts is not None and any(_fits(parts, pattern) for pattern in self.services)


PUBLIC = Cloud(
    channel_keys="https://login.botframework.com/v1/.well-known/openidconfiguration",
    emulator_keys="https://login.microsoftonline.com/botframework.com/v2.0/.well-known/openid-configuration",
    issuer="https://api.botframework.com",
    scope="https://api.botframework.com",
    login="https://login.microsoftonline.com",
    home="botframework.com",
    services=("https://smba.trafficmanager.net", "https://*.botframework.com", "https://*.teams.microsoft.com"),
)


def on_loopback(url: str) -> bool:
    """Tell whether a URL leads to this machine."""
    parts = _split(url)
    return parts is not None and is_loopback(parts[1])


def is_loopback(host: str) -> bool:
    """Tell whether a host is a loopback address or `localhost`."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _split(url: str) -> tuple[str, str] | None:
    """Return scheme and host; None for an address that hides its host behind a name or cannot be read."""
    try:
        parts = urlsplit(url)
        return None if "@" in parts.netloc or "\\" in url else (parts.scheme, parts.hostname or "")
    except ValueError:
        return None


def _fits(parts: tuple[str, str], pattern: str) -> bool:
    scheme, _, host = pattern.partition("://")
    under = host.startswith("*.") and parts[1].endswith(host[1:])
    return parts[0] == scheme and (parts[1] == host or under)
