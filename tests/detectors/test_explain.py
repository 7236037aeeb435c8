"""Root cause: the few values that explain a growth."""

import numpy as np
import pytest

from bot.model.labels import Labels
from detectors.bill.growth import explain

TEAMS = ("search", "vision", "agents", "serving", "lab")


def things():
    """Return a bill of two accounts, three regions, five teams and three usage types, 90 things."""
    return [
        Labels(account=a, region=r, team=t, service="AmazonEC2", usage_type=u)
        for a in ("1234", "5678")
        for r in ("us-east-1", "us-west-2", "eu-west-1")
        for t in TEAMS
        for u in ("NatGateway-Bytes", "EBS:VolumeUsage.gp3", "BoxUsage:trn1.32xlarge")
    ]


def grown(**where):
    """Return (things, value, usual): 10 USD each, those selected 100 more, the rest a little noise."""
    every = things()
    usual = np.full(len(every), 10.0)
    hit = np.array([Labels(**where).selects(x) for x in every])
    return every, usual + 100 * hit + np.random.default_rng(0).normal(0, 0.5, len(every)), usual


@pytest.mark.parametrize(
    "where",
    [
        {"team": "search"},
        {"region": "us-west-2", "usage_type": "NatGateway-Bytes"},
        {
            "usage_type": "NatGateway-Bytes",
            "region": "us-west-2",
            "account": "1234",
            "team": "search",
        },
    ],
)
def test_the_place_that_grew_is_named_and_nothing_else(where):
    root = explain(*grown(**where))
    assert dict(root.named) == {k: (v,) for k, v in where.items()} | {"service": ("AmazonEC2",)}
    assert root.share > 0.9
    assert Labels(**where).selects(root.labels)


def test_it_reads_as_one_line():
    root = explain(
        *grown(usage_type="NatGateway-Bytes", region="us-west-2", account="1234", team="search")
    )
    assert str(root).endswith("% of it: NatGateway-Bytes in us-west-2, account 1234, team search")


def test_growth_everywhere_names_only_what_all_share():
    every, usual = things(), np.full(90, 10.0)
    assert dict(explain(every, usual * 1.5, usual).named) == {"service": ("AmazonEC2",)}


def test_two_teams_are_named_together():
    every, value, usual = grown(team="search")
    value = value + 100 * np.array([x.team == "lab" for x in every])
    assert sorted(dict(explain(every, value, usual).named)["team"]) == ["lab", "search"]


def test_untagged_growth_names_no_tag():
    every = [Labels(usage_type="a", team="search"), Labels(usage_type="a")]
    root = explain(every, np.array([10.0, 90.0]), np.array([10.0, 10.0]))
    assert dict(root.named) == {"usage_type": ("a",)}


def test_what_shrank_has_no_root():
    every, value, usual = grown(team="search")
    assert explain(every, usual, value) is None
