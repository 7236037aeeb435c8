"""What a card says of compiles: what one shared cache would have spared."""

import pytest

from bot.cards.alert import notification_card
from bot.cards.card import Card
from bot.model.causes import Cause
from bot.model.notification import Notification, Reason
from tests.builders import NOON, alert, anomaly, waste


def card(cause: Cause, n: int) -> Card:
    one = alert(anomaly(cause, n=n), waste=waste("80", "60"))
    return notification_card(Notification("n1", "default", Reason.FIRST, NOON, (one,)))


@pytest.mark.parametrize(
    ("cause", "n", "said"),
    [(Cause.COLD_CACHE, 4, True), (Cause.LONG_COMPILE, 1, False), (Cause.STARVED, 4, False)],
)
def test_compiles_of_several_nodes_say_what_a_shared_cache_spares(
    cause: Cause, n: int, said: bool
) -> None:
    assert ("would have saved about" in str(card(cause, n))) is said
    assert ("$45" in str(card(cause, n))) is said


def test_a_compile_that_was_cut_off_says_what_is_lost_and_that_no_more_is() -> None:
    killed = anomaly(
        Cause.KILLED_COMPILE, n=2, usual=None, wasted_shares=(0.0, 0.0), lost_hours=(0.5, 0.75)
    )
    one = alert(killed, waste=waste("0", "27"))
    text = str(notification_card(Notification("n1", "default", Reason.FIRST, NOON, (one,))))
    assert "Wasted " in text
    assert "$27" in text
    assert "in 1.2 node-hours; nothing more is being lost to it." in text
    assert "an hour" not in text
