"""Write the manifest of the Slack app and the package of the Teams app, with their commands.

Teams' is written to schema 1.29, "Microsoft Teams app manifest" (learn.microsoft.com, read
2026-11-20).
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile
from pathlib import Path
from urllib.parse import quote, urlsplit

import yaml

from adapters.chat.config import REDIRECT_PATH, Json
from bot.cards.words import short
from bot.ports import CommandHint

COMMAND = "/trn"
ASK = "trn_ask"
"""The callback of the shortcut that opens a place to type a line, and of its modal."""
_PROMPTS = 4
SCOPES = (
    "app_mentions:read",
    "assistant:write",
    "channels:history",
    "channels:read",
    "chat:write",
    "commands",
    "files:write",
    "groups:history",
    "groups:read",
    "im:history",
    "im:write",
    "mpim:read",
    "usergroups:read",
    "users:read",
)
"""Least scopes: read mentions and direct messages, speak, show that a line is worked on, find own
messages again, upload charts and tables, tell who is a member or an admin, and whether another
organization reads a channel.
"""
LINKS = ("links:read", "links:write")
"""Scopes to draw what a link to the console leads to, where the console has a public address."""
EVENTS = ("app_home_opened", "app_mention", "app_uninstalled", "message.im", "tokens_revoked")


def slack_manifest(hints: Sequence[CommandHint], public_url: str = "") -> Json:
    """Return Slack's manifest (schema 1).

    Socket Mode, or HTTP below `public_url` when there is one.
    """
    base = public_url.rstrip("/")
    events = f"{base}/slack/events" if public_url else ""
    request = {"request_url": events} if events else {}
    hint = usage_hint(hints)

    # Only an app with a public address can draw links, and have people sent back by OAuth.
    domains = {"unfurl_domains": [urlsplit(public_url).hostname]} if public_url else {}
    redirect = {"redirect_urls": [f"{base}{REDIRECT_PATH}"]} if public_url else {}
    scopes = sorted((*SCOPES, *(LINKS if public_url else ())))
    bot_events = sorted((*EVENTS, *(["link_shared"] if public_url else ())))
    ask = {"name": "Ask trnbot"}
    return {
        "display_information": {
            "name": "trnbot",
            "description": "Says what AWS Trainium clusters waste:"
            " why, how many dollars, what to do.",
            "background_color": "#1f2d3d",
        },
        "features": {
            # docs.slack.dev, "Migrating to the Agent messaging experience".
            "agent_view": {
                "agent_description": "Ask what Trainium clusters cost and waste,"
                " in words of a command.",
                "suggested_prompts": [
                    {"title": line, "message": line} for line in hint.split(" | ")[:_PROMPTS]
                ],
            },
            "app_home": {
                "home_tab_enabled": True,
                "messages_tab_enabled": True,
                "messages_tab_read_only_enabled": False,
            },
            "bot_user": {"display_name": "trnbot", "always_online": True},
            "shortcuts": [
                {
                    **ask,
                    "type": "message",
                    "callback_id": ASK,
                    "description": "Ask in the thread of this message",
                },
                {
                    **ask,
                    "type": "global",
                    "callback_id": f"{ASK}_anywhere",
                    "description": "Ask what Trainium costs",
                },
            ],
            "slash_commands": [
                {
                    "command": COMMAND,
                    "description": "Ask what Trainium costs and wastes",
                    "usage_hint": hint,
                    "should_escape": False,
                    **({"url": events} if events else {}),
                }
            ],
            **domains,
        },
        "oauth_config": {**redirect, "scopes": {"bot": scopes}},
        "settings": {
            "event_subscriptions": {**request, "bot_events": bot_events},
            "interactivity": {"is_enabled": True, **request},
            "org_deploy_enabled": False,
            "socket_mode_enabled": not events,
            "token_rotation_enabled": False,
        },
    }


_NEW_APP = "https://api.slack.com/apps?new_app=1&manifest_json="
"""Slack's page of a new app, filled in (docs.slack.dev, app manifests, 2026-11)."""


def new_app_link(hints: Sequence[CommandHint]) -> str:
    """Return the address of the page that makes the app, all of it filled in."""
    manifest = json.dumps(slack_manifest(hints), separators=(",", ":"))
    return f"{_NEW_APP}{quote(manifest, safe='')}"


def manifest_yaml(hints: Sequence[CommandHint], public_url: str = "") -> str:
    """Return the manifest as the text of manifest/slack.yaml."""
    return yaml.safe_dump(
        slack_manifest(hints, public_url), sort_keys=False, width=130, allow_unicode=True
    )


_FIRST = ("cost", "fleet", "alerts", "why", "spot", "help")


