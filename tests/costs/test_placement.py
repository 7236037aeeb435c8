"""Jobs in several zones: who is told, who is not, and what crossing costs."""

import csv
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from adapters.billing.bill import open_billing
from bot.answers.fleet.command import fleet
from bot.cards.card import Text, plain
from bot.knowledge import load_knowledge
from bot.model.fleet import Inventory
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.notification import State
from bot.model.reading import Reading, scattered
from bot.model.request import Request, User
from bot.model.run import Run
from tests.belonging import MEMBER
from tests.builders import NOON, instance, ports_over


def node(name, zone, job="", kind="trn1.32xlarge", cluster="llama"):
    made = instance(name, cluster)
    return replace(
        made, labels=made.labels.merge(Labels(zone=f"us-west-2{zone}", job=job, instance_type=kind))
    )


def seen(*nodes, pods=(), runs=()):
    """Return a reading of nodes, of pods (namespace, job, name) that hold cores, and of runs."""
    things = tuple(Labels(cluster="llama", namespace=n, job=j, pod=p) for n, j, p in pods)
    held = Frame("pod", things, NOON - timedelta(hours=1), timedelta(hours=1), ("neuroncore_request_count",),
                 np.ones((len(things), 1, 1), dtype=np.float32))  # fmt: skip
    known = Inventory(NOON, {x.id: x for x in nodes}, types=load_knowledge().types())
    reports = tuple(
        Run(Labels(cluster="llama", job=job), NOON - timedelta(days=1), NOON - age)
        for job, age in runs
    )
    return Reading(NOON, {"pod": held}, known, reports)


def told(reading):
    return [(one.job, str(one)) for one in scattered(reading)]


def test_a_tagged_job_in_two_zones_is_told():
    found = told(
        seen(
            node("i-1", "b", "a"),
            node("i-2", "c", "a"),
            node("i-3", "c", "a"),
            node("i-4", "b", "z"),
        )
    )
    assert found == [("a", "us-west-2c (2) and us-west-2b (1)")]


def test_separate_jobs_may_stand_anywhere():
    assert told(seen(node("i-1", "b", "a"), node("i-2", "c", "z"))) == []
    two = (("nlp", "a", "a-0"), ("nlp", "z", "z-0"))
    assert told(seen(node("i-1", "b"), node("i-2", "c"), pods=two)) == []
    assert (
        told(
            seen(node("i-1", "b"), node("i-2", "c"), runs=[("a", timedelta()), ("z", timedelta())])
        )
        == []
    )
    assert told(seen(node("i-1", "b"), node("i-2", "c"))) == []


@pytest.mark.parametrize(
    "more",
    [{"pods": (("nlp", "a", "a-0"), ("nlp", "a", "a-1"))}, {"runs": [("a", timedelta(minutes=9))]}],
)
def test_the_only_job_of_a_cluster_without_tags_is_told(more):
    assert told(seen(node("i-1", "b"), node("i-2", "c"), **more)) == [
        ("a", "us-west-2b (1) and us-west-2c (1)")
    ]


def test_an_old_run_a_system_node_and_a_stopped_one_say_nothing():
    assert told(seen(node("i-1", "b"), node("i-2", "c"), runs=[("a", timedelta(hours=5))])) == []
    stopped = replace(node("i-2", "c", "a"), state="stopped")
    assert told(seen(node("i-1", "b", "a"), stopped, node("i-3", "d", "a", "m5.large"))) == []


class World:
    """A source of one reading, with a store, prices and facts that know nothing."""

    def __init__(self, reading):
        self.reading = reading

    def read(self, now):
        return self.reading

    def load(self, now):
        return State()

    def quotes(self, *_):
        return ()

    def versions(self, most):
        return ()

    fallback_prices = storage_prices = spot_history = quotes


def bill(folder, *rows):
    """Open a bill of (usage type, cluster, USD) of the day before."""
    columns = ["line_item_usage_start_date", "line_item_usage_end_date", "line_item_unblended_cost", "line_item_line_item_type",
               "line_item_product_code", "line_item_usage_type", "resource_tags"]  # fmt: skip
    span = ["2026-11-19T00:00:00Z", "2026-11-19T01:00:00Z"]
    with (folder / "bill.csv").open("w", newline="") as file:
        lines = (
            [
                *span,
                usd,
                "Usage",
                "AmazonEC2",
                use,
                f'{{"aws_eks_cluster_name": "{of}"}}' if of else "",
            ]
            for use, of, usd in rows
        )
        csv.writer(file).writerows([columns, *lines])
    return open_billing(folder)


@pytest.mark.parametrize(("of", "words", "usd"), [("llama", "Cross-zone traffic of llama cost $18.00", 18),
                                                  ("", "Cross-zone traffic of everything on the bill cost $18.00", 18)])  # fmt: skip
async def test_status_says_the_zones_and_what_crossing_costs(tmp_path, of, words, usd):
    billing = bill(tmp_path, ("USW2-DataTransfer-Regional-Bytes", of, "11"), ("USW2-DataTransfer-xAZ-Out-Bytes", of, "7"),
                   ("USW2-DataTransfer-Out-Bytes", of, "500"))  # fmt: skip
    world = World(seen(node("i-1", "b", "a"), node("i-2", "c", "a")))
    ports = ports_over(world, world, billing=billing)
    card = await fleet(ports, Request("fleet", User("web:u"), NOON, "web", MEMBER), "")
    said = " ".join(plain(block.spans) for block in card.blocks if isinstance(block, Text))
    assert (
        "a of llama runs in 2 zones, us-west-2b (1) and us-west-2c (1): EFA does not cross zones"
        in said
    )
    assert words in said
    (found,) = card.data["scattered"]
    assert (found["zones"], found["cross_zone_usd"]) == ({"us-west-2b": 1, "us-west-2c": 1}, usd)
