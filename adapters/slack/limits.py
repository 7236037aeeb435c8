"""Keep Slack's limits in one place, and choose the blocks that fit into one message.

Source: docs.slack.dev, reference/block-kit (read 2026-11-20). The total of a message's blocks is
undocumented: slackapi/bolt-js issue 2509 measured about 13,200 characters (`msg_blocks_too_long`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from adapters.slack import markup
from adapters.slack.markup import Json, context

BLOCKS = 50
VIEW_BLOCKS = 100
TOTAL = 13_000
HEADER = 150
SECTION = 3_000
FIELDS = 10
FIELD = 2_000
CONTEXT_ELEMENTS = 10
BUTTONS = 25
BUTTON_TEXT = 75
BUTTON_VALUE = 2_000
CONFIRM_TITLE, CONFIRM_TEXT, CONFIRM_BUTTON = 100, 300, 30
ALT_TEXT = 2_000
FALLBACK = 3_000
VIEW_TITLE = 24
VIEW_BUTTON = 24
VIEW_METADATA = 3_000
LABEL = 2_000
PLACEHOLDER = 150
INPUT = 3_000
OPTIONS = 100
OPTION_TEXT = 75
OPTION_VALUE = 150


_NOTE_LENGTH = 700


class Rank(IntEnum):
    """Order blocks by how willingly they are dropped: the first paragraph never, buttons late."""

    NEVER = 0
    LATE = 1
    FIRST = 2


@dataclass(frozen=True)
class SizeUnit:
    """Hold one Slack block, its name for when it is left out, and its rank."""

    name: str
    block: Json
    rank: Rank


def fit(units: Sequence[SizeUnit], most: int) -> list[Json]:
    """Return up to `most` blocks within Slack's total, dropped from the last by rank.

    The last one names the dropped.
    """
    fitting = list(units)
    lengths = [_length(unit.block) for unit in units]
    dropped: list[SizeUnit] = []
    while _over(fitting, lengths, most, bool(dropped)):
        rank = max(unit.rank for unit in fitting)
        if rank is Rank.NEVER:
            break
        at = max(n for n, unit in enumerate(fitting) if unit.rank is rank)
        lengths.pop(at)
        dropped.insert(0, fitting.pop(at))
    blocks = [unit.block for unit in fitting]
    return [*blocks, _left_out(dropped)] if dropped else blocks


def _over(fitting: Sequence[SizeUnit], lengths: Sequence[int], most: int, noted: bool) -> bool:
    note = _NOTE_LENGTH if noted else 0
    return len(fitting) + noted > most or sum(lengths) + note > TOTAL


def _length(block: Json) -> int:
    """Return the length of the block as JSON, the strictest reading of Slack's undocumented total."""
    written = json.dumps(block, ensure_ascii=False)
    return markup.size(written.replace('\\"', '"').replace("\\n", " ").replace("\\\\", " ")) + 2


def _left_out(dropped: Sequence[SizeUnit]) -> Json:
    names = ", ".join(dict.fromkeys(unit.name for unit in dropped))
    return context(
        [
            markup.cut(
                markup.escape(
                    markup.cut(f"Left out, too long for one Slack message: {names}.", 300)
                ),
                600,
            )
        ]
    )
