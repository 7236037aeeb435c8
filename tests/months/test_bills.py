"""The invented bills themselves: the same seed the same month, and nothing of later in what a moment sees."""

from datetime import timedelta

import numpy as np
import pytest

from adapters.billing.bill import open_billing
from bot.model.window import month_of
from tests.months.accounts import draw
from tests.months.bill import LAG, lines, truth, write


def test_a_seed_draws_its_month_alone():
    assert lines(draw(3)) == lines(draw(3))
    assert lines(draw(3)) != lines(draw(5))


def test_every_second_month_changes_its_level():
    drawn = [draw(seed) for seed in range(1, 61)]
    assert [account.changes_level for account in drawn] == [False, True] * 30
    assert all(np.isfinite(account.run_rate()).all() for account in drawn)


@pytest.mark.parametrize("seed", [18, 23])
def test_the_bill_that_ended_reads_as_the_truth(seed, tmp_path):
    account = draw(seed)
    found = lines(account)
    ended = account.at(account.hours) + timedelta(days=3)
    total = open_billing(write(account, found, ended, tmp_path)).tally(month_of(account.month), ())
    month = truth(account, found)
    assert float(total.total.amortised) == pytest.approx(month.amortised, abs=0.01)
    assert float(total.total.net) == pytest.approx(month.net, abs=0.01)
    assert float(total.total.credits) == pytest.approx(month.credits, abs=0.01)


def test_a_moment_sees_what_was_billed_by_then(tmp_path):
    account = draw(18)
    moment = account.month + timedelta(days=14, hours=12)
    bill = open_billing(write(account, lines(account), moment, tmp_path))
    seen = bill.tally(month_of(account.month), ())
    assert seen.billed_through == moment - timedelta(hours=LAG)
