"""A summary says before a launch fails that its quota leaves no room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.answers.about.summary import Part, Summary, summary_card, summary_data, summary_lines
from bot.answers.plan.capacity import tight_quotas
from bot.knowledge import load_knowledge
from bot.model.coverage import Coverage
from bot.model.fleet import Market, Quota
from bot.model.labels import Labels
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


def test_the_money_of_a_summary_tells_no_quota() -> None:
    assert "refused" not in str(list(summary_lines(summary(512), Part.MONEY)))
