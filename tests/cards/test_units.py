"""Every number on a card of every cause has a unit that people use, and every count a noun."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

import numpy as np
import pytest

from bot.answers.alerts.why import why_card
from bot.cards.alert_words import headline, pattern_words
from bot.cards.charts import alert_chart
from bot.cards.words import figures, growth, percent, quantity
from bot.model.alert import Pattern
from bot.model.causes import Cause
from bot.model.frame import Frame
from bot.model.labels import Labels
from tests.builders import NOON, alert, anomaly, waste
from tests.cards import samples
from tests.cases import in_one_run

BAD = re.compile(r"\d[eE][+-]\d|\bthings\b|\bnan\b|\d (seconds|count|score|USD)\b")
UNITS = {
    "ratio": (0.97, (0.7, 0.78)),
    "seconds": (16320.0, (0.0, 4500.0)),
    "count": (16.0, (0.0, 1.0)),
}
UNITS |= {"USD per day": (4130.0, (0.0, 12.5)), "score": (0.71, (0.0, 0.612))}


def drawn(found):
    frame = Frame("node", (Labels(instance=found.things[0]),), NOON - timedelta(hours=2), timedelta(minutes=5), (found.metric,),
                  np.full((1, 24, 1), 4.1e11, dtype=np.float32))  # fmt: skip
    one = alert(found, waste=waste())
    chart = alert_chart(one, {found.kind: frame})
    return " ".join(map(repr, (why_card(one, (), chart, NOON).blocks, headline(one, NOON), chart)))


@in_one_run
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("cause", Cause)
@pytest.mark.parametrize("kind", ["", "volume", "file_system", "spend_hour"])
def test_a_card_of_every_cause_has_units_and_nouns(cause, unit, kind):
    value, usual = UNITS[unit]
    facts = cause.facts
    found = anomaly(cause, n=16, unit=unit, value=value, usual=usual, metric=facts.metric, kind=kind or facts.about.value,
                    labels=Labels(cluster="llama"))  # fmt: skip
    said = re.sub(r"np\.float\d+\([^)]*\)", "", drawn(found))
    assert not (wrong := BAD.search(said)), said[max(0, wrong.start() - 60) : wrong.end() + 60]


def test_a_number_is_written_alike_with_either_sign():
    for value in (16_320.4, 123.4, 3.14159, 0.000_412, 7.0, 0.0):
        assert figures(-value).removeprefix("-") == figures(value)


def test_the_usual_share_of_memory_is_no_band_of_bytes():
    found = anomaly(
        Cause.MEMORY_PRESSURE,
        metric="neuroncore_memory_used_bytes",
        value=0.97,
        usual=(0.78, 0.78),
        kind="node",
    )
    assert "usually" not in drawn(found).partition("Chart(")[2]


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("volume", "16 volumes"),
        ("file_system", "16 file systems"),
        ("node", "16 nodes"),
        ("spend", "16 items of the bill"),
    ],
)
def test_several_things_are_named_by_their_noun(kind, place):
    found = anomaly(Cause.ORPHANED_STORAGE, n=16, kind=kind, labels=Labels(region="us-west-2"))
    assert place in headline(alert(found), NOON)


@pytest.mark.parametrize(
    ("value", "unit", "noun", "written"),
    [
        (0.2, "ratio", "event", "20 %"),
        (16320, "seconds", "event", "4 h 32 min"),
        (0.5, "seconds", "event", "0.5 s"),
        (1, "count", "ECC event", "1 ECC event"),
        (12000, "count", "ECC event", "12,000 ECC events"),
        (4130.0, "USD per day", "event", "$4,130 a day"),
        (12.5, "USD per hour", "event", "$12.50 an hour"),
        (0.62, "score", "event", "0.62"),
        (0.00042, "score", "event", "0.00042"),
    ],
)
def test_a_value_is_written_with_its_unit(value, unit, noun, written):
    assert quantity(value, unit, noun) == written


def test_a_pattern_of_seconds_reads_as_time():
    words = pattern_words(Pattern("long_compile", Labels(), "seconds", 3600.0, 16320.0, None))
    assert words == "at 1 h to 4 h 32 min"


@pytest.mark.parametrize(
    ("ratio", "signed", "unsigned"),
    [
        (Decimal("0.124"), "+12 %", "12 %"),
        (Decimal("-0.124"), "-12 %", "12 %"),
        (0.0, "0 %", "under 1 %"),
        (Decimal("0.004"), "0 %", "under 1 %"),
        (Decimal(99), "+9,900 %", "9,900 %"),
        (Decimal(115102034965), "from almost nothing", "from almost nothing"),
        (float("inf"), "from almost nothing", "from almost nothing"),
    ],
)
def test_a_change_of_almost_nothing_has_no_percent(
    ratio: Decimal | float, signed: str, unsigned: str
) -> None:
    assert growth(ratio, signed=True) == signed
    assert growth(ratio) == unsigned


def test_digits_of_a_change_are_as_asked() -> None:
    assert growth(Decimal("0.0004"), 1, signed=True) == "0 %"
    assert growth(Decimal("0.0006"), 1, signed=True) == "+0.1 %"


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0, "0 %"),
        (Decimal("0.0008"), "under 1 %"),
        (-0.002, "under 1 %"),
        (0.0051, "1 %"),
        (0.5, "50 %"),
        (0.9949, "99 %"),
        (0.997, "over 99 %"),
        (Decimal("0.99999"), "over 99 %"),
        (0.1 + 0.2 + 0.7 - 1e-16, "100 %"),
        (1.003, "100 %"),
    ],
)
def test_a_share_is_none_or_all_only_where_it_is(share: Decimal | float, words: str) -> None:
    assert percent(share) == words


def test_the_shaded_time_ends_with_the_last_sight_as_the_words_do():
    seen = NOON - timedelta(minutes=15)
    chart = alert_chart(samples.starved(seen=seen, closed=NOON), samples.frames())
    assert chart.shaded.end == seen
