from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.cards.lines import form_line, quote
from bot.errors import WrongInput
from bot.grammar import line, registry
from bot.grammar.line import filter_of, split, understand
from bot.grammar.registry import Needs, arg, command
from bot.model.request import Request
from bot.model.spend import Filter
from bot.model.window import Window
from bot.ports import Ports

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
WEEK = Window(NOW - timedelta(days=7), NOW)
PRODUCT = dict(registry.COMMANDS)


@command("probe", "A command for these tests.", needs=Needs.BILL, examples=("probe 7d by team",))
async def probe(
    ports: Ports,
    request: Request,
    window: Window = arg("7d", "which days"),
    by: tuple[str, ...] = arg("instance_type", "grouped by", keyword=True),
    where: tuple[Filter, ...] = arg("", "only these"),
    most: int | None = arg("", "how many", keyword=True),
    least_usd: Decimal = arg("0", "smallest amount", keyword=True),
    shape: str = arg("flat", "how", keyword=True, choices=("flat", "tree")),
) -> Any: ...


@command("note down", "Takes text.", needs=Needs.STATE, examples=("note down a1 as it comes",))
async def note_down(
    ports: Ports,
    request: Request,
    name: str = arg(None, "its id"),
    words: str = arg("", "text", rest=True),
) -> Any: ...


OURS = {word: made for word, made in registry.COMMANDS.items() if word not in PRODUCT}
for word in OURS:
    del registry.COMMANDS[word]


@pytest.fixture(autouse=True, scope="module")
def known() -> Iterator[None]:
    """Know these commands here alone: elsewhere they would be the product's."""
    registry.COMMANDS.update(OURS)
    yield
    for word in OURS:
        del registry.COMMANDS[word]


def read(text: str) -> dict[str, Any]:
    return understand(text, NOW).arguments


@pytest.mark.parametrize(
    "text",
    [
        "probe 7d by team",
        "probe window=7d by=team",
        "probe 7d --by team",
        "/trn probe --by=team 7d",
        "PROBE by team 7d",
        'probe "7d" by "team"',
    ],
)
def test_one_meaning_many_ways_to_write_it(text: str) -> None:
    assert (read(text)["window"], read(text)["by"]) == (WEEK, ("team",))


def test_what_is_left_out_has_its_default() -> None:
    assert read("probe") == {
        "window": WEEK,
        "by": ("instance_type",),
        "where": (),
        "most": None,
        "least_usd": Decimal(0),
        "shape": "flat",
    }


def test_filters_are_what_names_no_argument() -> None:
    found = read('probe team=a,b service!=AmazonS3 tag:owner="dana x" most=3')
    assert found["where"] == (
        Filter("team", ("a", "b")),
        Filter("service", ("AmazonS3",), True),
        Filter("tag:owner", ("dana x",)),
    )
    assert found["most"] == 3


def test_an_argument_is_never_set_by_what_excludes_a_value() -> None:
    found = read("probe most!=3 by!=team")
    assert (found["most"], found["by"]) == (None, ("instance_type",))
    assert found["where"] == (Filter("most", ("3",), True), Filter("by", ("team",), True))
    assert read("note down name!=a1")["name"] == "name!=a1"


@pytest.mark.parametrize(
    ("text", "negated", "values"),
    [
        ("team=search", False, ("search",)),
        ("team!=search", True, ("search",)),
        ("--team!=search, ads", True, ("search", "ads")),
        ("team=a!=b", False, ("a!=b",)),
        ("team!=", True, ("",)),
    ],
)
def test_a_filter_excludes_by_an_exclamation_mark_alone(
    text: str, negated: bool, values: tuple[str, ...]
) -> None:
    assert filter_of(text) == Filter("team", values, negated)


def test_a_comma_goes_on_with_the_next_word() -> None:
    assert read("probe by team, cluster 24h") | {"where": ()} == read("probe 24h by=team,cluster")
    assert read("probe by team, cluster, job 24h")["by"] == ("team", "cluster", "job")
    assert read("probe 24h by team,")["by"] == ("team",)


def test_a_name_may_have_two_words_and_rest_takes_all() -> None:
    assert read("note down a1 on leave by = team") == {"name": "a1", "words": "on leave by = team"}


@pytest.mark.parametrize("text", ["note down a1", "/trn note down a1", "Note Down a1"])
def test_the_longest_name_is_meant(text: str) -> None:
    assert understand(text, NOW).command.name == "note down"
    assert registry.find_command(["config", "set", "idle.below"])[0].name == "config set"
    assert registry.find_command(["config", "idle"])[0].name == "config"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("prbe", "'prbe' is not a command; did you mean 'probe'?"),
        ("probe 7x", "'7x' is not a window; write one of 7d"),
        ("probe 7d 8d", "'8d' is one word too many; 'probe' takes window"),
        ("probe by", "'by' needs a value after it"),
        ("probe by=a by=b", "'by' is given twice"),
        ("probe most=three", "'three' is not a number for most"),
        ("probe most=2.5", "'2.5' is not a whole number for most"),
        ("probe least_usd=nan", "'nan' is not a number for least_usd"),
        ("probe least_usd=-infinity", "'-infinity' is not a number for least_usd"),
        ("probe shape=round", "'round' does not fit shape; known: flat, tree"),
        ("probe shape=flt", "did you mean 'flat'?"),
        ("probe --bye team", "'probe' has no option '--bye'; did you mean 'by'?"),
        ("note down", "'note down' needs its id, for example 'note down a1 as it comes'."),
        ("note down nme=a1", "'note down' has no argument 'nme'; did you mean 'name'?"),
        ('probe "7d', "A quote is open"),
        ("probe 0d", "is an empty window"),
        ("probe 2026-11-07..2026-11-01", "ends (2026-11-02 00:00) before it starts"),
        ("probe " + "x" * 4000, "keep it under 3000"),
    ],
)
def test_what_is_wrong_is_said_with_the_nearest_right_form(text: str, sentence: str) -> None:
    with pytest.raises(WrongInput) as raised:
        understand(text, NOW)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


@given(st.text(max_size=200))
def test_any_text_is_understood_or_refused_in_one_sentence(text: str) -> None:
    for candidate in (text, f"probe {text}", f"note down {text}"):
        try:
            understand(candidate, NOW)
        except WrongInput as error:
            assert len(str(error)) < 1_000


@given(st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=80))
def test_a_form_field_comes_back_as_it_was_filled(value: str) -> None:
    assert read(form_line("note down", {"name": value}))["name"] == value
    assert [word.text for word in split(quote(value))] == [value]


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "tag:x"]),
        st.lists(st.text("xyz-", min_size=1), min_size=1, max_size=3),
        max_size=3,
    )
)
def test_filters_round_trip(filters: dict[str, list[str]]) -> None:
    text = " ".join(
        ["probe", *(str(Filter(name, tuple(values))) for name, values in filters.items())]
    )
    assert read(text)["where"] == tuple(
        Filter(name, tuple(values)) for name, values in filters.items()
    )


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ('/trn note down a1 "as it\n comes"', 'a1 "as it\n comes"'),
        ("'note' \"down\" note down", "note down"),
        ('share "no\\te down" a1', "a1"),
        ("note down", ""),
    ],
)
def test_what_follows_a_command_is_kept_as_it_was_typed(text: str, rest: str) -> None:
    assert line.read_line(text).rest == rest


def test_no_two_commands_share_a_name() -> None:
    with pytest.raises(ValueError, match="two commands"):
        registry.command("probe", "again", needs=Needs.NOTHING)(probe)
    assert line.LONGEST < 5_000
