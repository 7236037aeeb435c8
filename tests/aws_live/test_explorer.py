"""Ask Cost Explorer for the bill: the same tally as from the export, cached on disk, never past the day's calls."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from adapters.aws.api.calls import Calls
from adapters.aws.api.operations import Place
from adapters.aws.bill.explorer import Explorer, ExplorerAnswers
from adapters.billing.bill import BillOptions
from adapters.billing.explorer import open_explorer
from bot.errors import Unavailable, WrongInput
from bot.knowledge import load_knowledge
from bot.model.reading import SPEND_METRIC
from bot.model.spend import Filter
from bot.model.window import Window
from tests.aws_live.costs import NoData

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
NOVEMBER = Window(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))
SERVICES = load_knowledge().services()


class Desk:
    """Hold an explorer over a folder and the bill that it keeps fresh."""

    def __init__(self, world, folder: Path, most_calls=60, daily_usd=None):
        world.now = NOON
        folder.mkdir(exist_ok=True)
        self.world = world
        self.calls = Calls(lambda: world.now, daily_usd=daily_usd, usage=folder / "usage.json")
        self.answers = ExplorerAnswers(self.calls, folder, Place("us-west-2"), most_calls)
        self.explorer = Explorer(self.answers)
        self.bill = open_explorer(folder, BillOptions(services=SERVICES), self.explorer.keep_fresh)

    def asked(self):
        return self.world.standin.called["ce:GetCostAndUsage"]


@pytest.fixture
def desk(world, tmp_path):
    return Desk(world, tmp_path / "explorer")


def by_line(frame):
    """Sum what tags tell apart, which Cost Explorer does not beside a service."""
    found = {}
    for thing, values in zip(frame.things, frame.of(SPEND_METRIC), strict=True):
        line = thing.only(("account", "service", "region", "usage_type"))
        found[line] = found.get(line, 0) + values
    return found


def rows(tally):
    return {tuple(row.key.values()): row.money for row in tally.rows}


def gross(tally):
    """Return the sums that Cost Explorer tells by tag; discounts are of no tag there."""
    return {key: money.gross for key, money in rows(tally).items() if money.gross}


@pytest.mark.parametrize(
    "by",
    [
        (), ("account",), ("region",), ("service",), ("usage_type",), ("instance_type",), ("family",), ("purchase",),
        ("line",), ("day",), ("month",), ("service", "usage_type", "day"), ("team",), ("tag:team", "day"),
    ],
)  # fmt: skip
def test_it_says_what_the_export_says(desk, export, by):
    theirs = export.tally(NOVEMBER, by)
    ours = desk.bill.tally(NOVEMBER, by)
    assert ours.total == theirs.total
    if by and by[0] in ("team", "tag:team"):
        assert gross(ours) == gross(theirs)
    elif "line" not in by:  # an export's tags tell hours of compiling apart
        assert rows(ours) == rows(theirs)
    total = ours.total
    assert total.net == total.gross + total.discounts + total.credits + total.tax != 0
    assert total.discounts < 0 > total.credits


def test_filters_days_and_rates_are_those_of_the_export(desk, export):
    only = (Filter("service", ("AmazonEC2",)), Filter("region", ("us-west-2",), negated=True))
    assert rows(desk.bill.tally(NOVEMBER, ("usage_type",), only)) == rows(
        export.tally(NOVEMBER, ("usage_type",), only)
    )
    ours, theirs = (by_line(bill.deltas(NOON, 7).frames["spend"]) for bill in (desk.bill, export))
    assert ours.keys() == theirs.keys()
    for line in ours:
        np.testing.assert_allclose(ours[line], theirs[line], atol=0.01)
    assert [
        (p.instance_type, p.market, p.usd_per_hour, p.hours) for p in desk.bill.rates(NOON).by_type
    ] == [(p.instance_type, p.market, p.usd_per_hour, p.hours) for p in export.rates(NOON).by_type]


@pytest.mark.parametrize(
    "by",
    [("pod",), ("resource",), ("hour",), ("zone",), ("tag:team", "service"), ("team", "project")],
)
def test_what_it_cannot_tell_is_one_sentence_that_names_what_can(desk, by):
    with pytest.raises(
        WrongInput,
        match=r"Cost Explorer (does not give|gives a tag only).*TRNBOT_AWS_BILLING or TRNBOT_AWS_ATHENA",
    ):
        desk.bill.tally(NOVEMBER, by)


def test_within_eight_hours_nothing_is_asked_again_not_even_by_another_process(world, tmp_path):
    first = Desk(world, tmp_path / "explorer")
    answer = first.bill.tally(NOVEMBER, ("service",))
    asked = first.asked()
    first.bill.tally(NOVEMBER, ("region",))
    again = Desk(world, tmp_path / "explorer")
    world.now += timedelta(hours=7, minutes=59)
    assert again.bill.tally(NOVEMBER, ("service",)).rows == answer.rows
    assert again.asked() == asked
    assert again.bill.tally(NOVEMBER, ()).sources == (
        f"Cost Explorer from 2026-09-01 on, asked 8 h ago in {asked} calls (${asked / 100:.2f})",
    )
    world.now += timedelta(minutes=2)
    again.bill.tally(NOVEMBER, ("service",))
    assert again.asked() == 2 * asked


def test_pages_are_all_read(world, desk, export):
    world.standin.costs.page_days = 20
    assert rows(desk.bill.tally(NOVEMBER, ("usage_type",))) == rows(
        export.tally(NOVEMBER, ("usage_type",))
    )


def test_past_the_cap_the_cache_answers_and_says_its_age(world, tmp_path, export):
    desk = Desk(world, tmp_path / "explorer", most_calls=1)
    coarse = desk.bill.tally(NOVEMBER, ("account",))
    assert (desk.asked(), coarse.total) == (1, export.tally(NOVEMBER, ()).total)
    world.now += timedelta(hours=9)
    late = desk.bill.tally(NOVEMBER, ("account",))
    assert (desk.asked(), late.rows) == (1, coarse.rows)
    assert (
        "asked 9 h ago in 1 calls ($0.01); Today's 1 calls to Cost Explorer are used"
        in late.sources[0]
    )
    world.now += timedelta(hours=4)
    assert "asked 0 h ago" in desk.bill.tally(NOVEMBER, ()).sources[0]


def test_the_dearest_parts_are_told_apart_as_far_as_the_calls_reach(world, tmp_path, export):
    desk = Desk(world, tmp_path / "explorer", most_calls=12)
    found = rows(desk.bill.tally(NOVEMBER, ("service",)))
    assert desk.asked() == 4
    assert found[("AmazonEC2",)].net > 3000
    assert found[("",)].net
    assert desk.bill.tally(NOVEMBER, ()).total == export.tally(NOVEMBER, ()).total


def test_with_no_call_left_and_nothing_known_it_says_why(world, tmp_path):
    desk = Desk(world, tmp_path / "explorer", most_calls=0)
    with pytest.raises(
        Unavailable, match=r"has not been asked yet. Today's 0 calls .*TRNBOT_AWS_EXPLORER_CALLS"
    ):
        desk.bill.tally(NOVEMBER, ())


def test_an_account_that_has_cost_nothing_yet_has_an_empty_bill(world, desk, monkeypatch):
    def answered(*_):
        raise NoData

    monkeypatch.setattr(world.standin, "answer", answered)
    tally = desk.bill.tally(NOVEMBER, ("service",))
    assert (tally.rows, tally.total.net, tally.billed_through) == ((), 0, None)
    assert (desk.bill.problems(), desk.asked()) == ([], 1)


def test_a_denied_or_garbled_answer_is_no_cost_of_zero_and_leaves_what_was_known(world, desk):
    before = desk.bill.tally(NOVEMBER, ("service",))
    world.now += timedelta(hours=9)
    world.standin.faults.denied = {"ce:GetCostAndUsage"}
    said = desk.bill.tally(NOVEMBER, ("service",))
    assert said.rows == before.rows
    assert "denied (AccessDeniedException)" in said.sources[0]
    world.now += timedelta(hours=2)
    world.standin.faults.denied = set()
    world.standin.faults.garbled = 1.0
    assert desk.bill.tally(NOVEMBER, ("service",)).rows == before.rows
    world.now += timedelta(hours=2)
    world.standin.faults.garbled = 0.0
    assert "asked 0 h ago" in desk.bill.tally(NOVEMBER, ("service",)).sources[0]


def test_kept_answers_are_a_recording(world, desk, tmp_path, export):
    desk.bill.tally(NOVEMBER, ("team",))
    desk.bill.tally(NOVEMBER, ())
    assert desk.answers.copy_to(tmp_path / "made") > 5
    again = open_explorer(tmp_path / "made", BillOptions(services=SERVICES))
    assert rows(again.tally(NOVEMBER, ("service",))) == rows(export.tally(NOVEMBER, ("service",)))
    assert gross(again.tally(NOVEMBER, ("team",))) == gross(export.tally(NOVEMBER, ("team",)))
    assert again.tally(NOVEMBER, ()).sources == ("Cost Explorer",)


def test_an_answer_on_disk_that_is_broken_costs_only_its_part(desk, tiny):
    whole = desk.bill.tally(NOVEMBER, ()).total
    folder = desk.answers.of("get_cost_and_usage")
    broken = max(folder.glob("*.us-west-2.Usage.json"))
    broken.write_text("{")
    again = open_explorer(desk.answers.folder, BillOptions(services=SERVICES))
    assert again.tally(NOVEMBER, ()).total == whole
    assert any("cannot be read (JSONDecodeError)" in sentence for sentence in again.problems())
    assert json.loads(max(folder.glob("*.accounts.json")).read_text())
