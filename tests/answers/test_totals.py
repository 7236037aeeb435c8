"""A total is that of all rows, also of those that a card folds, and what is old is not counted."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from bot.answers.cost.storage import Unused, storage_card
from bot.answers.plan.capacity import LOOKED, refused_of
from bot.cards.card import Table
from bot.model.fleet import Refusal, Volume
from bot.model.labels import Labels
from tests.builders import NOON, price, reading


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
    assert sum(zone.refused for zone in found.zones or ()) == 2
