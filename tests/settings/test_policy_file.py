from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.errors import WrongInput
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.policy.file import read_policy, write_policy
from bot.policy.schema import SETTINGS, SettingUnit, default_policy

EXAMPLE = """
[idle]
below = "7%"
for = "45m"
on = false

[alert]
least_usd_per_hour = "$2.50"

[[override]]
cluster = "llama"
"idle.below" = "15%"
idle.for = "2h"
"""


def test_a_file_changes_what_it_says_and_nothing_else():
    policy = read_policy(EXAMPLE)
    assert policy.number("idle.below") == pytest.approx(0.07)
    assert policy.duration("idle.for") == timedelta(minutes=45)
    assert policy.usd("alert.least_usd_per_hour") == Decimal("2.50")
    assert not policy.on("idle.on")
    assert policy.duration("no_data.for") == default_policy().duration("no_data.for")


def test_an_override_applies_within_its_scope():
    there = read_policy(EXAMPLE).at(Labels(cluster="llama", team="x"))
    assert (there.number("idle.below"), there.duration("idle.for")) == (0.15, timedelta(hours=2))
    assert read_policy(EXAMPLE).at(Labels(cluster="other")).number("idle.below") == pytest.approx(
        0.07
    )


def test_a_settings_file_is_read_by_its_policy_table():
    assert read_policy('source = "aws"\n[policy.idle]\nbelow = "7%"').number(
        "idle.below"
    ) == pytest.approx(0.07)


def test_an_empty_file_is_the_default():
    assert read_policy("") == default_policy()


def test_every_default_is_written_with_its_meaning_and_read_back():
    written = write_policy(default_policy())
    assert read_policy(written) == default_policy()
    assert all(setting.meaning in written for setting in SETTINGS.values())


VALUES = {
    SettingUnit.SWITCH: st.booleans(),
    SettingUnit.RATIO: st.integers(0, 50).map(lambda n: n / 100),
    SettingUnit.NUMBER: st.integers(1, 100).map(float),
    SettingUnit.DURATION: st.integers(1, 10**4).map(lambda n: timedelta(minutes=n)),
    SettingUnit.USD: st.integers(0, 10**6).map(lambda n: Decimal(n) / 100),
}
OVERRIDE = st.tuples(
    st.builds(Labels, cluster=st.text(min_size=1, max_size=5)),
    st.sampled_from(["idle.on", "idle.below", "no_data.on"]),
).flatmap(lambda o: VALUES[SETTINGS[o[1]].unit].map(lambda value: (*o, value)))


@settings(max_examples=60, deadline=None)
@given(st.lists(OVERRIDE, max_size=4, unique_by=lambda o: (o[0], o[1])))
def test_any_scope_survives_the_file(overrides):
    overrides.sort(key=lambda o: o[0])
    policy = Policy(default_policy().values, tuple(overrides))
    again = read_policy(write_policy(policy))
    assert again.overrides == policy.overrides


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("idle below", "The policy is not TOML: .*line 1"),
        ("[idle]\nbellow = 5", "'idle.bellow' is not a setting; did you mean 'idle.below'"),
        ("[idle]\nbelow = '70%'", "idle.below lies between 0% and 50%; got '70%'"),
        ("[idle]\nfor = 30", "idle.for: '30' is not a length of time; write 30m"),
        ("[alert]\nmost_per_week = 2.5", "most_per_week is a whole number, such as 3; got '2.5'"),
        ("[idle]\nbelow = ['5%']", "idle.below takes one value"),
        ("idle = 5", "'idle' is not a setting"),
        ("override = 5", r"write \[\[override\]\]"),
        ("[[override]]\n'idle.below' = '5%'", "Override 1: it names no scope"),
        ("[[override]]\ncluster = 'x'", "Override 1: it changes nothing"),
        (
            "[[override]]\nclutser = 'x'\n'idle.below' = '5%'",
            "Override 1: 'clutser' is not a scope; did you mean 'cluster'",
        ),
        ("[[override]]\ncluster = ''\n'idle.below' = '5%'", "'cluster' is not a scope"),
    ],
)
def test_a_mistake_is_named(text, words):
    with pytest.raises(WrongInput, match=words):
        read_policy(text)


def test_every_mistake_is_told_at_once():
    with pytest.raises(WrongInput) as caught:
        read_policy(
            "[idle]\nbellow = 5\nfor = 'soon'\n[[override]]\ncluster = 'x'\n'no_data.four' = '5m'"
        )
    assert all(
        word in str(caught.value)
        for word in ("idle.bellow", "idle.for", "Override 1: 'no_data.four'")
    )
