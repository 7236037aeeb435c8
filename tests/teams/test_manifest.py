"""The app package is what Teams accepts: a manifest of its schema, and icons of the two sizes."""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from pathlib import Path

import pytest

from adapters.chat.manifest import COMMANDS_MOST, NO_APP, TeamsApp, as_text, build_package, icons
from adapters.chat.manifest import teams_manifest as manifest
from bot.ports import CommandHint
from bot.wiring.surfaces import command_hints

APP = "11111111-2222-3333-4444-555555555555"
HINTS = [CommandHint(f"command {n}", "s" * 5000, f"command {n} 7d") for n in range(20)]
FOLDER = Path(__file__).parents[2] / "manifest" / "teams"


def pixels(png: bytes) -> tuple[int, int, bytes]:
    """Return width, height and the RGBA rows of a PNG whose rows have no filter."""
    width, height = struct.unpack(">II", png[16:24])
    start = png.index(b"IDAT") + 4
    rows = zlib.decompress(png[start : start + struct.unpack(">I", png[start - 8 : start - 4])[0]])
    stride = width * 4 + 1
    return width, height, b"".join(rows[y * stride + 1 : (y + 1) * stride] for y in range(height))


def test_the_committed_template_is_what_the_code_writes() -> None:
    assert (FOLDER / "manifest.json").read_text(encoding="utf-8") == as_text(
        manifest(TeamsApp(hints=command_hints()))
    )
    assert manifest(TeamsApp())["id"] == NO_APP


def test_the_package_holds_the_app_id_the_commands_and_both_icons(tmp_path: Path) -> None:
    with zipfile.ZipFile(
        build_package(tmp_path / "trnbot.zip", TeamsApp(APP, HINTS, "bot.example.com"))
    ) as package:
        assert package.namelist() == ["manifest.json", "color.png", "outline.png"]
        made = json.loads(package.read("manifest.json"))
    listed = made["bots"][0]["commandLists"][0]["commands"]
    assert (made["id"], made["bots"][0]["botId"], made["validDomains"]) == (
        APP,
        APP,
        ["bot.example.com"],
    )
    assert len(listed) == COMMANDS_MOST
    assert max(len(command["description"]) for command in listed) <= 4000


def test_the_commands_listed_are_those_a_newcomer_tries_first() -> None:
    titles = [
        command["title"]
        for command in manifest(TeamsApp(hints=command_hints()))["bots"][0]["commandLists"][0][
            "commands"
        ]
    ]
    assert titles[:4] == ["alerts", "cost", "fleet", "idle"]
    assert len(titles) == COMMANDS_MOST


def test_the_same_package_is_written_twice(tmp_path: Path) -> None:
    one, two = (
        build_package(tmp_path / name, TeamsApp(APP, HINTS)).read_bytes()
        for name in ("a.zip", "b.zip")
    )
    assert one == two


def test_the_icons_have_the_sizes_teams_asks_for_and_the_outline_is_white_on_nothing() -> None:
    assert pixels(icons()["color.png"])[:2] == (192, 192)
    width, height, outline = pixels(icons()["outline.png"])
    assert (width, height) == (32, 32)
    assert {outline[i : i + 4] for i in range(0, len(outline), 4)} == {
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x00",
    }


def test_the_manifest_fits_the_published_schema() -> None:
    schema = os.environ.get("TEAMS_MANIFEST_SCHEMA") or _installed()
    if not schema:
        pytest.skip("the schema comes with npm's @microsoft/app-manifest; tests/e2e installs it")
    rules = json.loads(Path(schema).read_text(encoding="utf-8"))
    from jsonschema.validators import validator_for

    check = validator_for(rules)(rules)
    found = list(check.iter_errors(manifest(TeamsApp(APP, HINTS, "bot.example.com"))))
    assert [f"{error.json_path} {error.message[:200]}" for error in found] == []


def _installed() -> str:
    """Return the path of the schema where the end-to-end tests installed it, "" otherwise."""
    package = Path(
        "var/e2e/teams/node_modules/@microsoft/app-manifest/build/json-schemas/teams/v1.29/MicrosoftTeams.schema.json"
    )
    return str(package) if package.exists() else ""