def usage_hint(hints: Sequence[CommandHint], most: int = 100) -> str:
    """Return the examples that fit into `most` characters: the most common questions first."""
    by_name = sorted(hints, key=lambda hint: hint.name)
    questions = by_worth(
        [hint for hint in by_name if not hint.changes or hint.name in _FIRST], _FIRST
    )
    lines = accumulate((hint.example for hint in questions), "{} | {}".format)
    return max(takewhile(lambda line: len(line) <= most, lines), key=len, default="help")


VERSION = "1.29"
NO_APP = "00000000-0000-0000-0000-000000000000"
"""Stands for the app id in the committed template."""
COMMANDS_MOST = 12
_NOON = (2026, 1, 1, 12, 0, 0)  # a fixed time, so that the same input gives the same bytes
_SITE = "https://trnbot.example"
_ICONS = Path(__file__).parents[2] / "manifest" / "teams"


@dataclass(frozen=True)
class TeamsApp:
    """Hold the app's identity for its manifest.

    `host` is the public name of the bot's HTTPS endpoint, `site` its operator's.
    """

    app_id: str = NO_APP
    hints: Sequence[CommandHint] = ()
    host: str = ""
    version: str = "0.1.0"
    site: str = _SITE


def teams_manifest(app: TeamsApp) -> Json:
    """Return the manifest.

    The bot in channels, group and personal chats, its commands by mention and by slash.
    """
    scopes = ["team", "groupChat", "personal"]
    described = (
        (hint, f" For example: {hint.example}" if hint.example != hint.name else "")
        for hint in by_worth(app.hints)[:COMMANDS_MOST]
    )
    commands = [
        {"title": short(hint.name, 128), "description": short(f"{hint.summary}{example}", 4000)}
        for hint, example in described
    ]
    listed = {"scopes": scopes, "triggers": ["mention", "slash"], "commands": commands}

    return {
        "$schema": "https://developer.microsoft.com/en-us/json-schemas/teams/"
        f"v{VERSION}/MicrosoftTeams.schema.json",
        "manifestVersion": VERSION,
        "version": app.version,
        "id": app.app_id,
        "developer": {
            "name": "trnbot",
            "websiteUrl": app.site,
            "privacyUrl": f"{app.site}/privacy",
            "termsOfUseUrl": f"{app.site}/terms",
        },
        "name": {"short": "trnbot", "full": "trnbot: what Trainium clusters waste"},
        "description": {
            "short": "Says which AWS Trainium clusters waste money, why, and what to do.",
            "full": "Watches the Neuron utilization and the bill of AWS Trainium clusters, reports"
            " to a channel within minutes what is wasted, why, how many dollars, and what to do,"
            " and answers anyone who asks: cost, fleet, alerts.",
        },
        "icons": {"color": "color.png", "outline": "outline.png"},
        "accentColor": "#1B3A57",
        "bots": [
            {
                "botId": app.app_id,
                "scopes": scopes,
                "supportsTargetedMessages": True,
                "isNotificationOnly": False,
                "supportsFiles": False,
                "commandLists": [listed] if commands else [],
            }
        ],
        "supportsChannelFeatures": "tier1",
        "permissions": ["identity", "messageTeamMembers"],
        "webApplicationInfo": {"id": app.app_id, "resource": f"{app.site}/unused"},
        "authorization": {
            "permissions": {
                "resourceSpecific": [{"name": "TeamMember.Read.Group", "type": "Application"}]
            }
        },
    } | ({"validDomains": [app.host]} if app.host else {})


def build_package(path: Path, app: TeamsApp) -> Path:
    """Write the zip and return its path; the same arguments write the same bytes."""
    files = {"manifest.json": as_text(teams_manifest(app)).encode(), **icons()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in files.items():
            package.writestr(zipfile.ZipInfo(name, _NOON), content, zipfile.ZIP_DEFLATED)
    return path


def icons() -> dict[str, bytes]:
    """Return both icons as PNG, by file name."""
    return {path.name: path.read_bytes() for path in sorted(_ICONS.glob("*.png"))}


def as_text(document: Json) -> str:
    """Write a manifest as people read it."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


_TEAMS_FIRST = (
    "alerts",
    "cost",
    "fleet",
    "idle",
    "home",
    "why",
    "ack",
    "snooze",
    "spot",
    "migrate",
    "help",
    "doctor",
)


def by_worth(
    hints: Sequence[CommandHint], first: Sequence[str] = _TEAMS_FIRST
) -> tuple[CommandHint, ...]:
    """Return the hints, those named `first` first, the others in their own order after them."""
    rank = {name: place for place, name in enumerate(first)}
    return tuple(sorted(hints, key=lambda hint: rank.get(hint.name, len(rank))))
