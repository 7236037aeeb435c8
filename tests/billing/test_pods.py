"""EKS split rows say whose the parent's money is; they never add any."""

from decimal import Decimal

import pytest

from bot.model.spend import Filter


@pytest.fixture
def split(exports):
    def made(pod, namespace, cost, unused="0", usage="USW2-EKS-EC2-vCPU-Hours", **more):
        return exports.line(
            cost="",
            line_item_product_code="AmazonEKS",
            line_item_operation="EKSPod-EC2",
            line_item_usage_type=usage,
            line_item_resource_id=f"arn:aws:eks:us-west-2:2:pod/llama/{namespace}/{pod}/uid",
            split_line_item_parent_resource_id="i-1",
            split_line_item_split_cost=cost,
            split_line_item_unused_cost=unused,
            resource_tags={},
            **more,
        )

    return made


def test_pods_and_the_unallocated_rest_are_the_total(exports, november, keyed, split):
    rows = [
        exports.line(cost="21.50"),
        split("a", "nlp", "7.00"),
        split("b", "nlp", "3.00"),
        split("b", "nlp", "1", "0.5", usage="X-GB-Hours"),
    ]
    tally = exports.bill(*rows, exports.line(cost="5", line_item_resource_id="i-9")).tally(
        november, ("pod",)
    )
    assert keyed(tally) == {("",): "15.00", ("a",): "7.00", ("b",): "4.50"}
    assert tally.total.net == Decimal("26.50")


def test_thirds_add_up_to_the_cent(exports, november, split):
    rows = [exports.line(cost="10"), *(split(pod, "n", "3.333333333333333") for pod in "abc")]
    tally = exports.bill(*rows).tally(november, ("namespace", "pod"))
    assert tally.total.net == 10 == sum(row.money.net for row in tally.rows)


def test_more_than_the_parent_is_scaled_down(exports, november, keyed, split):
    tally = exports.bill(
        exports.line(cost="10"), split("a", "n", "15"), split("b", "n", "5")
    ).tally(november, ("pod",))
    assert {k: Decimal(v) for k, v in keyed(tally).items() if Decimal(v)} == {
        ("a",): Decimal("7.5"),
        ("b",): Decimal("2.5"),
    }


def test_without_costs_the_usage_ratio_shares(exports, november, keyed, split):
    rows = [exports.line(cost="10"), split("a", "n", "", split_line_item_split_usage_ratio="0.25")]
    assert keyed(exports.bill(*rows).tally(november, ("pod",))) == {("",): "7.50", ("a",): "2.50"}


def test_other_groupings_do_not_see_split_rows(exports, november, keyed, split):
    bill = exports.bill(exports.line(cost="10"), split("a", "n", "4"))
    assert keyed(bill.tally(november, ("service", "resource"))) == {("AmazonEC2", "i-1"): "10.00"}
    assert list(bill.problems()) == []


def test_a_pod_keeps_the_nodes_team_and_a_filter_finds_it(exports, november, keyed, split):
    bill = exports.bill(exports.line(cost="10"), split("a", "n", "4"))
    assert keyed(bill.tally(november, ("team", "namespace"), [Filter("pod", ("a",))])) == {
        ("search", "n"): "4.00"
    }


def test_the_split_names_the_cluster_of_an_untagged_node(exports, november, keyed, split):
    bill = exports.bill(exports.line(cost="10", resource_tags={}), split("a", "n", "4"))
    assert keyed(bill.tally(november, ("cluster",))) == {("llama",): "10.00"}
