"""The invoice beside the amortised month: what leaves, and when."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest

from adapters.store.memory import MemoryStore
from bot.answers.cost.month_end import (
    Invoice,
    Prepaid,
    invoice_facts,
    invoice_of,
    jump_words,
    open_jumps,
)
from bot.costs.nowcast import forecast_of
from bot.costs.running import fleet_of
from bot.model.causes import Cause
from bot.model.notification import StateUpdate
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource, memory_stores
from tests.builders import NOON, alert, anomaly, ports_over, waste
from tests.cards.leads import NOWCAST
from tests.months.accounts import Account, Block, Commitment, Extra, Group
from tests.months.bill import lines, truth, write

DAY = 24


def account():
    """Return a flat fleet that buys a Capacity Block on the 5th: 12 days from the 25th on."""
    month, first, hours = datetime(2026, 10, 1, tzinfo=UTC), 61 * DAY, 92 * DAY
    group = Group("llama", "search", "trn1.32xlarge", "on-demand", np.full(hours, 2))
    drawn = Account(7, month, first, hours, [group], tax=0.2)
    drawn.extras.append(Extra("AmazonFSx", "USW2-Storage.SSD.250", np.full(hours, 3.0)))
    drawn.blocks.append(Block(2, first + 4 * DAY, first + 24 * DAY + 11, first + 36 * DAY + 11))
    drawn.commitments.append(Commitment("plan", 10.0, "", -100 * DAY, hours + 100 * DAY))
    return drawn


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("invoice")
    drawn = account()
    found = lines(drawn)
    at = drawn.month + timedelta(days=14, hours=12)
    source = f"recording:{write(drawn, found, at, folder / 'recording')}"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        settings = settings_of({"source": source})
        ports = OpenedSource(source, settings).ports(memory_stores(), settings.policy)
        reading = ports.world.source.read(at)
        fleet = fleet_of(ports, reading)
        return (
            truth(drawn, found),
            forecast_of(ports, at, reading),
            invoice_of(ports.world.billing, at, (), fleet),
        )


def test_what_leaves_and_what_is_the_months(told):
    ended, nowcast, invoice = told
    assert float(invoice.net) == pytest.approx(ended.net, rel=0.01)
    assert float(invoice.tax) == pytest.approx(ended.tax, rel=0.01)
    # Of twelve days of the block six and a half are October's.
    assert float(nowcast.forecast) == pytest.approx(ended.amortised, rel=0.01)
    assert ended.net - ended.tax > ended.amortised + 8000


def test_cash_that_leaves_at_once_stands_at_its_day(told):
    ended, _, invoice = told
    (fee,) = invoice.prepaid
    assert (fee.day.day, fee.usage_type) == (5, "USE2-CapacityBlock:trn2.48xlarge")
    assert float(fee.usd) == pytest.approx(ended.prepaid, abs=0.01)


def test_the_hours_of_a_plan_are_not_prepaid_in_a_bill_of_a_few_days(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    month, hours = datetime(2026, 10, 1, tzinfo=UTC), 31 * DAY
    group = Group("llama", "search", "trn1.32xlarge", "on-demand", np.full(hours, 2))
    drawn = Account(8, month, 0, hours, [group])
    drawn.commitments.append(Commitment("plan", 10.0, "", -100 * DAY, hours + 100 * DAY))
    at = month + timedelta(days=5)
    source = f"recording:{write(drawn, lines(drawn), at, tmp_path / 'recording')}"
    settings = settings_of({"source": source})
    ports = OpenedSource(source, settings).ports(memory_stores(), settings.policy)
    invoice = invoice_of(ports.world.billing, at)
    assert invoice is not None
    assert invoice.prepaid == ()


def test_the_parts_make_the_whole(told):
    invoice = told[2]
    assert invoice.net == invoice.charges + invoice.credits + invoice.tax
    assert invoice.credits == Decimal(0)


def test_an_open_jump_is_in_the_range_or_told_beside_it():
    # About $731,000, at most $802,000.
    inside, beyond = (jump_words(Decimal(usd), NOWCAST) for usd in (22_800, 90_000))
    assert inside.endswith("go on, they add $22,800 by month end, which the range covers.")
    assert beyond.endswith("by month end: $821,000 in all, beyond the range.")


def test_only_alerts_of_spending_that_fire_are_jumps():
    store = MemoryStore()
    jump = alert(anomaly(cause=Cause.SPEND_JUMP), name="jump", waste=waste())
    store.save(StateUpdate(alerts=[jump, alert(name="idle", waste=waste())]))
    assert open_jumps(ports_over(None, store), NOON) == 1000 - 50


def test_the_facts_of_an_invoice_are_its_fees_by_day_and_what_is_not_zero():
    fees = tuple(Prepaid(NOON.date() + timedelta(days=n), Decimal(5), "fee") for n in (0, 2))
    full = Invoice(Decimal(9), Decimal(-3), Decimal(2), fees)
    assert full.net == 8
    names = [name for name, _ in invoice_facts(full, "USD")]
    assert names == ["Prepaid on Nov 20", "Prepaid on Nov 22", "Credits by month end", "Tax"]
    assert invoice_facts(Invoice(Decimal(9), Decimal(0), Decimal(0)), "USD") == []


def test_a_jump_that_ends_just_within_the_range_is_covered():
    room = NOWCAST.high - NOWCAST.forecast
    assert jump_words(room, NOWCAST).endswith("which the range covers.")
    assert jump_words(room + 1, NOWCAST).endswith("beyond the range.")
