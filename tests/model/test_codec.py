import json
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.cards.card import (
    Button,
    Buttons,
    Card,
    Code,
    Facts,
    Form,
    Mention,
    Strong,
    Table,
    Text,
    When,
    text,
)
from bot.model.alert import Alert, Decision, Silence
from bot.model.anomaly import Anomaly
from bot.model.codec import decode, encode
from bot.model.labels import Labels
from bot.model.notification import NotificationLogEntry
from bot.model.policy import Policy
from bot.model.window import Window
from tests.builders import alert

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)
INSTANTS = st.integers(0, 10**15).map(lambda us: NOW + timedelta(microseconds=us))
MONEY = st.decimals(
    allow_nan=False, allow_infinity=False, places=6, min_value=-(10**9), max_value=10**9
)
FLOATS = st.floats(allow_nan=False)
ATOMS = {str: st.text(max_size=8), datetime: INSTANTS, Decimal: MONEY, float: FLOATS}
for kind, strategy in ATOMS.items():
    st.register_type_strategy(kind, strategy)
st.register_type_strategy(
    Window,
    st.builds(
        lambda at, hours: Window(at, at + timedelta(hours=hours)), INSTANTS, st.integers(0, 99)
    ),
)


def through_json(value):
    return decode(type(value), json.loads(json.dumps(encode(value), allow_nan=False)))


@pytest.mark.parametrize(
    "kind", [Labels, Window, Decision, Silence, NotificationLogEntry, Anomaly, Alert]
)
def test_every_noun_survives_the_round_trip(kind):
    @settings(max_examples=20, deadline=None)
    @given(st.from_type(kind))
    def check(value):
        assert through_json(value) == value

    check()


@settings(max_examples=40, deadline=None)
@given(
    st.builds(
        Card,
        data=st.dictionaries(
            st.text(max_size=4),
            st.integers() | st.text(max_size=4) | st.lists(st.booleans(), max_size=2),
        ),
    ).map(
        lambda card: Card(
            card.title, card.tone, card.blocks, dict_of_lists(card.data), card.mentions, card.public
        )
    )
)
def test_every_card_survives_the_round_trip(card):
    assert through_json(card) == card


def dict_of_lists(data):
    return {name: list(x) if isinstance(x, tuple) else x for name, x in data.items()}


def test_a_card_tells_its_blocks_and_spans_apart():
    blocks = (
        text("plain ", Strong("bold"), Code("code"), When(NOW), Mention("slack:U1", "dana")),
        Facts((("a", "b"),)),
        Table((), (("1", "2"),)),
        Buttons((Button("Why", "why 1"),)),
        Form("Tune", "config set", ()),
    )
    document = encode(Card("t", blocks=blocks))
    assert [block["class"] for block in document["blocks"]] == [
        "Text",
        "Facts",
        "Table",
        "Buttons",
        "Form",
    ]
    assert document["blocks"][0]["spans"][0] == "plain "
    assert decode(Card, document).blocks == blocks


def test_a_policy_keeps_the_type_of_each_value_and_leaves_its_cache_out():
    policy = Policy(
        {"a": 0.5, "b": timedelta(minutes=5), "c": Decimal("1.50"), "d": True, "e": "word"},
        ((Labels("x"), "d", False),),
    )
    policy.at(Labels("x"))
    again = through_json(policy)
    assert again == policy
    assert {type(x) for x in again.values.values()} == {float, timedelta, Decimal, bool, str}


def test_data_is_written_as_the_command_line_prints_it():
    card = Card(
        "t",
        data={
            "usd": Decimal("1.10"),
            "at": NOW,
            "labels": Labels(cluster="x"),
            "rows": ({"n": math.nan},),
        },
    )
    document = encode(card)["data"]
    assert document["usd"] == "1.10"
    assert document["at"] == "2026-11-20T09:00:00Z"
    assert document["labels"]["cluster"] == "x"
    assert document["rows"] == [{"n": "nan"}]


def test_nan_stays_nan():
    assert math.isnan(through_json(anomaly(value=math.nan)).value)


def anomaly(**changes):
    document = {
        "rule": "idle",
        "cause": "idle",
        "scope": {},
        "labels": {},
        "things": ["i-1"],
        "score": 1,
        "value": 0,
        "unit": "%",
    }
    window = {"window": {"start": "2026-11-20T09:00:00Z", "end": "2026-11-20T10:00:00+01:00"}}
    return decode(Anomaly, document | window | changes)


def test_a_document_of_an_older_version_takes_defaults_and_of_a_newer_one_loses_what_is_unknown():
    made = anomaly(colour="red")
    assert made.severity == "warning"
    assert made.window.length == timedelta(0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cause": "gremlins"}, "Anomaly.cause: 'gremlins'"),
        ({"usd_per_hour": 1.5}, "Anomaly.usd_per_hour: money is a decimal string; got 1.5"),
        ({"window": "today"}, "Anomaly.window: a Window is an object"),
        ({"labels": {"cluster": 5}}, "Anomaly.labels: Labels.cluster: expected str; got 5"),
    ],
)
def test_what_does_not_fit_is_named(changes, words):
    with pytest.raises(ValueError, match=words):
        anomaly(**changes)


def test_a_missing_field_is_named():
    with pytest.raises(ValueError, match=r"Window: .*'end'"):
        decode(Window, {"start": "2026-11-20T09:00:00Z"})


def test_an_unknown_block_is_named():
    with pytest.raises(ValueError, match="'Video' is none of Text, Facts"):
        decode(Card, {"title": "t", "blocks": [{"class": "Video"}]})


def test_a_naive_time_is_refused():
    with pytest.raises(ValueError, match="no time zone"):
        encode(Text((When(datetime(2026, 1, 1)),)))  # noqa: DTZ001


@dataclass(frozen=True)
class Renamed:
    peak: int = field(default=0, metadata={"stored": "worst"})


def test_a_renamed_field_keeps_its_name_in_documents():
    assert encode(Renamed(3)) == {"worst": 3}
    assert decode(Renamed, {"worst": 3, "peak": 4}) == Renamed(3)
    with pytest.raises(ValueError, match=r"Renamed\.worst"):
        decode(Renamed, {"worst": "much"})


def test_an_alert_is_stored_under_the_names_of_its_first_release():
    document = encode(alert())
    assert {"worst", "things_at_worst"} <= document.keys()
    assert not {"peak", "things_at_peak"} & document.keys()
