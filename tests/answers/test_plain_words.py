"""Lines in plain words are read as lines of the grammar, or asked back; no line of the grammar is read otherwise."""

from __future__ import annotations

import csv
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

from adapters.store.memory import MemoryStore
from bot.app import App
from bot.cards.card import Button, Buttons, Card, Tone
from bot.errors import WrongInput
from bot.grammar.access import Access
from bot.grammar.line import attempted, understand
from bot.grammar.plain.ask import _choice
from bot.grammar.plain.ranker import Example, Ranker, load_counts, load_offers
from bot.grammar.plain.readings import PlainReading, followed, read_plain
from bot.grammar.plain.senses import (
    Names,
    families_of,
    misspelt,
    normalized,
    senses_of,
    slips_of,
)
from bot.grammar.plain.times import find_times
from bot.grammar.registry import commands_by_name
from bot.knowledge import load_knowledge
from bot.model.request import Belonging, Request, Standing, User
from bot.wiring.source import OpenedSource
from tests.answers.configuring import ADMIN, app, ask, end, refused
from tests.answers.test_plain_lines import ROWS
from tests.builders import NOON
from tests.cases import in_one_run

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LEAST = 0.95
PLAIN_LINES = Path(__file__).parents[2] / "docs/plain_lines.csv"
SELDOM = {
    "config cancel",
    "checklist reopen",
    "config import",
    "silences drop",
    "words forget",
    "config apply",
    "home",
}
"""Commands that a card's button or a name of its own leads to."""


@cache
def names() -> Names:
    """The names of the demo's fleet, and of one more team."""
    types, claims = load_knowledge().types(), load_knowledge().claims()
    kinds = {
        "cluster": ("llama", "vision", "frontier", "serving", "gpu-baseline", "lab"),
        "team": ("pretraining", "vision", "frontier", "serving", "search"),
        "run": (
            "llama-70b",
            "vit-22b",
            "sweeps",
            "moe-400b",
            "chat-api",
            "llama-70b-gpu",
            "notebooks",
        ),
        "owner": ("dana", "ravi", "mei"),
        "type": tuple(types),
        "region": tuple(claims.regions),
        "package": ("flash-attn", "torch"),
        "rule": ("idle", "starved", "budget_burn"),
    }
    return Names(kinds, families_of(types), "trn1.32xlarge", "gpu-baseline")


def read(line: str) -> PlainReading | None:
    return read_plain(line, names(), NOW)


def meaning(line: str) -> object:
    try:
        call = understand(line, NOW)
    except WrongInput:
        return line
    return call.command.name, repr(call.arguments)


def outcome(line: str, wanted: str) -> str:
    """Tell how a line is read: `exact`, `read`, `choice`, or what is wrong with it.

    A line that may mean several things gets a choice, or an answer with the others beside it.
    """
    readings = [meaning(each) for each in wanted.removeprefix("?").split("|")]
    if not wanted.startswith("?") and meaning(line) in readings:
        return "exact"
    reading = read(line)
    if reading is None:
        return "not read"
    if wanted.startswith("?"):
        offered = (*reading.lines, *reading.others)
        found = all(any(x.startswith(each) for x in offered) for each in wanted[1:].split("|"))
        return "choice" if found else "surely read" if reading.sure else "other choice"
    if not reading.sure:
        return "unsure"
    return "read" if meaning(reading.line) in readings else "wrong"


def test_the_lines_are_read_as_they_are_meant() -> None:
    outcomes = {row["line"]: outcome(row["line"], row["wanted"]) for row in ROWS}
    right = sum(each in ("exact", "read", "choice") for each in outcomes.values())
    missed = {
        line: each for line, each in outcomes.items() if each not in ("exact", "read", "choice")
    }
    assert right / len(ROWS) >= LEAST, (Counter(outcomes.values()), missed)
    assert [line for line, each in missed.items() if each in ("wrong", "surely read")] == []


