from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bot.errors import WrongInput
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.policy.file import (
    applied,
    canonical,
    edits,
    read_changes,
    read_policy,
    replaced,
    stacked,
    write_policy,
)
from bot.policy.schema import SETTINGS, SettingUnit, default_policy

EVERYWHERE, LLAMA, SEARCH = Labels(), Labels(cluster="llama"), Labels(team="search")
BASE = default_policy()


def texts(key):
    """Return a strategy of texts that a person may write for a setting."""
    setting = SETTINGS[key]
    if setting.unit is SettingUnit.SWITCH:
        return st.sampled_from(["on", "off", "yes", "false"])
    if setting.unit is SettingUnit.WORD:
        return st.sampled_from(["off", "22:00-07:00 Europe/Berlin"])
    if setting.unit is SettingUnit.DURATION:
        return st.integers(
            max(1, int(setting.low // 60)), min(10_000, int(setting.high // 60))
        ).map(lambda n: f"{n}m")
    places = 0 if setting.unit is SettingUnit.COUNT else 4
    number = st.decimals(
        Decimal(str(setting.low)), Decimal(str(min(setting.high, 10**6))), places=places
    )
    return (
        number.map(lambda n: f"{n * 100:f}%")
        if setting.unit is SettingUnit.RATIO
        else number.map(lambda n: f"{n:f}")
    )


@st.composite
def changes(draw, scopes=(EVERYWHERE, LLAMA, SEARCH)):
    scope = draw(st.sampled_from(scopes))
    fitting = [key for key, setting in SETTINGS.items() if setting.scoped or not str(scope)]
    keys = draw(st.lists(st.sampled_from(fitting), min_size=1, max_size=3, unique=True))
    return read_changes([(key, draw(texts(key))) for key in keys], scope)


def test_a_change_holds_in_its_scope_alone():
    policy = applied(BASE, read_changes([("idle.below", "15%"), ("idle.for", "45m")], LLAMA))
    there, elsewhere = (
        policy.at(Labels(cluster="llama", team="x")),
        policy.at(Labels(cluster="other")),
    )
    assert (there.number("idle.below"), there.duration("idle.for")) == (0.15, timedelta(minutes=45))
    assert (elsewhere.number("idle.below"), policy.number("idle.below")) == (0.05, 0.05)


def test_the_narrower_scope_wins_whatever_came_last():
    both = stacked(
        read_changes([("idle.below", "15%")], LLAMA),
        read_changes([("idle.below", "2%")], EVERYWHERE),
    )
    policy = applied(BASE, both)
    assert (policy.at(LLAMA).number("idle.below"), policy.at(SEARCH).number("idle.below")) == (
        0.15,
        0.02,
    )
    here = Labels(cluster="llama", team="search")
    narrow, wide = (
        read_changes([("idle.below", text)], at) for text, at in (("1%", here), ("3%", LLAMA))
    )
    for order in (stacked(narrow, wide), stacked(wide, narrow)):
        assert applied(BASE, order).at(here).number("idle.below") == 0.01


def test_a_change_wins_over_the_settings_file_where_neither_scope_is_narrower():
    file = Policy(BASE.values, ((SEARCH, "idle.below", 0.01),))
    policy = applied(file, read_changes([("idle.below", "2%")], LLAMA))
    assert policy.at(Labels(cluster="llama", team="search")).number("idle.below") == 0.02


def test_of_equal_scopes_the_newest_change_wins():
    first = stacked(
        read_changes([("idle.below", "1%")], SEARCH), read_changes([("idle.below", "2%")], LLAMA)
    )
    here = Labels(cluster="llama", team="search")
    assert applied(BASE, first).at(here).number("idle.below") == 0.02
    again = stacked(first, read_changes([("idle.below", "3%")], SEARCH))
    assert applied(BASE, again).at(here).number("idle.below") == 0.03


def test_a_stored_change_lies_over_the_settings_file_and_default_takes_it_back():
    base = read_policy('[[override]]\ncluster = "llama"\n"idle.below" = "7%"')
    stored = read_changes([("idle.below", "15%")], LLAMA)
    assert applied(base, stored).at(LLAMA).number("idle.below") == 0.15
    assert applied(base, stacked(stored, read_changes([("idle.below", "default")], LLAMA))) == base


def test_a_fraction_of_a_count_that_an_earlier_version_stored_is_read_as_before():
    stored = [(EVERYWHERE, "alert.most_per_week", "1.84"), (LLAMA, "compiling.nodes", "2.5")]
    policy = applied(BASE, stored)
    assert policy.number("alert.most_per_week") == 1.84
    assert policy.at(LLAMA).number("compiling.nodes") == 2.5


def test_edits_say_what_differs_and_nothing_else():
    stored = read_changes([("idle.below", "15%"), ("idle.for", "30m")], LLAMA)
    (edit,) = edits(BASE, applied(BASE, stored), stored)
    assert (edit.scope, edit.key, edit.before, edit.after) == (LLAMA, "idle.below", "5%", "15%")


@pytest.mark.parametrize(
    ("pairs", "scope", "words"),
    [
        (
            [("idle.bellow", "15%")],
            EVERYWHERE,
            "'idle.bellow' is not a setting; did you mean 'idle.below'",
        ),
        (
            [("idle.below", "15")],
            EVERYWHERE,
            "idle.below lies between 0% and 50%; got '15'; for percent write 15%.",
        ),
        ([("idle.below", "70%")], EVERYWHERE, "idle.below lies between 0% and 50%; got '70%'"),
        ([("idle.for", "soon")], EVERYWHERE, "idle.for: 'soon' is not a length of time; write 30m"),
        ([("idle.on", "maybe")], EVERYWHERE, "idle.on is on or off; got 'maybe'"),
        ([("idle.below", "")], EVERYWHERE, "'' is not a value of idle.below; write it like 5%"),
        ([("idle.below", "nan")], EVERYWHERE, "'nan' is not a value of idle.below"),
        (
            [("alert.usual_days", "7")],
            LLAMA,
            "alert.usual_days applies to everything at once; leave out cluster=llama",
        ),
        (
            [("alert.most_per_week", "0.5")],
            EVERYWHERE,
            r"^alert.most_per_week is a whole number, such as 1; got '0\.5'\.$",
        ),
        ([("compiling.nodes", "4.4")], LLAMA, "compiling.nodes is a whole number, such as 4;"),
        ([("idle.below", "5%"), ("idle.below", "6%")], EVERYWHERE, "idle.below is given twice"),
    ],
)
def test_a_wrong_value_names_the_bound_or_the_nearest_key(pairs, scope, words):
    with pytest.raises(WrongInput, match=words.replace("?", r"\?")):
        read_changes(pairs, scope)


def test_every_mistake_of_a_message_is_told_at_once():
    with pytest.raises(WrongInput) as caught:
        read_changes([("idle.below", "70%"), ("no_data.for", "1m"), ("idle.for", "45m")], LLAMA)
    assert "idle.below lies between" in str(caught.value)
    assert "no_data.for lies between 5m and 1d" in str(caught.value)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_what_is_stored_reads_back_the_same(data):
    key = data.draw(st.sampled_from(sorted(SETTINGS)))
    try:
        stored = canonical(key, data.draw(texts(key)))
    except WrongInput:
        assume(False)
    assert canonical(key, stored) == stored
    assert SETTINGS[key].show(SETTINGS[key].parse(stored)) == stored


@settings(max_examples=100, deadline=None)
@given(changes(), changes(), changes())
def test_an_imported_export_is_the_same_policy(first, second, in_file):
    base = applied(BASE, in_file)
    wanted = applied(base, stacked(first, second))
    again = read_policy(write_policy(wanted))
    imported = applied(base, replaced(base, again))
    places = [Labels(cluster=c, team=t) for c in ("", "llama") for t in ("", "search")]
    assert [imported.at(p).values for p in places] == [wanted.at(p).values for p in places]


@settings(max_examples=50, deadline=None)
@given(changes())
def test_only_what_differs_is_exported_on_request(stored):
    policy = applied(BASE, stored)
    assert read_policy(write_policy(policy, every=False)) == Policy(policy.values, policy.overrides)
    assert write_policy(BASE, every=False).strip() == ""


def test_a_setting_of_another_version_waits():
    assert applied(BASE, [(EVERYWHERE, "idle.colour", "blue")]) == BASE
