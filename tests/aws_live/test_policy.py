"""Keep the policy least: what is declared is what is called is what the file allows."""

from functools import partial
from pathlib import Path

from adapters.aws.api.operations import Place, call_prices, grants, operations, policy_text
from adapters.aws.api.outcomes import refused_in
from adapters.aws.api.promql import MANAGED, OTEL_STORE, PrometheusServer
from adapters.aws.bill.explorer import Explorer, ExplorerAnswers, OutlookPoller
from adapters.aws.bill.exports import AthenaTable, ExportCache, RollupCopy
from adapters.billing.exports import TRINO, rollup_query
from bot.model.frame import MetricsSurface
from tests.aws_live.serving import BUCKET
from tests.aws_live.test_events import QUEUE, interruption

ROOT = Path(__file__).parents[2]


def test_the_file_is_what_the_adapter_declares():
    assert (ROOT / "deploy/iam-policy.json").read_text() == policy_text()


def test_every_declared_operation_is_called_and_no_other(world, tmp_path):
    live = world.live(
        roles=["self", "arn:aws:iam::444455556666:role/trnbot-reader"],
        logs=["jobs"],
        events=[QUEUE],
    )
    (now,) = world.ticks(2, 2)
    world.standin.queue.put(interruption("i-1", now))
    live.receive(now)
    live.read(now)
    live.settle(now)
    world.standin.publish("classic", "otel", "prometheus")
    for server in (OTEL_STORE, PrometheusServer(f"{world.endpoint}/prometheus")):
        world.live(surface=MetricsSurface.PROMQL, server=server).read(now)
    assert all(check.ok for check in live.events.examined())
    ExportCache(
        live.calls, f"s3://{BUCKET}/billing", tmp_path / "export", Place("us-east-1")
    ).refresh()
    athena = AthenaTable(live.calls, "bills.cur", "primary", "", Place("us-west-2"))
    query = partial(rollup_query, TRINO)
    RollupCopy(athena, tmp_path / "athena", query, lambda: now).refresh(now)
    Explorer(
        ExplorerAnswers(live.calls, tmp_path / "explorer", Place("us-west-2"), 60)
    ).keep_fresh()
    assert (
        OutlookPoller(
            ExplorerAnswers(live.calls, tmp_path / "explorer", Place("us-west-2"), 60)
        ).refresh(now)
        == ()
    )
    # Amazon Managed Prometheus is asked by the same code, but under a name that no stand-in can have.
    assert set(world.standin.called) == {
        declared.action for declared in operations().values() if declared.service != MANAGED
    }
    assert not world.standin.failed


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