@pytest.mark.parametrize(
    "line",
    [
        "cost of the unicorn cluster",
        "cost llama last week compared to whatever bob thinks",
        "cost october vs january",
        "what will a unicorn cost",
        "cost in marketing",
        "cost llama 20 %",
        "how much does fluffy cost",
        "how often have you been wrong this month",  # one letter from a German word of no meaning
        "where do i see which clusters we even have",
        "trn3 when?",
        "are we still within the 400k of this quarter",
        "who changed the settings on monday",
    ],
)
def test_a_word_that_is_not_understood_never_ends_in_a_number(line: str) -> None:
    reading = read(line)
    assert reading is None or not reading.sure


def test_a_time_is_no_name_of_a_tag() -> None:
    reading = read("how much of the bill has no owner tag, year to date")
    assert reading
    assert "tag:" not in reading.line


def test_two_names_of_one_kind_stand_side_by_side_and_each_is_offered() -> None:
    reading = read("llama and vision cost")
    assert reading
    assert reading.line == "cost 7d by cluster cluster=llama,vision"
    assert reading.others == ("cost 7d cluster=llama", "cost 7d cluster=vision")


@pytest.mark.parametrize("word", ["llama-71b", "llama-70bb-gpu", "vit-23b"])
def test_a_name_with_another_number_is_another_name(word: str) -> None:
    known = names().folded
    assert not [
        near for near in misspelt(word, known, slips_of(known)) if near in ("llama-70b", "vit-22b")
    ]


@pytest.mark.parametrize(
    ("line", "window"),
    [
        ("zwischen 3. und 5. november", "2026-11-03..2026-11-05"),
        ("vor drei tagen", "2026-11-17"),
        ("letztes quartal", "2026-07-01..2026-09-30"),
        ("the weekend", "2026-11-14..2026-11-15"),
        ("31.2.", None),
        ("nov 18, 2026", "2026-11-18"),
        ("december", "2025-12"),
        ("12/5", "2025-12-05"),
        ("13/5", "2026-05-13"),
        ("two weeks ago", "2026-11-06"),
        ("in 2025", "2025-01..2025-12"),
        ("since monday", "2026-11-16..2026-11-20"),
        ("since friday", "2026-11-13..2026-11-20"),
        ("50k a month", None),
    ],
)
def test_a_time_in_words(line: str, window: str | None) -> None:
    assert [one.fills.get("window") for one in find_times(line, NOW)] == (
        [window] if window else []
    )


@pytest.mark.parametrize(
    ("line", "window"),
    [
        ("what did we spend lst week", "last-week"),
        ("how much since tuesdy", "2026-11-17..2026-11-20"),
        ("who spent most in the lats 3 dyas", "3d"),
        ("spend by lst", None),
    ],
)
def test_a_slip_in_a_time_is_read_where_it_makes_one(line: str, window: str | None) -> None:
    windows = [
        sense.fills["window"] for sense in senses_of(line, Names(), NOW) if "window" in sense.fills
    ]
    assert windows == ([window] if window else [])


async def test_an_answer_to_plain_words_shows_how_they_were_read_and_is_else_the_same(
    bot: App,
) -> None:
    exact = await ask(bot, "idle")
    card = await ask(bot, "which nodes are doing nothing?")
    assert card.data["read_as"] == "idle"
    assert card.title == exact.title
    assert card.blocks[1 : len(exact.blocks) + 1] == exact.blocks


@in_one_run
@pytest.mark.parametrize(
    "line",
    sorted({example for each in commands_by_name() if not each.heavy for example in each.examples}),
)
async def test_a_line_of_the_grammar_is_never_read_otherwise(
    opened: OpenedSource, line: str
) -> None:
    """What its handler answers is what is shown, to the byte; what it refuses may be read as something else, and says so."""
    bot = app(opened, MemoryStore())
    request = Request(
        line, User("chat:U1", "dana"), end(bot), "chat", Belonging("", Standing.MEMBER)
    )
    try:
        _, card = await bot.run(request)
    except Exception as error:
        card = Card("That did not work", Tone.ERROR, data={"error": str(error)})
    answer = await app(opened, MemoryStore()).answer(request)
    if card.tone is not Tone.ERROR:
        assert answer == card
    else:
        assert "error" in answer.data or "read_as" in answer.data


