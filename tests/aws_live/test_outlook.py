"""Ask what AWS itself says of the bill, and take it in: a forecast beside ours, findings as evidence or as alerts."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from adapters.aws.api.calls import Calls
from adapters.aws.api.operations import Place
from adapters.aws.bill.explorer import ExplorerAnswers, OutlookPoller
from adapters.aws.bill.outlook import RecordedOutlook
from adapters.billing.bill import open_billing
from bot.answers.cost.card import cost
from bot.errors import Unavailable
from bot.knowledge import load_knowledge
from bot.model.labels import Labels
from bot.model.reading import Reading
from bot.model.request import Request, User
from bot.model.spend import CommitmentPlan, Finding
from bot.model.window import month_of
from bot.policy.file import policy_of
from detectors import Detector
from tests.belonging import MEMBER
from tests.builders import ports_over

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SERVICES = load_knowledge().services()


@pytest.fixture
def answers(world, tmp_path):
    world.now = NOON
    folder = tmp_path / "explorer"
    folder.mkdir()
    return ExplorerAnswers(
        Calls(lambda: world.now, usage=folder / "usage.json"), folder, Place("us-west-2"), 60
    )


@pytest.fixture
def outlook(answers):
    return RecordedOutlook(answers.folder, SERVICES, OutlookPoller(answers).refresh)


def test_what_aws_says_becomes_nouns(outlook):
    forecast = outlook.forecast(NOON)
    assert (forecast.mean, forecast.low, forecast.high) == (Decimal("1200.50"), 1000, 1400)
    assert (forecast.window.start.day, forecast.window.end.month) == (20, 12)
    plans, held = (
        [x for x in outlook.commitments(NOON) if x.plan is plan]
        for plan in (CommitmentPlan.SAVINGS_PLANS, CommitmentPlan.RESERVATIONS)
    )
    assert (len(plans), plans[-1].utilization, plans[-1].coverage) == (
        14,
        Decimal("0.75"),
        Decimal("0.75"),
    )
    assert (held[-1].committed, held[-1].unused, held[-1].day) == (48, 12, date(2026, 11, 19))
    (found,) = outlook.findings(NOON)
    assert (found.impact, found.days) == (960, 2)
    assert found.causes == (
        Labels(
            account="111122223333",
            service="AmazonEC2",
            region="us-west-2",
            usage_type="USW2-BoxUsage:trn1.32xlarge",
        ),
    )
    assert outlook.problems() == ()


def test_it_is_asked_once_a_day_also_over_a_restart(world, answers, outlook):
    outlook.findings(NOON)
    RecordedOutlook(answers.folder, SERVICES, OutlookPoller(answers).refresh).forecast(
        NOON + timedelta(hours=20)
    )
    assert {name: n for name, n in world.standin.called.items() if name.startswith("ce:")} == dict.fromkeys(
        ("ce:GetCostForecast", "ce:GetSavingsPlansUtilization", "ce:GetSavingsPlansCoverage", "ce:GetReservationUtilization",
         "ce:GetAnomalies"), 1
    )  # fmt: skip
    world.now += timedelta(days=1)
    outlook.findings(world.now)
    assert world.standin.called["ce:GetAnomalies"] == 2


def test_an_account_without_plans_or_history_is_well(world, answers, outlook):
    world.standin.costs.nothing = {
        "GetCostForecast",
        "GetSavingsPlansUtilization",
        "GetSavingsPlansCoverage",
    }
    assert outlook.forecast(NOON) is None
    assert {x.plan for x in outlook.commitments(NOON)} == {CommitmentPlan.RESERVATIONS}
    assert outlook.problems() == ()
    assert not answers.calls.states.troubles()


def test_a_denied_call_costs_only_its_part(world, outlook):
    world.standin.faults.denied = {"ce:GetAnomalies"}
    assert outlook.forecast(NOON)
    assert outlook.findings(NOON) == ()
    assert any(
        "ce:GetAnomalies" in sentence and "denied" in sentence for sentence in outlook.problems()
    )


def test_a_recording_says_only_what_was_known_by_then(answers, outlook, tmp_path):
    outlook.findings(NOON)
    answers.copy_to(tmp_path / "made")
    recorded = RecordedOutlook(tmp_path / "made", SERVICES)
    assert recorded.findings(NOON - timedelta(minutes=1)) == ()
    assert len(recorded.findings(NOON)) == 1
    assert recorded.forecast(NOON + timedelta(days=4)) is None

    # What was answered after its end counts from its end on.
    end = NOON - timedelta(hours=1)
    answers.copy_to(tmp_path / "ended", end)
    assert len(RecordedOutlook(tmp_path / "ended", SERVICES).findings(end)) == 1


class NoSource:
    """A source that cannot be read."""

    def read(self, now):
        raise Unavailable("no metrics")


async def test_the_forecast_stands_beside_ours(outlook, tiny):
    billing = open_billing(tiny)
    ports = ports_over(NoSource(), None, billing=billing, outlook=outlook)
    card = await cost(
        ports,
        Request("cost", User("terminal:t"), NOON, "terminal", MEMBER),
        month_of(NOON),
        ("service",),
        (),
    )
    spent = billing.tally(month_of(NOON), ()).total.amortised
    assert card.data["expected"]["amortised_usd"] == spent + Decimal("1200.50")
    assert any("AWS itself expects about" in str(block) for block in card.blocks)


async def test_the_use_of_commitments_stands_under_the_cost_by_purchase(outlook, tiny):
    ports = ports_over(NoSource(), None, billing=open_billing(tiny), outlook=outlook)
    card = await cost(
        ports,
        Request("cost", User("terminal:t"), NOON, "terminal", MEMBER),
        month_of(NOON),
        ("purchase",),
        (),
    )
    said = str(card.blocks)
    assert (
        "Savings Plans: 75 % of $240 used on Nov 19, by AWS; $60.00 unused; they cover 75 % of what they could."
        in said
    )
    assert "Reservations: 75 % of $48.00 used on Nov 19, by AWS; $12.00 unused." in said


def reading(*found):
    return Reading(NOON, findings=found)


def finding(**more):
    given = {
        "id": "a-1", "first": date(2026, 11, 18), "last": date(2026, 11, 19), "impact": Decimal(960), "actual": Decimal(2000),
        "expected": Decimal(1040), "causes": (Labels(account="1", service="AmazonEC2", region="us-west-2", usage_type="x"),),
    }  # fmt: skip
    return Finding(**given | more)


def test_a_finding_that_we_are_silent_on_opens_one_alert():
    (one,) = Detector()(reading(finding()), policy_of({}), ()).anomalies
    assert (one.rule, one.usd_per_hour, one.scope.service) == (
        "spend_jump",
        Decimal(20),
        "AmazonEC2",
    )
    assert "AWS Cost Anomaly Detection" in one.why
    assert one.window.start == datetime(2026, 11, 18, tzinfo=UTC)
    two = Detector()(
        reading(finding(), finding(id="a-2", impact=Decimal(500))), policy_of({}), ()
    ).anomalies
    assert len(two) == 1
    assert len(two[0].evidence) > len(one.evidence)


@pytest.mark.parametrize(
    "found",
    [
        finding(dismissed=True),
        finding(impact=Decimal(10)),
        finding(first=date(2026, 11, 1), last=date(2026, 11, 10)),
    ],
    ids=["dismissed", "small", "over"],
)
def test_a_finding_that_is_none_opens_nothing(found):
    assert Detector()(reading(found), policy_of({}), ()).anomalies == ()
