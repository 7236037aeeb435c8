"""Whom an alert belongs to: a tag before a label of Kubernetes before the mapping file, and who is notified of it then."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot.cards.alert import Reach, notification_card
from bot.model.alert import Alert, OwnerBy
from bot.model.anomaly import Detection
from bot.model.causes import Cause
from bot.model.codec import decode, encode
from bot.model.fleet import Volume
from bot.model.labels import Labels
from bot.model.notification import Notification, Reason, State
from bot.model.reading import Reading
from bot.model.route import OwnerMap, OwnerRule, Routes
from bot.policy.schema import default_policy
from bot.settings.routes import read_mapping, read_routes
from bot.watch.notify import route, with_owner
from bot.watch.tick import Rules, step
from tests.builders import FIVE, NOON, alert, anomaly, reading

FILE = """
[[owner]]
name = "dana"
cluster = ["llama-*", "llama"]
node_group = "trn*"
person = "slack:U01DANA"

[[owner]]
name = "Lee"
"tag:cost-center" = "47*"
channel = "slack:CLEE"

[[owner]]
name = "kim"
"label:example.com/squad" = "speech"

[[owner]]
name = "frontier"
cluster = "*"
namespace = "nlp-*"
"""
MAPPING = read_mapping(FILE, "owners.toml")


def seen(at: Any = NOON, n: int = 4, **parts: Any) -> Reading:
    """Return a reading whose nodes all have these parts."""
    found = reading(at, n)
    nodes = {name: replace(one, **parts) for name, one in found.inventory.instances.items()}
    return replace(found, inventory=replace(found.inventory, instances=nodes))


@pytest.mark.parametrize(
    ("sentence", "parts", "owner", "by"),
    [
        (
            "an owner tag wins",
            {"owner": "tag", "labelled_owner": "label", "node_group": "trn2"},
            "tag",
            OwnerBy.TAG,
        ),
        (
            "a label of Kubernetes is asked next",
            {"labelled_owner": "label", "node_group": "trn2"},
            "label",
            OwnerBy.LABEL,
        ),
        (
            "the file is asked last: cluster and node group",
            {"node_group": "trn2"},
            "dana",
            OwnerBy.FILE,
        ),
        ("every pattern must fit", {"node_group": "cpu"}, "", OwnerBy.TAG),
        ("a tag is a pattern too", {"tags": {"cost-center": "4711"}}, "Lee", OwnerBy.FILE),
        (
            "and so is a label",
            {"node_labels": {"example.com/squad": "speech"}},
            "kim",
            OwnerBy.FILE,
        ),
        (
            "the first rule that fits counts",
            {"node_group": "trn", "tags": {"cost-center": "47"}},
            "dana",
            OwnerBy.FILE,
        ),
        ("what nobody has, nobody owns", {}, "", OwnerBy.TAG),
    ],
)
def test_whose_an_alert_is(sentence: str, parts: dict[str, Any], owner: str, by: OwnerBy) -> None:
    found = with_owner(alert(), seen(**parts), MAPPING)
    assert (found.owner, found.owner_by) == (owner, by), sentence


def test_a_namespace_is_mapped_where_only_the_alert_tells_it() -> None:
    found = alert(anomaly(labels=anomaly().labels.merge(Labels(namespace="nlp-1"))))
    assert with_owner(found, seen(), MAPPING).owner == "frontier"


def test_most_of_the_things_decide() -> None:
    found = seen(tags={"cost-center": "47"})
    first = next(iter(found.inventory.instances))
    other = {first: replace(found.inventory.instances[first], tags={}, node_group="trn")}
    mixed = replace(
        found, inventory=replace(found.inventory, instances=found.inventory.instances | other)
    )
    assert with_owner(alert(), mixed, MAPPING).owner == "Lee"


def test_most_things_decide_then_the_alphabet_and_a_rule_for_nobody_takes_no_part() -> None:
    rules = [OwnerRule(name, (("team", (name or "none",)),)) for name in ("", "a", "b")]
    known = OwnerMap(tuple(rules))

    def owner(*teams: str) -> str:
        return known.owner({"team": team} for team in teams)

    assert owner("none", "none", "none", "b") == "b"
    assert owner("b", "a") == owner("a", "b") == "a"
    assert owner("b", "b", "a") == "b"
    assert owner("none") == owner("unknown") == ""


def test_an_orphaned_volume_is_its_tagged_owners_else_the_mappings() -> None:
    found = alert(anomaly(Cause.ORPHANED_STORAGE, things=("vol-1",), kind="volume"))
    volume = Volume(
        Labels(resource="vol-1"),
        500,
        "gp3",
        "available",
        NOON - timedelta(days=9),
        tags={"cost-center": "47"},
    )
    stored = [replace(volume, owner=owner) for owner in ("dana", "")]
    readings = [
        replace(seen(), inventory=replace(seen().inventory, volumes=(one,))) for one in stored
    ]
    assert [with_owner(found, one, MAPPING).owner for one in readings] == ["dana", "Lee"]


def test_a_changed_mapping_changes_the_owner_that_it_named_and_no_other() -> None:
    by_file = replace(alert(), owner="dana", owner_by=OwnerBy.FILE)
    other = OwnerMap((OwnerRule("sam", (("cluster", ("llama",)),)),))
    assert with_owner(by_file, seen(), other).owner == "sam"
    assert with_owner(by_file, seen(), OwnerMap()) == alert()
    assert with_owner(replace(alert(), owner="dana"), seen(), other).owner == "dana"
    assert with_owner(by_file, seen(NOON + FIVE), other) == by_file, (
        "what is not seen now keeps its owner"
    )


def test_a_tick_owns_what_it_opens() -> None:
    rules = Rules(default_policy(), ("web:alerts",), Routes(mapping=MAPPING))
    outcome = step(
        State(), seen(node_group="trn2"), Detection((anomaly(),)), lambda *_: None, rules
    )
    assert [(one.owner, one.owner_by) for one in outcome.alerts] == [("dana", OwnerBy.FILE)]


def test_what_names_the_owner_is_stored_and_an_older_alert_reads_as_tagged() -> None:
    mapped = replace(alert(), owner="dana", owner_by=OwnerBy.FILE)
    assert decode(Alert, encode(mapped)) == mapped
    older = encode(replace(alert(), owner="dana"))
    assert "owner_by" not in older
    assert decode(Alert, older).owner_by is OwnerBy.TAG


def test_the_channel_of_an_owner_takes_an_alert_from_the_default_and_a_person_does_not() -> None:
    routes = Routes(default=("slack:C0",), mapping=MAPPING)
    assert route(alert(owner="lee"), routes) == ("slack:CLEE",)
    assert route(alert(owner="dana"), routes) == ("slack:C0",)
    assert routes.owner("Dana", "slack:C0") == "slack:U01DANA"


def test_the_owners_of_the_settings_come_before_those_of_the_file() -> None:
    routes = Routes(owners={"dana": ("teams:29:1dana",)}, mapping=MAPPING)
    assert routes.owner("dana", "slack:C0") == "teams:29:1dana"


@pytest.mark.parametrize(
    ("cause", "heard"),
    [
        (Cause.IDLE, True),
        (Cause.ALLOCATED_UNUSED, True),
        (Cause.ORPHANED_STORAGE, True),
        (Cause.UNUSED_CAPACITY, True),
        (Cause.SPEND_JUMP, True),
        (Cause.STARVED, False),
        (Cause.HUNG, False),
        (Cause.LONG_COMPILE, False),
    ],
)
def test_finops_hears_of_idle_and_orphaned_things_by_default(cause: Cause, heard: bool) -> None:
    routes = Routes(
        read_routes("cluster=llama -> slack:C1"),
        finops=("slack:CFIN",),
        owners={"dana": ("slack:U1",)},
    )
    assert ("slack:CFIN" in route(alert(anomaly(cause), owner="dana"), routes)) is heard


def test_the_causes_that_finops_hears_may_be_chosen() -> None:
    routes = Routes(finops=("slack:CFIN",), finops_causes=(Cause.HUNG,))
    assert [route(alert(anomaly(cause)), routes) for cause in (Cause.IDLE, Cause.HUNG)] == [
        (),
        ("slack:CFIN",),
    ]


@pytest.mark.parametrize(
    ("default", "finops", "heard"),
    [
        ("slack:C0", "slack:C0", ("slack:C0",)),
        ("slack:C0", "slack:T1/C0", ("slack:C0",)),
        ("slack:T1/C0", "slack:C0", ("slack:T1/C0",)),
        ("slack:C0", "teams:C0", ("slack:C0", "teams:C0")),
    ],
)
def test_one_channel_gets_one_message_however_its_address_is_written(
    default: str, finops: str, heard: tuple[str, ...]
) -> None:
    assert route(alert(anomaly(Cause.IDLE)), Routes(default=(default,), finops=(finops,))) == heard


@pytest.mark.parametrize(
    ("owned", "words"),
    [
        (replace(alert(), owner="dana", owner_by=OwnerBy.FILE), "owner from the mapping file"),
        (replace(alert(), owner="dana", owner_by=OwnerBy.LABEL), "owner from a Kubernetes label"),
        (
            replace(alert(), owner="lee", owner_by=OwnerBy.FILE),
            " · owner lee from the mapping file",
        ),
        (
            replace(alert(), owner="kim", owner_by=OwnerBy.FILE),
            "owner kim from the mapping file",
        ),
    ],
)
def test_the_card_says_how_the_owner_was_found(owned: Alert, words: str) -> None:
    routes = Routes(mapping=MAPPING)
    reach = Reach(
        lambda name: routes.owner(name, "slack:C1"),
        lambda name: name.lower() in routes.mapping.channels,
    )
    card = notification_card(
        Notification("n1", "slack:C1", Reason.FIRST, NOON, (owned,)), reach=reach
    )
    assert words in repr(card.blocks)
