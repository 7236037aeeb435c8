"""A total is that of all rows, also of those that a card folds, and what is old is not counted."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import permutations

import numpy as np
import pytest

from bot.answers.cost.storage import MOST_OF_A_WEEK, Unused, storage_card, unused_of
from bot.answers.plan.capacity import LOOKED, refused_of
from bot.cards.card import Table, Tone
from bot.costs.pricing import Pricing
from bot.model.fleet import FileSystem, Inventory, Refusal, Volume
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.notification import Coverage, Known
from bot.model.reading import AT_LIMIT, BEYOND, HARDLY, Reading, Throughput
from tests.builders import FIVE, NOON, ports_over, price, reading
from tests.house import fakes


def unused(number: int) -> Unused:
    labels = Labels(resource=f"vol-{number:02d}", region="us-west-2")
    disk = Volume(labels, 100, "gp3", "available", NOON - timedelta(days=30))
    return Unused(disk, NOON - timedelta(days=9), price("0.01"))


def test_the_total_of_unused_storage_is_that_of_all_rows() -> None:
    things = [unused(number) for number in range(25)]
    card = storage_card(things, (), "")
    assert card.data["usd_per_month"] == sum(thing.usd_per_month for thing in things)
    assert card.data["usd_per_month"] == 25 * Decimal("7.30")
    assert "$182" in card.title
    (table,) = [block for block in card.blocks if isinstance(block, Table)]
    assert table.total[-1] == "$182"


def test_refusals_older_than_a_week_count_no_more() -> None:
    place = Labels(region="us-west-2", zone="us-west-2b", instance_type="trn1.32xlarge")
    times = (NOON, NOON - LOOKED, NOON - LOOKED - timedelta(minutes=1))
    refusals = tuple(Refusal(f"r{n}", at, place) for n, at in enumerate(times))
    found = refused_of(replace(reading(), refusals=refusals), "trn1.32xlarge")
    assert sum(zone.refused for zone in found or ()) == 2


def file_system(name: str, **more: object) -> FileSystem:
    labels = Labels(resource=name, cluster="llama", region="us-west-2")
    return replace(FileSystem(labels, 1200, "PERSISTENT_2", 250, NOON), **more)


def test_unused_storage_stands_dearest_first_then_by_name_and_unpriced_last() -> None:
    dear, twin, none = (
        replace(unused(number), price=price(usd) if usd else None)
        for number, usd in ((3, "0.05"), (2, "0.01"), (1, ""))
    )
    system = Unused(file_system("fs-1"), NOON, price("0.01"))
    ranked = [dear, system, twin, none]
    for some in permutations(ranked):
        card = storage_card(some, (), "")
        names = [row["resource"] for row in card.data["storage"]]
        assert names == ["vol-03", "fs-1", "vol-02", "vol-01"]
        assert card.title == "3 volumes and 1 file system unused: $51.10 a month"
    assert "1 without a known price" in str(card.blocks)
    assert "without a known price" not in str(storage_card(ranked[:3], (), "").blocks)
    assert storage_card([system], (), "llama").title.startswith("1 file system of llama unused")
    assert storage_card([dear], (), "").title.startswith("1 volume unused")
    (table,) = (x for x in storage_card([none, system], (), "").blocks if isinstance(x, Table))
    assert [row[1] for row in table.rows] == ["FSx PERSISTENT_2", "EBS gp3"]


def test_whose_storage_it_is_goes_from_the_team_to_the_cluster() -> None:
    def owner(team: str = "", launched: str = "", name: str = "", cluster: str = "") -> str:
        disk = unused(1).thing
        labels = replace(disk.labels, team=team, cluster=cluster)
        tags = {"Name": name} if name else {}
        return replace(
            unused(1), thing=replace(disk, labels=labels, tags=tags, launched_by=launched or None)
        ).owner

    assert owner("t", "l", "n", "c") == "t"
    assert owner("", "l", "n", "c") == "l"
    assert owner("", "", "n", "c") == "n"
    assert owner("", "", "", "c") == "c"


def test_that_nothing_is_unused_is_good_news_only_where_all_was_seen() -> None:
    late = Coverage(Known.UNKNOWN, "Late.")
    calm, blind, partly = (
        storage_card(things, (), "", seen=seen)
        for things, seen in (((), None), ((), late), ([unused(1)], late))
    )
    assert (calm.tone, blind.tone) == (Tone.GOOD, Tone.WARNING)
    assert ["Late." in str(card.blocks) for card in (calm, blind, partly)] == [False, True, True]


def load(name: str, share: float, looked: timedelta = MOST_OF_A_WEEK) -> Throughput:
    return Throughput(file_system(name), 1.0, share, 0.0, share, looked)


@pytest.mark.parametrize(
    ("share", "looked", "words"),
    [
        (BEYOND, MOST_OF_A_WEEK, "beyond its limit"),
        (AT_LIMIT, MOST_OF_A_WEEK, "reaches its limit"),
        (AT_LIMIT - 0.01, MOST_OF_A_WEEK, ""),
        (HARDLY, MOST_OF_A_WEEK, ""),
        (HARDLY / 2, MOST_OF_A_WEEK, "more than is needed"),
        (HARDLY / 2, MOST_OF_A_WEEK - FIVE, ""),
    ],
)
def test_a_file_system_is_too_small_from_its_limit_on_and_too_large_after_a_week(
    share: float, looked: timedelta, words: str
) -> None:
    (row,) = storage_card((), [load("fs", share, looked)], "").data["file_systems"]
    assert row["verdict"].startswith(words)
    assert bool(row["verdict"]) == bool(words)


def test_file_systems_stand_with_the_busiest_first_then_by_name() -> None:
    loads = [load("c", 0.9), load("a", 0.5), load("b", 0.5)]
    for some in permutations(loads):
        (table,) = (x for x in storage_card((), some, "").blocks if isinstance(x, Table))
        assert [row[0] for row in table.rows] == ["c", "a", "b"]


def test_a_file_system_is_unused_where_one_reading_of_the_hour_says_so_and_none_another() -> None:
    nan = float("nan")

    def found(*clients: float) -> list[str]:
        system = file_system("fs-1")
        frame = Frame(
            "file_system",
            (system.labels,),
            NOON - len(clients) * FIVE,
            FIVE,
            ("fsx_client_connections_count",),
            np.array(clients, dtype=float)[None, :, None],
        )
        inventory = Inventory(NOON, file_systems=(system,))
        pricing = Pricing(ports_over(fakes.Fleet(), None)).at(NOON)
        read = Reading(NOON, {"file_system": frame}, inventory)
        return [x.thing.labels.resource for x in unused_of(read, pricing)]

    assert found(*[0.0] * 12) == ["fs-1"]
    assert found(*[nan] * 11, 0.0) == ["fs-1"]
    assert found(*[nan] * 12) == []
    assert found(*[0.0] * 11, 1.0) == []
    assert found(1.0, *[0.0] * 12) == ["fs-1"], "an hour ago it was used"
    assert found(1.0, *[0.0] * 11) == []
