import itertools
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from adapters.charts.svg import Canvas, svg
from bot.cards.card import Chart, ChartKind, Series, Tone
from bot.model.window import clock
from tests.e2e import samples

LINE, BARS = samples.line_chart(), samples.bar_chart()


def read(chart):
    return ElementTree.fromstring(str(svg(chart, Canvas())))


def found(chart, tag, kind):
    return [e for e in read(chart).iter(tag) if kind in e.get("class", "").split()]


@pytest.mark.parametrize(
    "chart",
    [
        LINE,
        BARS,
        samples.heat_chart(),
        replace(LINE, series=(Series("a", (None,) * 73),)),
        replace(LINE, times=LINE.times[:1], series=(Series("a", (1.0,)),)),
        replace(LINE, times=(), series=()),
        replace(BARS, categories=()),
        Chart(
            ChartKind.BAR,
            "c",
            "$",
            (Series("a", (-5.0, float("nan"), 3.0)),),
            categories=("x", "y", "z"),
        ),
    ],
)
def test_every_chart_is_well_formed_and_named(chart):
    drawn = read(chart)
    assert drawn.find("title").text == chart.title
    assert (drawn.find("desc").text or "") == chart.summary
    assert drawn.get("role") == "img"
    assert "nan" not in str(svg(chart, Canvas()))


def test_a_gap_breaks_the_line():
    paths = found(LINE, "path", "s0")
    assert paths[0].get("d").count("M") == 2


def test_a_reading_alone_between_gaps_is_a_dot():
    chart = replace(
        LINE, times=LINE.times[:3], series=(Series("a", (None, 4.0, None)),), shaded=None
    )
    assert found(chart, "path", "s0")[0].get("d").endswith("h0")


def test_the_incident_says_since_when_and_what_is_now():
    words = [e.text for e in read(LINE).iter("text")]
    assert "since 14:00" in words
    assert "20 %" in words
    assert "85-95 %" in words
    assert len(found(LINE, "path", "alarm")) == 1


def test_each_time_and_each_bar_tells_its_values():
    assert [e.find("title").text for e in found(LINE, "rect", "hit")][
        -1
    ] == "Nov 20, 14:25 UTC · 20 %"
    assert [e.find("title").text for e in found(LINE, "rect", "hit")][30].endswith("no reading")
    assert (
        found(BARS, "rect", "hit")[0]
        .find("title")
        .text.startswith("13 Nov · research $21,400; speech $8,200")
    )


def test_stacks_stand_on_each_other():
    first = found(BARS, "rect", "bar")[:4]
    for lower, upper in itertools.pairwise(first):
        top = float(upper.get("y")[:-1]) + float(upper.get("height")[:-1])
        assert top == pytest.approx(float(lower.get("y")[:-1]), abs=0.02)


def test_what_is_below_zero_hangs_under_the_line_that_the_others_stand_on():
    stack = (Series("usage", (100.0,)), Series("credits", (-20.0,)), Series("refunds", (-10.0,)))
    chart = Chart(ChartKind.BAR, "c", "$", stack, categories=("Nov",))
    (zero,) = {float(e.get("y1")[:-1]) for e in found(chart, "line", "base")}
    usage, credits, refunds = (
        (float(e.get("y")[:-1]), float(e.get("y")[:-1]) + float(e.get("height")[:-1]))
        for e in found(chart, "rect", "bar")
    )
    assert usage[1] == credits[0] == pytest.approx(zero, abs=0.02)
    assert refunds[0] == pytest.approx(credits[1], abs=0.02)
    assert refunds[1] > credits[1]


FLOW = Chart(
    ChartKind.FLOW,
    "f",
    "$",
    (Series("work", (60.0, 20.0)), Series("idle", (0.0, 20.0))),
    categories=("llama", "vision"),
)


def test_bands_of_a_flow_are_as_high_as_their_values_and_meet_both_sides():
    bars = [e for e in read(FLOW).iter("rect") if e.get("class") != "paper"]
    heights = [float(e.get("height")[:-1]) for e in bars]
    assert heights == pytest.approx([x * heights[0] / 60 for x in (60, 40, 80, 20)], abs=0.05)
    bands = [e.find("title").text for e in read(FLOW).iter("path")]
    assert bands == ["llama · work $60", "vision · work $20", "vision · idle $20"]
    words = [e.text for e in read(FLOW).iter("text")]
    assert words == ["llama 60 %", "vision 40 %", "work 80 %", "idle 20 %"]


def test_names_of_small_parts_of_a_flow_stand_apart_within_the_picture():
    small = tuple(Series(f"s{i}", (1.0,)) for i in range(6))
    drawn = read(replace(FLOW, series=(Series("work", (900.0,)), *small), categories=("all",)))
    height = float(drawn.get("height"))
    words = [e for e in drawn.iter("text") if e.get("text-anchor") == "start"]
    assert [e.text for e in words[:2]] == ["work 99 %", "s0 under 1 %"]
    places = [float(e.get("y")[:-1]) for e in words]
    assert len(places) == 7
    assert max(places) <= 100
    assert min(b - a for a, b in itertools.pairwise(places)) * height / 100 >= 13


def test_labels_of_many_lines_do_not_touch():
    chart = Chart(
        ChartKind.LINE,
        "t",
        "%",
        tuple(Series(f"n{i}", (50.0, 50.0)) for i in range(6)),
        times=LINE.times[:2],
    )
    places = sorted(
        float(e.get("y")[:-1]) for e in read(chart).iter("text") if "now" in e.get("class", "")
    )
    assert min(b - a for a, b in itertools.pairwise(places)) > 5


def test_long_charts_stay_light():
    times = tuple(samples.NOW + samples.STEP * i for i in range(600))
    hits = found(
        replace(LINE, times=times, series=(Series("a", (1.0,) * 600),), shaded=None), "rect", "hit"
    )
    assert len(hits) <= 120
    assert hits[-1].find("title").text.startswith(f"{clock(times[-1])}")


def test_a_unit_in_words_stands_once_on_the_axis():
    chart = Chart(ChartKind.BAR, "t", "nodes", (Series("a", (64.0,)),), categories=("x",))
    words = [e.text for e in read(chart).iter("text")]
    assert [word for word in words if "nodes" in word] == ["80 nodes"]
    assert "64" in words


def test_a_heat_map_has_a_cell_an_hour_that_says_what_it_is():
    cells = found(samples.heat_chart(), "rect", "cell")
    assert len(cells) == 3 * 24
    assert [cells[i].find("title").text for i in (0, 23, 24)] == [
        "llama-70b · Nov 19, 15:00 UTC · 90 %",
        "llama-70b · Nov 20, 14:00 UTC · 20 %",
        "eval-sweep · Nov 19, 15:00 UTC · no reading",
    ]
    assert [cells[i].get("class").split()[-1] for i in (0, 23, 24, 47)] == ["h4", "h1", "hx", "h0"]


def test_colours_follow_the_meaning_where_there_is_one():
    bars = Chart(
        ChartKind.BAR,
        "c",
        "$",
        (Series("busy", (5.0,), Tone.INFO), Series("idle", (3.0,))),
        categories=("x",),
    )
    assert [e.get("class") for e in read(bars).iter("rect") if "bar" in e.get("class")][:2] == [
        "bar t-info",
        "bar s1",
    ]
