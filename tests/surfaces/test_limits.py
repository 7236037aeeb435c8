"""Every limit at its edge: what just fits is taken whole, and one more is cut or refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from adapters.chat.slack.forms import Origin, parse_line, without_mention
from adapters.chat.slack.markup import cut, size
from adapters.chat.teams.activity import parse_activity
from adapters.chat.teams.activity import parse_line as teams_line
from adapters.chat.teams.elements import (
    Mentions,
    action_rows,
    form_elements,
    paragraph,
    pressed_line,
)
from adapters.chat.teams.render import render, table_elements
from bot.answers.all import ANSWERS
from bot.cards.card import (
    Button,
    Buttons,
    Card,
    Chart,
    ChartKind,
    Facts,
    Field,
    FieldKind,
    Form,
    Heading,
    Mention,
    Series,
    Table,
    Text,
    text,
)
from bot.errors import WrongInput
from bot.grammar.line import LONGEST, attempted, understand
from bot.grammar.turns import Bucket, Limits, Shares
from bot.ports.work import Lane
from tests.cases import in_one_run
from tests.surfaces.outline import of_card

assert ANSWERS
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
ACTIVITY = {
    "type": "message",
    "id": "a1",
    "serviceUrl": "https://smba.trafficmanager.net",
    "from": {"id": "29:dana"},
    "recipient": {"id": "28:bot"},
    "conversation": {"id": "a:1"},
}


def nested(depth: int) -> Any:
    """Return a value that is so deep, an activity's own level among it."""
    value: Any = "x"
    for _ in range(depth - 1):
        value = [value]
    return value


def read(**more: Any) -> Any:
    return parse_activity(json.dumps(ACTIVITY | more).encode())


def mentioned(count: int) -> int:
    entities = [{"mentioned": {"id": f"29:{n}", "name": str(n)}} for n in range(count)]
    return len(read(entities=entities).people)


def pressed(fields: int, value: str = "x", name: str = "f") -> str:
    names = [f"{name}{n}" for n in range(fields)]
    return pressed_line(
        {"line": "set", "form": 0, "fields": names} | {f"f0.{x}": value for x in names}
    )


def understood(line: str) -> Any:
    return understand(line, NOW).arguments


def drawn(*blocks: Any) -> list[str]:
    return of_card(render(Card("t", blocks=blocks)))


WIDE = tuple(Heading(f"c{n}") for n in range(9))
ROWS = tuple((str(n),) for n in range(41))
BARS = tuple(float(n + 1) for n in range(31))


def bars(count: int, series: int = 1) -> Mapping[str, Any]:
    chart = Chart(ChartKind.BAR, "t", "", tuple(Series(f"s{n}", BARS[:count]) for n in range(series)), categories=tuple(f"b{n}" for n in range(count)))  # fmt: skip
    return next(x for x in render(Card("t", blocks=(chart,)))["body"] if x["type"].startswith("Chart"))  # fmt: skip


