"""Lines in plain words, asked of the whole product over the demo: each ends in an answer, a choice or one clear sentence."""

from __future__ import annotations

import pytest

from adapters.store.memory import MemoryStore
from bot.app import App
from bot.cards.card import Card, Tone
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource
from tests.answers import test_plain_lines, test_plain_lines_later
from tests.answers.configuring import app, ask
from tests.answers.test_plain_words import meaning
from tests.e2e.product import recording

FAULT = "Something went wrong"
ASKED = {
    "cost llama": "cost 7d cluster=llama",
    "cost last week by team": "cost last-week by team",
    "cost this month": "cost this-month",
    "cost per day": "cost 7d by day",
    "why did our bill jump yesterday?": "why cost yesterday",
    "what does llama cost per day": "cost 7d by day cluster=llama",
    "forecast": "forecast",
    "summary": "summary",
    "price trn1.32xlarge": "price trn1.32xlarge",
    "migrate llama to trn2": "migrate llama to trn2.48xlarge",
    "why is llama slow": "why llama",
    "why is llama expensive": "why cost 7d level cluster=llama",
    "why are we spending so much": "why cost 7d level",
    "cost november": "cost 2026-11",
    "spend 7d": "cost 7d",
    "waste": "alerts",
    "cost by owner": "cost 7d by tag:owner",
    "mute": "silences",
    "llama": "fleet llama",
    "budget": "forecast",
}
"""Lines that leads and FinOps people typed first, and were refused."""


@pytest.fixture(scope="module")
def demo() -> App:
    """Return a bot over the demo, whose clusters and runs the lines name."""
    source = f"recording:{recording('demo')}"
    return app(OpenedSource(source, settings_of({"source": source})), MemoryStore())


@pytest.fixture(scope="module")
def bot(causes: OpenedSource) -> App:
    """Return a bot over a recording that has most of these clusters, and that others open too."""
    return app(causes, MemoryStore())


@pytest.mark.timeout(120)
@pytest.mark.parametrize("line", ASKED)
async def test_a_line_that_people_type_first_is_answered(bot: App, line: str) -> None:
    card = await ask(bot, line)
    assert card.tone is not Tone.ERROR, card
    assert meaning(str(card.data.get("read_as", line))) == meaning(ASKED[line])


@pytest.mark.slow
@pytest.mark.timeout(1200)
async def test_every_line_of_both_sets_ends_in_an_answer_or_one_sentence(demo: App) -> None:
    for row in (*test_plain_lines.ROWS, *test_plain_lines_later.ROWS):
        card = await ask(demo, row["line"])
        assert FAULT not in str(card.data.get("error", "")), row["line"]
        assert "\n" not in str(card.data.get("error", "")), row["line"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
async def test_every_line_of_the_first_set_is_answered_as_it_is_meant(demo: App) -> None:
    # Each by a person of its own: said after another line, a short one may follow that up.
    missed = [
        row["line"]
        for n, row in enumerate(test_plain_lines.ROWS)
        if not _is_meant(await ask(demo, row["line"], f"chat:P{n}"), row)
    ]
    assert len(missed) <= len(test_plain_lines.ROWS) // 50, missed


def _is_meant(card: Card, row: dict[str, str]) -> bool:
    """Tell whether an answer is of a line that is wanted, or offers one."""
    wanted, choices = (
        row["wanted"].removeprefix("?").split("|"),
        [str(x) for x in (card.data.get("read_as", row["line"]), *card.data.get("choices", ()))],
    )
    if row["wanted"].startswith("?"):
        return any(choice.startswith(each) for choice in choices for each in wanted)
    means = [meaning(each) for each in wanted]
    return any(meaning(choice) in means for choice in choices)
