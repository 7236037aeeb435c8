"""Set the Slack app up: the page that makes it, what its tokens open, the channels it may post in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from adapters.chat.manifest import slack_manifest
from adapters.chat.slack.client import Client, explained
from bot.model.notification import Delays
from bot.ports import CommandHint

_NEW_APP = "https://api.slack.com/apps?new_app=1&manifest_json="
"""Slack's page of a new app, filled in (docs.slack.dev, app manifests, 2026-11)."""
_PAGE, _MOST_PAGES = 200, 10
"""Large workspaces have thousands of channels: those beyond are named by their id."""


def new_app_link(hints: Sequence[CommandHint]) -> str:
    """Return the address of the page that makes the app, all of it filled in."""
    manifest = json.dumps(slack_manifest(hints), separators=(",", ":"))
    return f"{_NEW_APP}{quote(manifest, safe='')}"


@dataclass(frozen=True)
class Channel:
    """Name a channel, and whether the bot is in it."""

    id: str
    name: str
    joined: bool


class SlackSetup:
    """Ask Slack what tokens open; every refusal is `Unavailable` with its remedy."""

    def __init__(self, api_url: str = "") -> None:
        self._api_url = api_url

    async def workspace(self, bot_token: str) -> str:
        """Return the name of the workspace that a bot token opens."""
        async with explained():
            answer = await self._client(bot_token).auth_test()
        return str(answer.get("team") or answer.get("team_id") or "Slack")

    async def check_app(self, app_token: str) -> None:
        """Open a connection's address by an app token, as a start does."""
        async with explained():
            await self._client("").apps_connections_open(app_token=app_token)

    async def channels(self, bot_token: str) -> list[Channel]:
        """Return the channels that can be seen: those that the bot is in first, then by name."""
        client, found, cursor = self._client(bot_token), list[Channel](), ""
        for _ in range(_MOST_PAGES):
            async with explained():
                page = await client.conversations_list(
                    types="public_channel,private_channel",
                    exclude_archived=True,
                    limit=_PAGE,
                    cursor=cursor or None,
                )
            found += [
                Channel(str(x["id"]), str(x.get("name", "")), bool(x.get("is_member")))
                for x in page.get("channels") or ()
            ]
            cursor = str((page.get("response_metadata") or {}).get("next_cursor") or "")
            if not cursor:
                break
        return sorted(found, key=lambda channel: (not channel.joined, channel.name))

    def _client(self, token: str) -> Client:
        return Client(token, self._api_url, Delays())
