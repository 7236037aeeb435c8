"""Make up what people and machines might send: near the grammar, and far from it."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

from bot.grammar.registry import COMMANDS

JUNK = (
    "", " ", "\x00", "\u202e", "\u201c", '"', "'", "=", "!=", "--", "--help", "-h", "<!channel>", "<@U1>", "&amp;", "%s", "{0}", "../..",
    "NaN", "1e999", "-1", "0", "99999999999999999999", "2026-13-45", "7d", "1h", "0m", "-5m", "last-month", "tomorrow", "by", "for", "to",
    "length=", "length=1h", "ceiling=$500", "ceiling=-1", "reason=moving", "cluster=llama", "cluster!=llama", "team=", "idle.below", "15%",
    "idle.below=15%", "idle.for=10m", "p00000000", "web:alerts", "slack:C1", "teams:x", "\U0001f4a5" * 9, "a" * 400, ";", "| rm -rf /",
    "'; DROP TABLE alerts; --", "share", "share share", "/trn", "=1h", "for=", "\n", "\t", "[idle]", "```", "\\", "a\\", "\ud7ff",
)  # fmt: skip
HEAVY = {"backtest", "self"}
"""Commands that a test of other folders asks ten thousand things of."""


def lines(dice: random.Random, alert: str) -> Iterator[str]:
    """Yield lines: a command and arguments, with junk between, cut and shuffled; or junk alone."""
    names = sorted(command.name for command in COMMANDS.values() if command.name not in HEAVY)
    words = (*JUNK, alert, alert[:4], *names)
    while True:
        said = [dice.choice(words) for _ in range(dice.randrange(5))]
        if dice.random() < 0.8:
            said.insert(0, dice.choice(names))
        if dice.random() < 0.3:
            said.insert(min(1, len(said)), alert)
        line = " ".join(said)
        yield (
            "".join(dice.sample(line, len(line)))
            if dice.random() < 0.05
            else line[: dice.randrange(1, 120)]
            if dice.random() < 0.2
            else line
        )


def spoilt(dice: random.Random, value: Any, alert: str) -> Any:
    """Return a payload with some of its leaves and branches replaced, doubled or taken out."""
    odd = (
        None,
        True,
        0,
        -1,
        2**70,
        1.5,
        [],
        {},
        [[]],
        {"x": {}},
        *JUNK,
        alert,
        "help",
        f"ack {alert}",
        f"snooze {alert}",
    )
    if dice.random() < 0.06:
        return copy.deepcopy(dice.choice(odd))
    if isinstance(value, dict):
        return {k: spoilt(dice, v, alert) for k, v in value.items() if dice.random() > 0.04}
    if isinstance(value, list):
        return [
            spoilt(dice, one, alert) for one in value for _ in range(dice.choice((1, 1, 1, 2, 0)))
        ]
    return value
