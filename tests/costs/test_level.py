"""Why a cost is high at all: its parts add up to it, beside the use of its nodes and what is open."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from adapters.billing.bill import Bill, BillOptions, open_billing
from adapters.store.memory import MemoryStore
from bot.answers.cost.level import CostLevel, Part, level_card, level_of
from bot.cards.card import Buttons, Card, plain
from bot.errors import Unavailable
from bot.knowledge import load_knowledge
from bot.model.causes import Cause
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.notification import StateUpdate
from bot.model.reading import Reading
from bot.model.spend import Filter, Money, Tally
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


@pytest.fixture(scope="module")
def bill(tmp_path_factory: pytest.TempPathFactory) -> Bill:
    folder = tmp_path_factory.mktemp("level")
    write_csv(folder / "billing" / "bill.csv", list(week(NOW)))
    return open_billing(folder, BillOptions())


def level(bill: Bill, *where: Filter, **parts: Any) -> CostLevel:
    given = {"source": Fleet(), "knowledge": load_knowledge()} | parts
    store = given.pop("store", MemoryStore())
    ports = ports_over(bill, store, **given)
    found = level_of(ports, AT, ASKED, where)
    assert found
    return found


def words(card: Card) -> str:
    return " ".join([card.title, *(plain(x.spans) for x in card.blocks if hasattr(x, "spans"))])


@pytest.mark.parametrize("where", [(), (LLAMA,), (Filter("service", ("AmazonS3",)),)])
def test_the_parts_add_up_to_the_cost(bill: Bill, where: tuple[Filter, ...]) -> None:
    found = level(bill, *where)
    parts = sum((part.amortised for part in found.parts), Decimal(0))
    assert parts == found.tally.total.amortised
    shares = float(sum((part.share for part in found.parts), Decimal(0)))
    assert shares == pytest.approx(1)


def test_a_cluster_is_held_against_its_use(bill: Bill) -> None:
    """Four nodes at $21.50 that work half of the time: an hour of work costs twice as much."""
    found = level(bill, LLAMA)
    rows = [x for x in week(NOW) if cluster_of(x) == "llama" and not is_credit(x)]
    expected = sum(Decimal(x[COST]) for x in rows) / 7
    assert found.per_day == expected.quantize(Decimal("0.01"))
    said = words(level_card(found))
    assert said.startswith("llama costs $2,415 a day; most is 4 x trn1.32xlarge, on-demand")
    assert (
        "used 50 % over the last day: at $21.50 an hour, an hour of full work costs $43.00" in said
    )


def test_an_open_jump_of_the_bill_is_named_with_its_dollars_a_day(bill: Bill) -> None:
    store = MemoryStore()
    labels = Labels(service="AmazonS3", region="us-west-2")
    found = anomaly(Cause.SPEND_JUMP, labels=labels, scope=labels, things=(), wasted_shares=())
    jump = replace(alert(found, waste=waste("79.17")), seen=AT)
    store.save(StateUpdate(alerts=[jump]))
    said = words(level_card(level(bill, store=store)))
    assert "an open jump adds $1,900 a day: AmazonS3" in said
    # Of a cluster that it is none of, it is not told.
    assert "jump" not in words(level_card(level(bill, LLAMA, store=store)))


def test_a_bill_alone_is_answered(bill: Bill) -> None:
    found = level(bill, LLAMA, source=Nothing(), store=Unwatched())
    assert (found.alerts, found.used) == (None, None)
    assert "Which alerts are open is not known" in words(level_card(found))


def made(*where: Filter, **parts: Any) -> CostLevel:
    """Return a level of $700 in a week, of which $600 were two nodes of 120 hours."""
    node = Part("trn1", Decimal(600), Decimal("85.71"), Decimal(6) / 7, 120.0, 2.0)
    tally = Tally(ASKED, (), (), Money(amortised=Decimal(700)))
    given = {"parts": [node], "everything": Decimal(1400), "alerts": [], "used": 0.5, "runs": []}
    made = CostLevel(tally, filters=where, **(given | parts))
    return replace(made, tally=replace(tally, window=replace(ASKED, end=ASKED.start + WEEK)))


def test_a_level_divides_by_days_hours_and_use_where_there_are_any() -> None:
    found = made()
    assert (found.per_day, found.rate, found.share) == (100, 5, Decimal("0.5"))
    assert found.usd_per_used_hour == 10
    assert made(everything=Decimal(0)).share is None
    assert [made(used=x).usd_per_used_hour is None for x in (None, 0.009, 0.01)] == [
        True,
        True,
        False,
    ]
    other = Part("S3", Decimal(100), Decimal(14), Decimal(1) / 7)
    assert made(parts=[*found.parts, other]).rate == 5, "what has no hours has no part in it"
    assert (made(parts=[other]).rate, other.rate) == (None, None)
    assert [replace(other, nodes=x).words for x in (0.9, 1.0)] == ["S3", "1 x S3"]


def test_a_level_says_whose_it_is_and_what_is_open_the_dearest_first_five_at_most() -> None:
    kept, without = Filter("team", ("ads",)), Filter("team", ("",), negated=True)
    said = [words(level_card(made(*where))) for where in ((), (kept,), (without,))]
    assert [x.partition(";")[0] for x in said] == [
        "$100 a day is spent",
        "ads costs $100 a day",
        "all but no team costs $100 a day",
    ]
    assert ["of all that was spent" in x for x in said] == [False, True, True]
    assert ["Its nodes" in x for x in said] == [False, True, True]

    alerts = [alert(anomaly(cluster=f"c{n}"), name=f"a{n}", waste=waste(str(n))) for n in range(9)]
    told = {n: words(level_card(made(alerts=alerts[:n]))).count("Open: ") for n in range(9)}
    most = max(told.values())
    assert all(told[n] == min(n, most) for n in told)
    assert [
        f"and {n - most} more open" in words(level_card(made(alerts=alerts[:n])))
        for n in (most, most + 1)
    ] == [False, True]
    assert "no price is known" in words(level_card(made(alerts=[alert()])))
    assert [
        any(b.text == "Alerts" for x in card.blocks if isinstance(x, Buttons) for b in x.buttons)
        for card in (level_card(made()), level_card(made(alerts=alerts[:1])))
    ] == [False, True]


def test_alerts_of_the_filter_that_speak_stand_dearest_first(bill: Bill) -> None:
    store = MemoryStore()
    found = [
        alert(anomaly(cluster=cluster), name=name, waste=waste(usd), muted_by=muted, seen=AT)
        for name, cluster, usd, muted in (
            ("small", "llama", "1", ""),
            ("large", "llama", "9", ""),
            ("muted", "llama", "99", "silence:s"),
            ("vision", "vision", "50", ""),
        )
    ]
    store.save(StateUpdate(alerts=found))
    listed = [x.id for x in level(bill, LLAMA, store=store).alerts or ()]
    assert listed == ["large", "small"]
    parts = level(bill, store=store).parts
    assert [x.amortised for x in parts] == sorted((x.amortised for x in parts), reverse=True)
    assert all(x.amortised for x in parts)
