"""Keep the policy least: what is declared is what is called is what the file allows."""

import re
from pathlib import Path

from adapters.aws.api.operations import call_prices, grants, operations, policy_text
from adapters.aws.api.outcomes import refused_in
from adapters.aws.api.promql import MANAGED

ROOT = Path(__file__).parents[2]
WALKS = ROOT / "tests/wiring"


def test_the_file_is_what_the_adapter_declares():
    assert (ROOT / "deploy/iam-policy.json").read_text() == policy_text()


def test_every_declared_operation_is_called_and_no_other():
    """The goldens of sessions and days have every call that AWS answered."""
    goldens = [*WALKS.glob("sessions/*.txt"), *WALKS.glob("days/*.txt")]
    lines = re.findall(r"(?m)^  (?:> |aws: )(.+)$", "\n".join(map(Path.read_text, goldens)))
    called = {call.rpartition(" ")[0] for line in lines for call in line.split(", ")}
    # Amazon Managed Prometheus is asked by the same code, but under a name that no stand-in can have.
    assert called == {x.action for x in operations().values() if x.service != MANAGED}


def test_what_is_granted_beside_stands_under_an_operation_that_is_called():
    assert {grant.under for grant in grants()} <= {
        declared.action for declared in operations().values()
    }
    assert all(grant.why for grant in grants())


def test_every_price_has_a_source_and_a_date():
    for price in call_prices().values():
        assert "pricing" in price.source
        assert price.asof >= "2026-11-01"


def test_an_action_that_aws_names_is_told_where_the_policy_has_it():
    says = "User: arn:aws:iam::1:user/bot is not authorized to perform: {} on resource: x"
    assert refused_in(says.format("kms:Decrypt")) == "kms:Decrypt"
    assert refused_in(says.format("iam:PassRole")) == ""
    assert refused_in("Access Denied") == ""
