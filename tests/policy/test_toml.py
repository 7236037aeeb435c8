"""TOML that is made to cost more than it says ends in one sentence that names the limit."""

from __future__ import annotations

import time

import pytest

from bot.errors import WrongInput
from bot.policy.file import read_policy
from bot.settings.settings import read_settings

HOSTILE = {
    "lists": ("a = " + "[" * 2_000 + "]" * 2_000, "nested deeper than 16"),
    "open lists": ("a = " + "[" * 20_000, "nested deeper than 16"),
    "inline tables": ("a = " + "{a = " * 2_000 + "1" + "}" * 2_000, "nested deeper than 16"),
    "dotted key": ("a" + ".a" * 30_000 + " = 1", "has a line with 30,000 dots; keep it under 500"),
    "short dotted key": ("a" + ".a" * 400 + " = 1", "nested deeper than 16"),
    "table name": ("[a" + ".a" * 400 + "]\nx = 1", "nested deeper than 16"),
    "digits": ("[idle]\nbelow = " + "9" * 5_000, "a whole number of more than 63 bits"),
    "hexadecimal": ("[idle]\nbelow = 0x" + "f" * 5_000, "a whole number of more than 63 bits"),
    "digits in a list": ("a = [[0x" + "f" * 5_000 + "]]", "a whole number of more than 63 bits"),
    "size": ("#" * 300_000, "bytes; keep it under"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_deep_toml_of_a_policy_ends_in_one_sentence(name: str) -> None:
    text, says = HOSTILE[name]
    began = time.process_time()
    with pytest.raises(WrongInput, match=r"^The policy ") as refused:
        read_policy(text)
    assert time.process_time() - began < 1
    assert says in str(refused.value)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("name", HOSTILE)
def test_deep_toml_of_the_settings_ends_in_one_sentence(name: str) -> None:
    text, says = HOSTILE[name]
    began = time.process_time()
    with pytest.raises(WrongInput, match=r"^The settings file ") as refused:
        read_settings({}, text)
    assert time.process_time() - began < 1
    assert says in str(refused.value)


def test_very_many_mistakes_are_not_all_looked_up() -> None:
    began = time.process_time()
    with pytest.raises(WrongInput, match=r"What follows was not read\.$") as refused:
        read_policy("\n".join(f"k{n} = 1" for n in range(6_000)))
    assert time.process_time() - began < 2
    assert len(str(refused.value)) < 4_000
