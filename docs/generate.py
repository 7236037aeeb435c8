"""Write the generated pages and manifests again: `make docs`."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from adapters.aws.api.operations import ACTING, READING, policy_text
from adapters.chat.manifest import TeamsApp, as_text, manifest_yaml, teams_manifest
from bot.answers.all import ANSWERS
from bot.grammar.plain.ranker import Counts, Example, count
from bot.model.causes import Cause
from bot.wiring.surfaces import command_hints
from docs import stacks
from docs.chart import values_schema
from docs.pages import (
    cause_page,
    commands_page,
    detection_page,
    glossary_page,
    index_page,
    numbers_page,
    settings_page,
)

assert ANSWERS
ROOT = Path(__file__).parents[1]
COUNTS = "bot/grammar/plain/ranker.npz"
"""Of the lines in plain words: too many to be counted at each start."""


def pages() -> Mapping[str, str]:
    """Return the text of every generated file by its path."""
    hints = command_hints()
    return {
        "bot/grammar/commands.csv": index_page(),
        "docs/commands.md": commands_page(),
        "docs/settings.md": settings_page(),
        "docs/glossary.md": glossary_page(),
        "docs/detection.md": detection_page(_written("docs/detection.md")),
        **{
            f"docs/causes/{cause}.md": cause_page(cause, _written(f"docs/causes/{cause}.md"))
            for cause in Cause
        },
        "docs/numbers.md": numbers_page(),
        **stack_files(),
        "deploy/helm/trnbot/values.schema.json": values_schema(),
        "manifest/slack.yaml": manifest_yaml(hints),
        "manifest/teams/manifest.json": as_text(teams_manifest(TeamsApp(hints=hints))),
    }


def stack_files() -> Mapping[str, str]:
    """Return the files that name what the code asks for: permissions, columns, recorded series."""
    bot, member, module = (
        f"deploy/{name}"
        for name in (
            "cloudformation/trnbot.yaml",
            "cloudformation/member-role.yaml",
            "terraform/bill.tf",
        )
    )
    made = {name: (ROOT / name).read_text(encoding="utf-8") for name in (bot, member, module)}
    return {
        READING: policy_text(),
        ACTING: policy_text(file=ACTING),
        bot: stacks.with_columns(stacks.with_permissions(made[bot], stacks.BOT), "- {}"),
        member: stacks.with_permissions(made[member], stacks.MEMBER),
        module: stacks.with_columns(made[module], '"{}",'),
        "deploy/prometheus/rules.yaml": stacks.recording_rules(),
        "deploy/helm/trnbot/files/recording.yaml": stacks.recording_rules(),
    }


def counted() -> Counts:
    """Count the lines in plain words."""
    lines = csv.DictReader(_written("docs/plain_lines.csv").splitlines())
    return count([Example(row["text"], row["command"]) for row in lines])


def _written(name: str) -> str:
    """Return a page as it is, whose prose is written by hand; "" where there is none yet."""
    path = ROOT / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


def main() -> None:
    """Write them, and what the lines in plain words count to."""
    np.savez_compressed(ROOT / COUNTS, **vars(counted()))
    for name, text in pages().items():
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
