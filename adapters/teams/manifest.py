"""Build the app package that an admin uploads to Teams: manifest.json and two icons.

Written to the manifest's schema 1.29, "Microsoft Teams app manifest" (learn.microsoft.com, read
2026-11-20).
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from adapters.teams.markup import short
from bot.ports import CommandHint

Json = dict[str, Any]

VERSION = "1.29"
NO_APP = "00000000-0000-0000-0000-000000000000"
"""Stands for the app id in the committed template."""
COMMANDS_MOST = 12
_NOON = (2026, 1, 1, 12, 0, 0)  # a fixed time, so that the same input gives the same bytes
_SITE = "https://trnbot.example"


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


def manifest(app: TeamsApp) -> Json:
    """Return the manifest.

    The bot in channels, group and personal chats, its commands by mention and by slash.
    """
    made: Json = {
        "$schema": f"https://developer.microsoft.com/en-us/json-schemas/teams/v{VERSION}/MicrosoftTeams.schema.json",
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
            "full": "Watches the Neuron utilization and the bill of AWS Trainium clusters, reports to a channel within minutes "
            "what is wasted, why, how many dollars, and what to do, and answers anyone who asks: cost, fleet, alerts.",
        },
        "icons": {"color": "color.png", "outline": "outline.png"},
        "accentColor": "#1B3A57",
        "bots": [_bot(app)],
        "supportsChannelFeatures": "tier1",
        "permissions": ["identity", "messageTeamMembers"],
        "webApplicationInfo": {"id": app.app_id, "resource": f"{app.site}/unused"},
        "authorization": {
            "permissions": {
                "resourceSpecific": [{"name": "TeamMember.Read.Group", "type": "Application"}]
            }
        },
    }
    return made | ({"validDomains": [app.host]} if app.host else {})


def build_package(path: Path, app: TeamsApp) -> Path:
    """Write the zip and return its path; the same arguments write the same bytes."""
    document = manifest(app)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in (("manifest.json", as_text(document).encode()), *icons().items()):
            package.writestr(zipfile.ZipInfo(name, _NOON), content, zipfile.ZIP_DEFLATED)
    return path


def icons() -> dict[str, bytes]:
    """Return both icons as PNG, by file name."""
    return {"color.png": color_icon(), "outline.png": outline_icon()}


def as_text(document: Json) -> str:
    """Write a manifest as people read it."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _bot(app: TeamsApp) -> Json:
    scopes = ["team", "groupChat", "personal"]
    commands = [_command(hint) for hint in by_worth(app.hints)[:COMMANDS_MOST]]
    listed = (
        [{"scopes": scopes, "triggers": ["mention", "slash"], "commands": commands}]
        if commands
        else []
    )
    return {
        "botId": app.app_id,
        "scopes": scopes,
        "supportsTargetedMessages": True,
        "isNotificationOnly": False,
        "supportsFiles": False,
        "commandLists": listed,
    }


def _command(hint: CommandHint) -> Json:
    example = f" For example: {hint.example}" if hint.example and hint.example != hint.name else ""
    return {"title": short(hint.name, 128), "description": short(f"{hint.summary}{example}", 4000)}


_FIRST = (
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


def by_worth(hints: Sequence[CommandHint]) -> tuple[CommandHint, ...]:
    """Return the hints, those named here first, the others in their own order after them."""
    rank = {name: place for place, name in enumerate(_FIRST)}
    return tuple(sorted(hints, key=lambda hint: rank.get(hint.name, len(rank))))


Pixels = npt.NDArray[np.uint8]

_INK = (27, 58, 87, 255)
_BUSY = (255, 255, 255, 255)
_WASTED = (255, 153, 0, 255)
_BARS = ((0.20, 0.22), (0.42, 0.36), (0.64, 0.68))
"""Left edge and top of each bar, as shares of the icon."""
_WIDTH = 0.16
_FLOOR = 0.80


def color_icon(size: int = 192) -> bytes:
    """Return the colour icon: a full square, as Teams rounds it itself."""
    pixels = np.empty((size, size, 4), dtype=np.uint8)
    pixels[:] = _INK
    return _png(_with_bars(pixels, (_BUSY, _BUSY, _WASTED)))


def outline_icon(size: int = 32) -> bytes:
    """Return the outline icon: white on nothing, as the schema asks."""
    return _png(_with_bars(np.zeros((size, size, 4), dtype=np.uint8), (_BUSY, _BUSY, _BUSY)))


def _with_bars(pixels: Pixels, colors: tuple[tuple[int, ...], ...]) -> Pixels:
    size = pixels.shape[0]
    for (left, top), color in zip(_BARS, colors, strict=True):
        rows = slice(round(top * size), round(_FLOOR * size))
        pixels[rows, round(left * size) : round((left + _WIDTH) * size)] = color
    return pixels


def _png(pixels: Pixels) -> bytes:
    """Write 8-bit RGBA rows, each with filter 0 (PNG specification, third edition)."""
    height, width, _ = pixels.shape
    rows = np.insert(pixels.reshape(height, width * 4), 0, 0, axis=1).tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", head)
        + _chunk(b"IDAT", zlib.compress(rows, 9))
        + _chunk(b"IEND", b"")
    )


def _chunk(name: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content))
        + name
        + content
        + struct.pack(">I", zlib.crc32(name + content))
    )
