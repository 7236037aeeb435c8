"""What the provider finds: evidence of ours, or one alert of its own; never two for one jump."""

from dataclasses import replace
from datetime import date
from decimal import Decimal

import numpy as np
from builder import Fleet, World, only
from test_spend import NOW, bill, usual

from bot.model.causes import Cause
from bot.model.labels import Labels
from bot.model.spend import Commitment, CommitmentPlan, Finding
from detectors import Detector

S3 = Labels(account="1", service="AmazonS3", region="us-west-2", usage_type="Requests-Tier1")
FOUND = Finding(
    "a-1", date(2026, 11, 2), date(2026, 11, 2), Decimal(240), Decimal(340), Decimal(100), (S3,)
)


def judged(*lines, **more):
    world = World(Fleet(2, days=2.5), frames={"spend": bill(*lines)})
    return Detector()(replace(world.reading(NOW), **more), world.policy, ())


def test_what_both_find_is_one_alert_with_its_evidence():
    jump = only(judged(("AmazonS3", "Requests-Tier1", usual(340)), findings=(FOUND,)))
    assert jump.cause is Cause.SPEND_JUMP
    assert "AWS Cost Anomaly Detection found it too: $240" in jump.evidence[-1]
    assert "2026-11-02, usually" in jump.why


def test_where_ours_is_silent_it_is_an_alert_in_the_identity_that_ours_has():
    ours = only(judged(("AmazonS3", "Requests-Tier1", usual(340))))
    theirs = only(judged(("AmazonS3", "Requests-Tier1", usual(103)), findings=(FOUND,)))
    assert theirs.key == ours.key
    assert theirs.usd_per_hour == Decimal(10)
    assert "found by AWS Cost Anomaly Detection, not by our own rules" in theirs.why


def test_one_of_another_service_region_or_time_is_another():
    steady, jumped = (
        ("AmazonS3", "Requests-Tier1", usual(103)),
        ("AmazonEC2", "Serving", usual(340)),
    )
    assert len(judged(steady, jumped, findings=(FOUND,)).anomalies) == 2
    elsewhere = replace(FOUND, causes=(replace(S3, region="us-east-1"),))
    assert (
        len(judged(("AmazonS3", "Requests-Tier1", usual(340)), findings=(elsewhere,)).anomalies)
        == 2
    )


def test_the_use_that_aws_states_is_evidence_of_unused_commitment():
    used = Commitment(
        CommitmentPlan.SAVINGS_PLANS, date(2026, 11, 2), Decimal(240), Decimal(60), Decimal("0.5")
    )
    one = only(
        judged(
            ("AmazonEC2", "EC2SP:trn1.1yrNoUpfront", np.array(usual(900, 90.0))),
            commitments=(used,),
        )
    )
    assert one.cause is Cause.COMMITMENT_UNUSED
    assert (
        one.evidence[-1]
        == "AWS says: 75 % of Savings Plans used on 2026-11-02, $60 unused; they cover 50 % of what they could"
    )