async def test_plain_words_that_change_something_wait_for_a_press(bot: App) -> None:
    card = await ask(bot, "send me tiny alerts")
    assert card.title == "Shall this be done?"
    assert pressed(card)[0] == "subscribe cluster=tiny"
    assert bot.ports.stores.alerts.load(end(bot)).silences == ()


async def test_unsure_words_get_buttons_and_no_number(bot: App) -> None:
    card = await ask(bot, "nodes money")
    assert card.title == "Which of these do you mean?"
    assert len(pressed(card)) > 1
    assert "usd" not in repr(card.data)


async def test_a_stranger_learns_no_name_by_plain_words(bot: App) -> None:
    stranger = Belonging("T0OTHER", Standing.STRANGER)
    card = await bot.answer(
        Request("what does tinny cost", User("chat:U9", "x"), end(bot), "chat", stranger)
    )
    assert "tiny" not in repr(card)


async def test_who_may_not_do_it_may_not_in_plain_words(bot: App) -> None:
    assert "is for admins" in refused(await ask(bot, "is everything ok with the bot", "chat:U2"))


async def test_words_that_mean_nothing_are_refused_as_before(bot: App) -> None:
    assert (
        refused(await ask(bot, "xyzzy plugh"))
        == "'xyzzy' is not a command; type 'help' for all of them."
    )


async def test_a_slip_in_the_grammar_keeps_its_own_sentence(bot: App) -> None:
    assert "did you mean 'tiny'" in refused(await ask(bot, "alerts cluster=tinny"))


@pytest.mark.parametrize(
    ("last", "line", "wanted"),
    [
        ("cost 7d by team", "and by service?", "cost 7d by service"),
        ("cost 7d by team", "only last week", "cost last-week by team"),
        ("cost 7d by team", "why?", "why cost 7d"),
        ("cost by team cluster=llama", "why", "why cost cluster=llama"),
        ("cost 7d by team", "without llama", "cost 7d by team cluster!=llama"),
        ("cost mtd by team", "same for llama, last month", "cost last-month by team cluster=llama"),
        ("fleet", "what about llama?", "fleet llama"),
        ("alerts llama", "why?", "why llama"),
        ("goodput mtd", "and yesterday?", "goodput yesterday"),
        # What the last line cannot take, or says more, is read for itself.
        ("fleet", "only last week", ""),
        ("savings", "by team", ""),
        ("why llama", "and lab?", "why lab"),
        ("cost 7d by team", "only vision", "cost 7d by team team=vision"),
        ("goodput 7d", "as a flow", "goodput 7d chart=flow"),
        ("fleet", "only serving", "fleet serving"),
        ("cost 7d", "and the forecast?", ""),
        ("cost 7d", "is my cat fed", ""),
        ("cost 7d by team", "this month vs last month", ""),
        ("cost last-week", "how much is llama", ""),
    ],
)
def test_a_short_line_follows_up_the_last_one(last: str, line: str, wanted: str) -> None:
    assert followed(line, last, names(), NOON) == wanted


async def test_a_follow_up_is_of_its_person_and_place_and_says_how_it_was_read(bot: App) -> None:
    await ask(bot, "alerts tiny")
    card = await ask(bot, "only last week")
    assert card.data["read_as"] == "alerts tiny window=last-week"
    again = await ask(bot, "and last month?")
    assert again.data["read_as"] == "alerts tiny window=last-month"
    other = await ask(bot, "only last week", "chat:U9")
    assert "alerts" not in str(other.data.get("read_as", ""))


def test_ten_times_the_names_take_no_more_steps() -> None:
    line = "why did cluster-00017-train cost so much more last week?"
    few, many = (steps(line, clusters(count)) for count in (500, 5_000))
    assert many <= few * 1.1


def clusters(count: int) -> Names:
    """The names with so many clusters, of which the tables are made once."""
    named = tuple(f"cluster-{n:05d}-train" for n in range(count))
    made = replace(names(), kinds={**names().kinds, "cluster": named})
    read_plain("cost of cluster-00017-train", made, NOW)
    return made


