"""Why a cost is high at all: its parts add up to it, beside the use of its nodes and what is open."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapters.billing.bill import BillOptions, open_billing
from adapters.store.memory import MemoryStore
from bot.answers.cost.level import CostLevel, level_card, level_of
from bot.cards.card import Card, plain
from bot.errors import Unavailable
from bot.knowledge import load_knowledge
from bot.model.causes import Cause
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.notification import StateUpdate
from bot.model.reading import Reading
from bot.model.spend import Filter
from tests.billing.conftest import write_csv
from tests.builders import alert, anomaly, ports_over, waste
from tests.costs.test_one_change import ASKED, COST, NOW, WEEK, cluster_of, is_credit, week

AT = NOW + WEEK
LLAMA = Filter("cluster", ("llama",))


class Fleet:
    """Implement `Source` by nodes of two clusters: one at half of its cores, one at full work."""

    def read(self, _: Any) -> Reading:
        things = tuple(Labels(cluster=name, instance=f"i-{name}0") for name in ("llama", "vision"))
        levels = np.array([[[0.5]] * 12, [[1.0]] * 12], dtype=np.float32)
        hour = timedelta(hours=1)
        frame = Frame(
            "node", things, AT - 12 * hour, hour, ("neuroncore_utilization_ratio",), levels
        )
        return Reading(AT, {"node": frame})


class Nothing:
    """Implement `Source` where a bill is recorded alone."""

    def read(self, _: Any) -> Reading:
        raise Unavailable("No metrics.")


class Unwatched(MemoryStore):
    """Implement the store of a replay that has nothing to go by."""

    def load(self, now: Any) -> Any:
        raise Unavailable("No metrics.")


def level(folder: Path, *where: Filter, **parts: Any) -> CostLevel:
    write_csv(folder / "billing" / "bill.csv", list(week(NOW)))
    given = {"source": Fleet(), "knowledge": load_knowledge()} | parts
    store = given.pop("store", MemoryStore())
    ports = ports_over(open_billing(folder, BillOptions()), store, **given)
    found = level_of(ports, AT, ASKED, where)
    assert found
    return found


def words(card: Card) -> str:
    return " ".join([card.title, *(plain(x.spans) for x in card.blocks if hasattr(x, "spans"))])


@pytest.mark.parametrize("where", [(), (LLAMA,), (Filter("service", ("AmazonS3",)),)])
def test_the_parts_add_up_to_the_cost(tmp_path: Path, where: tuple[Filter, ...]) -> None:
    found = level(tmp_path, *where)
    parts = sum((part.amortised for part in found.parts), Decimal(0))
    assert parts == found.tally.total.amortised
    shares = float(sum((part.share for part in found.parts), Decimal(0)))
    assert shares == pytest.approx(1)


def test_a_cluster_is_held_against_its_use(tmp_path: Path) -> None:
    """Four nodes at $21.50 that work half of the time: an hour of work costs twice as much."""
    found = level(tmp_path, LLAMA)
    rows = [x for x in week(NOW) if cluster_of(x) == "llama" and not is_credit(x)]
    expected = sum(Decimal(x[COST]) for x in rows) / 7
    assert found.per_day == expected.quantize(Decimal("0.01"))
    said = words(level_card(found))
    assert said.startswith("llama costs $2,415 a day; most is 4 x trn1.32xlarge, on-demand")
    assert (
        "used 50 % over the last day: at $21.50 an hour, an hour of full work costs $43.00" in said
    )


def test_an_open_jump_of_the_bill_is_named_with_its_dollars_a_day(tmp_path: Path) -> None:
    store = MemoryStore()
    labels = Labels(service="AmazonS3", region="us-west-2")
    found = anomaly(Cause.SPEND_JUMP, labels=labels, scope=labels, things=(), wasted_shares=())
    jump = replace(alert(found, waste=waste("79.17")), seen=AT)
    store.save(StateUpdate(alerts=[jump]))
    said = words(level_card(level(tmp_path, store=store)))
    assert "an open jump adds $1,900 a day: AmazonS3" in said
    # Of a cluster that it is none of, it is not told.
    assert "jump" not in words(level_card(level(tmp_path, LLAMA, store=store)))


def test_a_bill_alone_is_answered(tmp_path: Path) -> None:
    found = level(tmp_path, LLAMA, source=Nothing(), store=Unwatched())
    assert (found.alerts, found.used) == (None, None)
    assert "Which alerts are open is not known" in words(level_card(found))