FITS: list[tuple[Callable[[], object], object]] = [
    # What Teams sends.
    (lambda: read(value=nested(32)).id, "a1"),
    (lambda: mentioned(50), 50),
    (lambda: mentioned(51), 50),
    (lambda: len(teams_line(read(text="x" * 4_000))), 4_000),
    (lambda: len(teams_line(read(text="x" * 4_001))), 4_000),
    (lambda: teams_line(read(text="<b>" * 6_666 + "xy")), "xy"),
    (lambda: teams_line(read(text="<b>" * 6_666 + "xyz")), "xy"),
    (lambda: len(pressed_line({"line": "x" * 4_001})), 4_000),
    (lambda: pressed(40).count("="), 40),
    (lambda: pressed(41).count("="), 40),
    (lambda: len(pressed(1, "x" * 1_000)), len("set f0=") + 1_000),
    (lambda: len(pressed(1, "x" * 1_001)), len("set f0=") + 1_000),
    (lambda: pressed(1, name="n" * 99).count("="), 1),
    (lambda: pressed(1, name="n" * 100).count("="), 0),
    # What Teams shows.
    (lambda: [len(x["actions"]) for x in action_rows([{"title": ""}] * 7)], [6, 1]),
    (lambda: len(render(Card("t" * 301))["body"][0]["items"][0]["inlines"][0]["text"]), 300),
    (lambda: len(drawn(Buttons((Button("far", "x" * 4_000),)))), 2),
    (lambda: len(drawn(Buttons((Button("far", "x" * 4_001),)))), 1),
    (lambda: drawn(Table(WIDE[:8], (("x",) * 8,)))[1:], ["(table: c0 | c1 | c2 | c3 | c4 | c5 | c6 | c7; 1 rows)"]),
    (lambda: drawn(Table(WIDE, (("x",) * 9,)))[1:], ["(table: c0 | c1 | c2 | c3 | c4 | c5 | c6 | c7; 1 rows)", "~ 1 more columns not shown"]),
    (lambda: drawn(Table(WIDE[:1], ROWS[:40]))[1:], ["(table: c0; 40 rows)"]),
    (lambda: drawn(Table(WIDE[:1], ROWS, rest="more"))[1:], ["(table: c0; 40 rows)", "~ more; and 1 more rows"]),
    (lambda: len(table_elements(Table(WIDE[:1], (("x" * 201,),)), rich=False)[0]["rows"][1]["cells"][0]["items"][0]["inlines"][0]["text"]), 200),
    (lambda: len(bars(30)["data"]), 30),
    (lambda: len(bars(31)["data"]), 30),
    (lambda: len(bars(2, 8)["data"]), 8),
    (lambda: len(bars(2, 9)["data"]), 8),
    (lambda: len(drawn(*[Facts(((str(n), "x" * 1_001),)) for n in range(2)])), 3),
    (lambda: len(form_elements(Form("t", "set", (Field("c", "c", FieldKind.CHOICE, "", tuple((str(n), "") for n in range(101))),)), 0, stands=False)[1]["choices"]), 100),
    (lambda: len(paragraph(Text(tuple(str(n) for n in range(61))), Mentions())["inlines"]), 60),
    (lambda: paragraph(Text((*["x"] * 60, Mention("teams:29:1", "Kim"))), Mentions())["type"], "RichTextBlock"),
    (lambda: paragraph(Text((*["x"] * 59, Mention("teams:29:1", "Kim"))), Mentions())["type"], "TextBlock"),
    (lambda: len(paragraph(text("x" * 4_001), Mentions())["inlines"][0]["text"]), 4_000),
    # What Slack sends and shows.
    (lambda: len(parse_line("x" * 3_001)), 3_000),
    (lambda: len(parse_line("&amp;" * 2_400)), 2_400),
    (lambda: parse_line("x " + " " * 11_998 + "y"), "x"),
    (lambda: without_mention("<@U1> x" + " " * 12_000), "x" + " " * 12_000),
    (lambda: Origin.load(Origin("C1", "", "x" * 2_944).dump()).channel, "C1"),
    (lambda: (size("😀a"), cut("😀" * 3, 6), cut("😀" * 4, 6)), (3, "😀😀😀", "😀😀…")),
    (lambda: cut("abcd", 4), "abcd"),
    (lambda: cut("abcde", 4), "abc…"),
    # What the grammar takes.
    (lambda: understood(f"help {'x' * (LONGEST - 5)}")["name"][:1], "x"),
    (lambda: attempted("cost " + "x" * LONGEST).name, "cost"),
    (lambda: len(understood("cost " + " ".join(f"t{n}=1" for n in range(20)))["where"]), 20),
    (lambda: len(understood("cost team=" + ",".join("x" * 50))["where"][0].values), 50),
    (lambda: understood("cost by a,b,c,d")["by"], tuple("abcd")),
    (lambda: understood("cost 1830d")["window"].length, timedelta(days=1_830)),
]  # fmt: skip
BEYOND: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: read(value=nested(33)), WrongInput, "nested more than 32 deep"),
    (lambda: read(**{"from": {}}), WrongInput, "names no sender"),
    (lambda: read(type=""), WrongInput, "lacks its type"),
    (lambda: read(recipient={}), WrongInput, "lacks its type"),
    (lambda: read(channelId="a b"), WrongInput, "channelId is not a name"),
    (lambda: read(conversation=[]), WrongInput, "not an activity"),
    (lambda: Origin.load(Origin("C1", "", "x" * 3_000).dump()), ValueError, "longer than Slack keeps"),
    (lambda: understood(f"help {'x' * (LONGEST - 4)}"), WrongInput, "keep it under 3000"),
    (lambda: understood("cost " + " ".join(f"t{n}=1" for n in range(21))), WrongInput, "20 filters at most; got 21"),
    (lambda: understood("cost team=" + ",".join("x" * 51)), WrongInput, "50 values at most; team got 51"),
    (lambda: understood("cost by a,b,c,d,e"), WrongInput, "4 values at most; got 5"),
    (lambda: understood("cost 1831d"), WrongInput, "1,830 days long at most"),
]  # fmt: skip


@in_one_run
@pytest.mark.parametrize(("doing", "expected"), FITS)
def test_what_just_fits_is_taken_and_more_is_cut(
    doing: Callable[[], object], expected: object
) -> None:
    assert doing() == expected


@in_one_run
@pytest.mark.parametrize(("doing", "kind", "words"), BEYOND)
def test_what_is_beyond_is_refused_in_words(
    doing: Callable[[], object], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind) as refused:
        doing()
    assert words in str(refused.value)


def test_a_share_is_used_up_at_its_edge_and_comes_back_evenly() -> None:
    bucket = Bucket(2, 60, 0.0)
    for _ in range(2):
        assert bucket.seconds_until(1, 0.0) == 0
        bucket.take(1, 0.0)
    assert [bucket.seconds_until(1, at) for at in (0.0, 0.5, 1.0, 9.0)] == [1.0, 0.5, 0.0, 0.0]
    assert bucket.left(99.0) == 2
    bucket.resize(5, 60)
    assert (bucket.left(99.0), bucket.left(101.0)) == (5, 5)

    shares = Shares(Limits(people=2), lambda: 0.0)
    for person in ("a", "b", "c"):
        shares.begin(person, "slack", Lane.QUICK)
    assert set(shares._people) == {"a", "b", "c"}, "whoever asks still is forgotten by nobody"
    shares.end("a", Lane.QUICK, 1)
    shares.begin("d", "slack", Lane.QUICK)
    assert set(shares._people) == {"b", "c", "d"}