def steps(line: str, names: Names) -> int:
    """Return how many functions are called until a line is read, those of Python among them."""
    called = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal called
        called += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        assert read_plain(line, names, NOW)
    finally:
        sys.setprofile(None)
    return called


def pressed(card: Card) -> list[str]:
    return [
        button.line
        for block in card.blocks
        if isinstance(block, Buttons)
        for button in block.buttons
        if type(button) is Button
    ]


async def test_why_of_a_cluster_without_an_alert_tells_how_it_stands(bot: App) -> None:
    card = await ask(bot, "why is tiny slow")
    assert card.data["read_as"] == "why tiny"
    assert "the bot sees nothing that holds it back" in repr(card.blocks)
    assert "No alert of the last 15 days is called or about 'nobody'" in refused(
        await ask(bot, "why nobody")
    )


async def test_a_question_for_one_number_is_answered_with_all_of_its_line(bot: App) -> None:
    card = await ask(bot, "how much did tiny cost this month?")
    whole = await ask(bot, "cost this-month cluster=tiny")
    assert card.title == whole.title
    assert card.blocks[1 : len(whole.blocks) + 1] == whole.blocks
    assert {**whole.data, "read_as": "cost this-month cluster=tiny"} == card.data


async def test_plain_words_that_begin_with_a_command_keep_its_sentence_and_offer_what_is_meant(
    bot: App,
) -> None:
    card = await ask(bot, "unsubscribe me")
    assert refused(card).startswith("'me' is one word too many")
    assert pressed(card) == ["unsubscribe"]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("audit trail for november please", ["config history", "act list"]),
        ("audit log of november", ["config history", "act list"]),
        ("audit trail", ["config history", "act list"]),
        ("show me the audit trail", ["config history", "act list"]),
        ("help why is our bill so high", ["why cost 7d level"]),
    ],
)
async def test_plain_words_that_begin_with_a_command_of_free_text_are_read_all_the_same(
    bot: App, line: str, offered: list[str]
) -> None:
    card = await ask(bot, line)
    assert [card.data.get("read_as"), *pressed(card)][bool(card.data.get("choices")) :][
        : len(offered)
    ] == offered


FREE_TEXT = [
    name
    for command in commands_by_name(hidden=True)
    if command.handler.__module__.startswith("bot.")
    and any(parameter.arg.rest for parameter in command.parameters)
    for name in (command.name, *command.aliases)
]


@pytest.mark.parametrize("name", FREE_TEXT)
async def test_no_command_of_free_text_takes_a_sentence(bot: App, name: str) -> None:
    card = await ask(bot, f"{name} fleet of november please")
    assert card.data["error"]


async def test_a_refused_answer_says_how_its_line_was_read_and_offers_the_next_readings(
    bot: App,
) -> None:
    card = await ask(bot, "cost change january vs february")
    assert card.tone is Tone.ERROR
    assert card.data["read_as"].startswith("why cost 2026-02")
    assert card.data["choices"] == pressed(card)
    assert pressed(card)


async def test_a_sentence_that_means_nothing_here_gets_no_suggestion_of_a_command(bot: App) -> None:
    sentence = refused(await ask(bot, "where is the canteen"))
    assert (
        sentence
        == "'where is the canteen' is not understood; say it in other words, or type 'help'."
    )


@pytest.mark.parametrize("hint", ["; did you mean 'llama'?", "."])
def test_a_name_that_is_nearly_right_is_asked_about_once(hint: str) -> None:
    error = WrongInput(f"No alert is about 'lama'{hint}")
    unsure = _choice("alert lama", PlainReading(("why llama", "fleet llama"), sure=False), error)
    assert str(unsure).lower().count("did you mean") == 1


