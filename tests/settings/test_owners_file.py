"""The mapping of owners as a file: every mistake by its line, read again when it changes, and kept while it is broken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bot.errors import WrongInput
from bot.model.route import OwnerMap
from bot.settings.routes import OwnersFile, read_mapping, read_text, tables_as_text

RULE = '[[owner]]\nname = "dana"\ncluster = "llama"\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[owner]\n", "The mapping of owners 'owners.toml' is not TOML: "),
        (
            '[[owner]]\ncluster = "llama"\n',
            'owners.toml, line 1: it names no owner; write name = "dana".',
        ),
        (
            f'{RULE}\n[[owner]]\nname = "kim"\n',
            'owners.toml, line 5: it says nothing of what kim has; write cluster = "llama-*".',
        ),
        (
            f'{RULE}clutser = "x"\n',
            "owners.toml, line 4: 'clutser' is nothing to own by; did you mean 'cluster'? A tag"
            ' is written "tag:KEY".',
        ),
        (
            f'{RULE}"tag:team" = "x"\n"label:" = "x"\n',
            "owners.toml, line 5: 'label:' is nothing to own by",
        ),
        (f"{RULE}region = 3\n", "owners.toml, line 4: region takes a text or a list of texts."),
        (
            f'{RULE}person = "dana"\n',
            "owners.toml, line 4: person: 'dana' names no platform; write it like slack:U01DANA.",
        ),
        (
            f'{RULE}channel = "#fin"\n',
            "owners.toml, line 4: channel: '#fin' names no platform; write it like slack:C0LLAMA.",
        ),
        (
            f"{RULE}\n{RULE.replace('dana', 'kim')}",
            "owners.toml, line 5: line 1 has the same patterns already, and the first that fits"
            " counts; remove one.",
        ),
        (
            '[[owners]]\nname = "dana"\n',
            "owners.toml, line 1: 'owners' is not a table of this file; did you mean 'owner'? Write"
            " [[owner]]",
        ),
        ('owner = "dana"\n', "owners.toml, line 1: 'owner' is a list of tables; write [[owner]]."),
    ],
)
def test_a_mistake_is_one_sentence_with_its_line(text: str, sentence: str) -> None:
    with pytest.raises(WrongInput, match=re.escape(sentence)):
        read_mapping(text, "owners.toml")


def test_every_mistake_is_named_at_once() -> None:
    with pytest.raises(WrongInput, match=r"line 1: .*line 5: .*line 7: "):
        read_mapping(
            '[[owner]]\ncluster = "x"\n\n[[owner]]\nclutser = "y"\nname = "kim"\nperson = "kim"\n',
            "owners.toml",
        )


def test_people_and_channels_of_one_owner_add_up() -> None:
    text = f'{RULE}person = "slack:U1"\n[[owner]]\nname = "Dana"\nnamespace = "nlp"\nperson = ["teams:29:1d"]\nchannel = "slack:C1"\n'
    found = read_mapping(text, "owners.toml")
    assert (found.people, found.channels) == (
        {"dana": ("slack:U1", "teams:29:1d")},
        {"dana": ("slack:C1",)},
    )


def test_a_file_is_read_anew_when_it_changes_and_a_broken_version_leaves_the_one_before(
    tmp_path: Path,
) -> None:
    path = tmp_path / "owners.toml"
    path.write_text(RULE)
    owners = OwnersFile(str(path))
    assert [rule.owner for rule in owners().rules] == ["dana"]
    path.write_text(RULE.replace("dana", "kim"))
    assert [rule.owner for rule in owners().rules] == ["kim"]
    path.write_text("[[owner]]\n")
    assert [rule.owner for rule in owners().rules] == ["kim"]
    assert owners.problem.endswith("Until it is fixed its last sound version is in force.")
    assert owners.problem.startswith("owners.toml, line 1: ")
    path.unlink()
    assert [rule.owner for rule in owners().rules] == ["kim"]
    assert "cannot be read" in owners.problem
    path.write_text(RULE)
    assert ([rule.owner for rule in owners().rules], owners.problem) == (["dana"], "")


def test_a_file_that_is_broken_from_the_start_says_so_and_stops_nothing(tmp_path: Path) -> None:
    owners = OwnersFile(str(tmp_path / "missing.toml"))
    assert owners() == OwnerMap()
    assert owners.problem.endswith("Until it is fixed nobody is an owner by it.")
    assert (OwnersFile("")(), OwnersFile("").problem) == (OwnerMap(), "")


def test_a_file_is_read_whole_up_to_its_limit_and_refused_beyond(tmp_path: Path) -> None:
    file = tmp_path / "owners.toml"
    file.write_text("#" * 10)
    assert read_text(file, "The file", 10) == "#" * 10
    with pytest.raises(WrongInput, match="has over 9 bytes"):
        read_text(file, "The file", 9)


def test_routes_that_are_no_tables_are_left_as_they_are_written() -> None:
    routes = [{"team": "nlp", "to": ["slack:C1", "slack:C2"]}, "team=nlp -> slack:C1"]
    assert tables_as_text({"routes": routes})["routes"] == routes
    assert tables_as_text({"routes": routes[:1]})["routes"] == "team=nlp -> slack:C1, slack:C2"
