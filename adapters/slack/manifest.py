"""Write the manifest from which the Slack app is created, with the commands it hints at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import yaml

from adapters.slack.config import REDIRECT_PATH
from adapters.slack.forms import ASK
from bot.ports import CommandHint

COMMAND = "/trn"
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
"""Least scopes: read mentions and direct messages, speak, show that a line is worked on, find own messages again, upload
charts and tables, tell who is a member or an admin, and whether another organization reads a channel.
"""
LINKS = ("links:read", "links:write")
"""Scopes to draw what a link to the console leads to, where the console has a public address."""
EVENTS = ("app_home_opened", "app_mention", "app_uninstalled", "message.im", "tokens_revoked")


def manifest(hints: Sequence[CommandHint], public_url: str = "") -> dict[str, Any]:
    """Return Slack's manifest (schema 1).

    Socket Mode, or HTTP below `public_url` when there is one.
    """
    events = f"{public_url.rstrip('/')}/slack/events" if public_url else ""
    request = {"request_url": events} if events else {}
    return {
        "display_information": {
            "name": "trnbot",
            "description": "Says what AWS Trainium clusters waste: why, how many dollars, what to do.",
            "background_color": "#1f2d3d",
        },
        "features": {
            "agent_view": _agent(hints),
            "app_home": {
                "home_tab_enabled": True,
                "messages_tab_enabled": True,
                "messages_tab_read_only_enabled": False,
            },
            "bot_user": {"display_name": "trnbot", "always_online": True},
            "shortcuts": _shortcuts(),
            "slash_commands": [_command(hints, events)],
            **({"unfurl_domains": [urlsplit(public_url).hostname]} if public_url else {}),
        },
        "oauth_config": {
            **_redirect(public_url),
            "scopes": {"bot": sorted((*SCOPES, *(LINKS if public_url else ())))},
        },
        "settings": {
            "event_subscriptions": {
                **request,
                "bot_events": sorted((*EVENTS, *(["link_shared"] if public_url else ()))),
            },
            "interactivity": {"is_enabled": True, **request},
            "org_deploy_enabled": False,
            "socket_mode_enabled": not events,
            "token_rotation_enabled": False,
        },
    }


def manifest_yaml(hints: Sequence[CommandHint], public_url: str = "") -> str:
    """Return the manifest as the text of manifest/slack.yaml."""
    return yaml.safe_dump(
        manifest(hints, public_url), sort_keys=False, width=130, allow_unicode=True
    )


def _command(hints: Sequence[CommandHint], events: str) -> dict[str, Any]:
    command = {
        "command": COMMAND,
        "description": "Ask what Trainium costs and wastes",
        "usage_hint": usage_hint(hints),
    }
    return {**command, "should_escape": False, **({"url": events} if events else {})}


def _agent(hints: Sequence[CommandHint]) -> dict[str, Any]:
    """Return the agent's face.

    What it is, and lines to press (docs.slack.dev, "Migrating to the Agent messaging experience").
    """
    prompts = [
        {"title": line, "message": line} for line in usage_hint(hints).split(" | ")[:_PROMPTS]
    ]
    return {
        "agent_description": "Ask what Trainium clusters cost and waste, in words of a command.",
        "suggested_prompts": prompts,
    }


def _redirect(public_url: str) -> dict[str, list[str]]:
    """Return where OAuth sends people back to, which only an app with a public address can offer."""
    return {"redirect_urls": [f"{public_url.rstrip('/')}{REDIRECT_PATH}"]} if public_url else {}


def _shortcuts() -> list[dict[str, str]]:
    return [
        {
            "name": "Ask trnbot",
            "type": "message",
            "callback_id": ASK,
            "description": "Ask in the thread of this message",
        },
        {
            "name": "Ask trnbot",
            "type": "global",
            "callback_id": f"{ASK}_anywhere",
            "description": "Ask what Trainium costs",
        },
    ]


_FIRST = ("cost", "fleet", "alerts", "why", "spot", "help")


def usage_hint(hints: Sequence[CommandHint], most: int = 100) -> str:
    """Return the examples that fit into `most` characters: the most common questions first."""
    ranked = sorted((h for h in hints if not h.changes or h.name in _FIRST), key=_rank)
    shown = ""
    for example in (hint.example or hint.name for hint in ranked):
        if len(longer := f"{shown} | {example}" if shown else example) > most:
            break
        shown = longer
    return shown or "help"


def _rank(hint: CommandHint) -> tuple[int, str]:
    return (_FIRST.index(hint.name) if hint.name in _FIRST else len(_FIRST), hint.name)