async def test_one_reading_alone_is_no_choice_of_several(bot: App) -> None:
    card = await ask(bot, "teams ranked by spend")
    assert (card.title, pressed(card)) == ("Is this what you mean?", ["cost 7d team=ranked"])
    assert "more than one way" not in str(card.data["error"])


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("combien a coûté llama le mois dernier", "cost last-month cluster=llama"),
        ("quelle équipe dépense le plus", "cost 7d by team"),
        ("pourquoi llama est lent", "why llama"),
        ("cuánto gastamos la semana pasada", "cost last-week"),
        ("gasto de ayer por equipo", "cost yesterday by team"),
        ("先週の費用は", "cost last-week"),
        ("llama が遅いのはなぜ", "why llama"),
        ("was hat vision gestern gekostet", "cost yesterday cluster=vision"),
    ],
)
def test_other_languages_are_read_by_their_concepts(line: str, wanted: str) -> None:
    reading = read(line)
    assert reading
    assert (reading.sure, reading.line) == (True, wanted)


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("reopen the idea s1234abcd", "suggestions reopen s1234abcd"),
        ("we followed s1234abcd already", "suggestions done s1234abcd"),
        ("let m1b2c3d4e be heard again", "silences drop m1b2c3d4e"),
        ("m1b2c3d4e のミュートを解除", "silences drop m1b2c3d4e"),
        ("erase all that people taught you", "words forget all"),
        ("ich bin am vision-alarm dran", "ack vision"),
        ("50万ドルでいつまでもつ", "runway 500000"),
    ],
)
def test_a_thing_that_is_named_lifts_the_command_that_takes_it(line: str, first: str) -> None:
    reading = read(line)
    assert reading
    assert reading.line == first


@pytest.mark.parametrize(
    ("line", "english"),
    [
        ("70億パラメータ", "7b parameters"),
        ("1,200万ドル", "12 million ドル"),
        ("50万", "500k"),
        ("llama以外で", "without llama"),
        ("llamaの謎ノード", "llama 謎 nodes"),
    ],
)
def test_japanese_is_cut_where_a_script_ends_and_counts_in_myriads(line: str, english: str) -> None:
    assert normalized(line) == english


@pytest.mark.parametrize(
    "line", ["wie siehts aus", "どっか燃えてる？", "on pollue combien ici nous"]
)
def test_a_line_in_another_language_is_asked_back_before_it_is_a_dead_end(line: str) -> None:
    assert read(line)


@pytest.mark.parametrize("line", ["cost in la", "total cost por", "no budget de"])
def test_a_word_of_another_language_makes_no_line_of_it(line: str) -> None:
    assert normalized(line) == line


@pytest.mark.parametrize(
    ("line", "term"),
    [
        ("what is a NeuronCore?", "NeuronCore"),
        ("what does amortised cost mean", "amortised cost"),
        ("was ist efa", "EFA"),
        ("qu'est-ce qu'un checkpoint", "checkpoint"),
        ("trainiumとは", "Trainium"),
    ],
)
async def test_a_term_is_explained(bot: App, line: str, term: str) -> None:
    card = await ask(bot, line)
    assert card.title == term
    assert card.data["meaning"] in str(card.blocks)


def test_a_models_name_offers_a_run_of_that_model() -> None:
    made = Names({"run": ("bert-large-pt-1", "llama3-70b-wt-r1", "llama3-70b-wt-r3")})
    offered = read_plain("would twice the nodes make llama3-70b-wt faster", made, NOW)
    assert offered
    assert [line for line in offered.lines if "scaling" in line] == ["scaling llama3-70b-wt-r1"]


def test_examples_stand_as_a_line_is_compared() -> None:
    """As `masked` writes them: the model is counted from them as they are."""
    with PLAIN_LINES.open(encoding="utf-8") as file:
        examples = list(csv.DictReader(file))
    for row in examples:
        bare = re.sub(r"[{}]", "", row["text"])
        assert normalized(bare) == bare
    assert {row["command"] for row in examples} == set(load_offers())
    assert all(attempted(line) for lines in load_offers().values() for line in lines)


def test_every_command_that_is_asked_for_has_examples() -> None:
    typed_by_people = {made.name for made in commands_by_name(hidden=False)}
    assert typed_by_people - set(load_offers()) <= SELDOM


