"""A summary says before a launch fails that its quota leaves no room."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.answers.about.digest import Week, digest_card
from bot.answers.about.summary import Part, Summary, summary_card, summary_data, summary_lines
from bot.answers.plan.capacity import quota_card, tight_quotas, use_of
from bot.knowledge import load_knowledge
from bot.model.fleet import Market, Quota
from bot.model.labels import Labels
from bot.model.notification import Coverage
from bot.model.window import Window
from tests.builders import NOON, reading

TYPES = load_knowledge().types()


def summary(vcpus: float) -> Summary:
    """Return a summary of four running nodes of 128 vCPU under a quota of so many."""
    inventory = reading().inventory
    kinds = {x.labels.instance_type for x in inventory.instances.values()}
    assert {TYPES[name].vcpus for name in kinds} == {128}
    quota = Quota("On-Demand Trn", "L-1", Labels(), ("trn",), Market.ON_DEMAND, vcpus, NOON)
    inventory = replace(inventory, quotas=(quota,), types=TYPES)
    return Summary(NOON, (), Coverage(), tight=tight_quotas(inventory))


@pytest.mark.parametrize(("vcpus", "tight"), [(512, True), (639, True), (640, False)])
def test_a_summary_warns_where_one_more_node_would_be_refused(vcpus: float, tight: bool) -> None:
    of = summary(vcpus)
    words = str(summary_card(of).blocks)
    assert (f"512 of {vcpus} vCPU of On-Demand Trn" in words) is tight
    assert ("the next launch would be refused" in words) is tight
    assert ("tight_quotas" in summary_data(of)) is tight


def test_a_digest_warns_as_the_summary_does() -> None:
    week = Window(NOON - timedelta(days=7), NOON)
    card = digest_card(Week(week, (), (), tight=summary(512).tight))
    assert "the next launch would be refused" in str(card.blocks)
    assert card.data["tight_quotas"]
    assert "refused" not in str(digest_card(Week(week, (), ())).blocks)


@pytest.mark.parametrize(
    ("nodes", "title"),
    [
        (3, "3 more trn1.32xlarge fit the quota of us-west-2"),
        (4, "4 more trn1.32xlarge would be refused: room for 3 in us-west-2"),
    ],
)
def test_whether_so_many_more_fit(nodes: int, title: str) -> None:
    """Four nodes of 128 vCPU run; spot has a quota of its own, which no on-demand node uses."""
    limits = ((Market.ON_DEMAND, 7 * 128 + 127), (Market.SPOT, 99_999))
    inventory = replace(reading().inventory, types=TYPES)
    quotas = [
        Quota("Trn", "L-1", Labels(region="us-west-2"), ("trn",), market, vcpus, NOON)
        for market, vcpus in limits
    ]
    uses = [use_of(quota, inventory) for quota in quotas]
    assert quota_card(uses, TYPES, "trn1.32xlarge", nodes).title == title


def test_the_money_of_a_summary_tells_no_quota() -> None:
    assert "refused" not in str(list(summary_lines(summary(512), Part.MONEY)))
