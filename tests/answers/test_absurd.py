"""Absurd sizes end in one clear sentence, never in a traceback."""

from __future__ import annotations

import logging

import pytest

from bot.answers.all import ANSWERS
from bot.app import App
from bot.cards.card import Tone
from bot.errors import WrongInput
from bot.grammar.registry import commands_by_name
from bot.settings.settings import read_settings
from bot.wiring.terminal import answer_line
from bot.wiring.verbs import read_options
from tests.answers.configuring import ask, refused

assert ANSWERS
LONG = "9" * 2_500
SIZES = (
    LONG, "1e999", "-1e999", "1e400", "1e-400", "nan", "inf", "-inf", "9" * 40 + "T", "9" * 400 + "B", "1e30", "99999w", "9999w", "9999d",
    "0001-01", "0001-01-01", "9999-12-31", "0001-01-01..9999-12-31", "\u0663", "\u00b2", "0x10", "$1e15", "9" * 20 + "%",
)  # fmt: skip
ASKED = [
    made
    for made in commands_by_name(hidden=True)
    if made.handler.__module__.startswith("bot.") and not made.heavy
]


def lines_of(name: str) -> list[str]:
    """Put each size in the place of each argument, by name and where it stands in the examples."""
    (command,) = [made for made in ASKED if made.name == name]
    lines = [f"{name} {size}" for size in SIZES]
    lines += [f"{name} {one.word}={size}" for one in command.parameters for size in SIZES]
    for example in command.examples[:2]:
        words = example.split()
        lines += [
            " ".join([*words[:n], _swapped(words[n], size), *words[n + 1 :]])
            for n in range(1, len(words))
            for size in SIZES
        ]
    return lines


def _swapped(word: str, size: str) -> str:
    name, equals, _ = word.partition("=")
    return f"{name}={size}" if equals else size


@pytest.mark.parametrize("name", [made.name for made in ASKED])
async def test_no_absurd_size_ends_in_a_traceback(
    bot: App, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    for line in lines_of(name):
        card = await ask(bot, line)
        assert len(str(card.data.get("error", ""))) < 1_200, line[:80]
    assert [
        record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR
    ] == []


@pytest.mark.parametrize(
    "line", [f"size {LONG}", "size " + "9" * 40 + "T", "size " + "9" * 400 + "B"]
)
async def test_size_of_very_many_digits_names_the_limit(bot: App, line: str) -> None:
    assert "is more parameters than any model has; keep it under 1000T." in refused(
        await ask(bot, line)
    )


@pytest.mark.parametrize(
    "line",
    [
        "wait months=1e999",
        "wait months=1e400",
        f"wait months={LONG}",
        "tco p5.48xlarge trn2.48xlarge months=1e-400",
    ],
)
async def test_a_number_names_its_limit(bot: App, line: str) -> None:
    assert "keep it within 30 characters and under 10^15." in refused(await ask(bot, line))


@pytest.mark.parametrize(
    "line",
    [
        "cost 0001-01",
        "cost 0001-01-01",
        "reconcile 0001-01",
        "cost 9998-12-31",
        "cost 2026-11-01..9998-12-31",
    ],
)
async def test_a_window_names_the_years_it_may_lie_in(bot: App, line: str) -> None:
    assert "lies outside 1970 to 2199" in refused(await ask(bot, line))


@pytest.mark.parametrize(
    "variable",
    [
        "TRNBOT_PORT",
        "TRNBOT_AWS_EXPLORER_CALLS",
        "TRNBOT_AWS_BUDGET",
        "TRNBOT_SPEED",
        "TRNBOT_INTERVAL",
    ],
)
def test_a_setting_of_very_many_digits_is_refused_in_words(variable: str) -> None:
    with pytest.raises(WrongInput, match=variable):
        read_settings({variable: "9" * 5_000})


def test_a_time_of_another_age_is_refused_in_words() -> None:
    with pytest.raises(WrongInput, match="is not a time"):
        answer_line(
            read_options(["fleet", "--source", "recording:x", "--at", "0001-01-01T00:00:00Z"])
        )


@pytest.mark.parametrize(
    ("line", "within", "beyond"),
    [
        ("quota trn1.32xlarge nodes={}", (0, 100_000), (-1, 100_001)),
        ("capacity trn1.32xlarge nodes={}", (1, 100_000), (0, 100_001)),
        ("capacity trn1.32xlarge days={}", (1, 3_650), (0, 3_651)),
        ("capacity trn1.32xlarge used={}", (1, 100), ("0.9", "100.1")),
        ("spot trn1.32xlarge nodes={}", (1, 100_000), (0, 100_001)),
        ("spot trn1.32xlarge hours={}", ("0.1", 10**9), (0, 10**9 + 1)),
        ("spot trn1.32xlarge cap={}", ("0.1", 10**9 - 1), (0, 10**9)),
    ],
)
async def test_the_ends_of_an_amount_are_within(
    bot: App, line: str, within: tuple[object, ...], beyond: tuple[object, ...]
) -> None:
    tones = [(await ask(bot, line.format(amount))).tone for amount in (*within, *beyond)]
    assert [tone is Tone.ERROR for tone in tones] == [False, False, True, True]