def test_a_learnt_line_decides_as_far_as_a_line_is_like_it() -> None:
    counts, learnt = load_counts(), (Example("gold nodes of the week", "idle"),)
    plain, ranker = Ranker(counts), Ranker(counts, learnt)
    share = {entry.command: entry.share for entry in ranker.rank("gold nodes of this week")}
    assert share["idle"] == max(share.values()) > 0.5
    assert sum(share.values()) == pytest.approx(1)
    assert ranker.rank("gold nodes of the week")[0] == ("idle", pytest.approx(1))
    assert ranker.rank("who is on call") == plain.rank("who is on call")
    assert ranker.knows("gold")
    assert not plain.knows("zzyzx")
    assert Ranker(counts, (Example("zzyzx", "idle"),)).rank("zzyzx")[0].command == "idle"


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("got it, investigating", "ack"),
        ("root cause?", "why"),
        ("explain 3fa9c21", "why 3fa9c21"),
        ("please check job.yaml before i start it", "preflight job.yaml"),
        ("what in train.py needs rewriting for neuron", "cuda train.py"),
    ],
)
def test_a_line_without_its_argument_offers_the_command_with_what_it_has(
    line: str, offered: str
) -> None:
    reading = read(line)
    assert reading
    assert reading.line == offered


class Chooses:
    """Stand in for a customer's model: it chooses the line with a word in it, and keeps what it was asked."""

    name = "a-model"

    def __init__(self, word: str) -> None:
        self.word, self.asked = word, [("", [""])]

    def choose(self, words: str, lines: Sequence[tuple[str, str]]) -> str:
        self.asked.append((words, [line for line, _ in lines]))
        return next((line for line, _ in lines if self.word and self.word in line), "")


async def reading_with(bot: App, reader: Chooses, line: str) -> Card:
    ports = replace(bot.ports, world=replace(bot.ports.world, reader=reader))
    return await ask(App(ports, ports.site.channels, Access((ADMIN,)), time.monotonic), line)


async def test_a_model_of_the_customer_chooses_where_plain_words_are_unclear(bot: App) -> None:
    reader = Chooses("about")
    card = await reading_with(bot, reader, "nodes money")
    assert card.data["read_as"] == "about"
    assert "by a-model." in str(card.blocks[0])
    words, lines = reader.asked[-1]
    assert words == "nodes money"
    assert {"about", "fleet", "cost 7d"} <= set(lines)

    undecided = await reading_with(bot, Chooses(""), "nodes money")
    assert undecided == await ask(bot, "nodes money")


async def test_a_model_of_the_customer_changes_nothing_and_sees_no_clear_line(bot: App) -> None:
    reader = Chooses("unsubscribe digest")
    card = await reading_with(bot, reader, "nodes money")
    assert card.title == "Shall this be done?"
    precise = ("cost 7d", "cost 7d by=sausage", "cost 7d by team,sausage")
    for line in (*precise, "what did we spend last week"):
        await reading_with(bot, asked := Chooses("about"), line)
        assert asked.asked[1:] == []


async def test_two_questions_in_a_line_have_a_button_each(bot: App) -> None:
    card = await ask(bot, "what is the eta of llama-70b and are we still on budget")
    assert card.title == "Two questions"
    assert pressed(card)[:2] == ["runs", "forecast"]
    reading = read("cost by team and by cluster")
    assert reading
    assert reading.sure


async def test_what_is_pressed_after_a_line_is_learnt_and_can_be_forgotten(bot: App) -> None:
    unclear = "nodes money"
    offered = pressed(await ask(bot, unclear))
    assert len(offered) > 1

    await ask(bot, offered[-1])
    learnt = (await ask(bot, "words")).data["lines"]
    assert learnt == [{"text": unclear, "command": understand(offered[-1], NOW).command.name}]
    assert (await ask(bot, unclear)).data["read_as"] == offered[-1]

    assert "was not learned" in refused(await ask(bot, "words forget what should i knew"))
    await ask(bot, "words forget all")
    assert (await ask(bot, "words")).data["lines"] == []

    refusal = refused(await ask(bot, "words forget it"))
    assert refusal == "'it' was not learned; 'words' lists those that were."


async def test_what_somebody_else_asks_or_asks_later_is_not_learnt(bot: App) -> None:
    unclear = "nodes money"
    offered = pressed(await ask(bot, unclear))
    await ask(bot, "about")
    await ask(bot, offered[-1])
    assert (await ask(bot, "words")).data["lines"] == []
