"""Write the generated pages and manifests again: `make docs`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from adapters.chat.manifest import TeamsApp, as_text, manifest_yaml, teams_manifest
from bot.answers.all import ANSWERS
from bot.grammar.registry import index_page
from bot.wiring.surfaces import command_hints
from docs.pages import commands_page, detection_page, numbers_page, settings_page

assert ANSWERS
ROOT = Path(__file__).parents[1]


def pages() -> Mapping[str, str]:
    """Return the text of every generated file by its path."""
    hints = command_hints()
    return {
        "bot/grammar/commands.csv": index_page(),
        "docs/commands.md": commands_page(),
        "docs/settings.md": settings_page(),
        "docs/detection.md": detection_page(
            (ROOT / "docs/detection.md").read_text(encoding="utf-8")
        ),
        "docs/numbers.md": numbers_page(),
        "manifest/slack.yaml": manifest_yaml(hints),
        "manifest/teams/manifest.json": as_text(teams_manifest(TeamsApp(hints=hints))),
    }


def main() -> None:
    """Write them."""
    for name, text in pages().items():
        (ROOT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
