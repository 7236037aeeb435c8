"""Each way of writing something, on both sides of each of its edges."""

from __future__ import annotations

import inspect
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest

from bot.cards import alert_words, charts, columns, lines, words
from bot.cards.card import (
    Align,
    Button,
    Buttons,
    Card,
    Chart,
    ChartKind,
    Field,
    Form,
    Heading,
    Series,
    ShareButton,
    Strong,
    Style,
    Table,
    Text,
    Tone,
    plain,
    text,
)
from bot.cards.columns import Column, Columns
from bot.model.anomaly import AtRisk
from bot.model.causes import Cause
from bot.model.claims import Note
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.notification import Coverage, Known
from bot.model.spend import Filter
from bot.model.window import Window
from tests.builders import alert, anomaly
from tests.cases import in_one_run

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
MIDNIGHT = datetime(2026, 11, 20, tzinfo=UTC)
SECOND, MINUTE, HOUR, DAY = (timedelta(seconds=n) for n in (1, 60, 3600, 86_400))
PARTLY = Coverage(Known.PARTLY, "Half of it is silent.")


def span(start: datetime, length: timedelta) -> Window:
    return Window(start, start + length)


def of(*values: float | None, unit: str = "", kind: ChartKind = ChartKind.LINE) -> Chart:
    return Chart(kind, "", unit, (Series("a", values),))


def note_of(asof: date) -> Note:
    return Note(
        source="AWS", asof=asof, topic="market", subject="spot", says="It is sold", state="GA"
    )


ROW = (Heading("x"), Heading("y"), Heading("n", Align.RIGHT))
WRITTEN = [
    (words.doubted, ("calm", "unknown", Coverage()), "calm"),
    (words.doubted, ("calm", "unknown", PARTLY), "calm, as far as could be read"),
    (words.doubted, ("calm", "unknown", Coverage(Known.UNKNOWN, "x")), "unknown"),
    (words.unseen, (Coverage(),), ()),
    (words.unseen, (PARTLY,), (text("Half of it is silent."),)),
    (words.ended, ("Why",), "Why."),
    (words.ended, ("Why.",), "Why."),
    (words.ended, ("Why?",), "Why?"),
    (words.noted, ("",), ""),
    (words.noted, ("moving data",), ": moving data"),
    (words.row_words, (("a", "b", "1"), ROW), ("a", ["b", "n 1"])),
    (words.row_words, (("", "", "–"), ROW), ("–", [])),
    (words.row_words, (("a", "1", "b"), (Heading("x"), Heading("n", Align.RIGHT))), ("a", ["1"])),
    (words.committed_words, (Decimal(100), Decimal("0.99")), ""),
    (
        words.committed_words,
        (Decimal(100), Decimal(1)),
        "$1.00 of the $100 an hour is committed and billed either way: stopping saves $99.00 an"
        " hour, more if other work uses the commitment.",
    ),
    (
        words.committed_words,
        (Decimal(100), Decimal(99), date(2026, 12, 1)),
        "$99.00 of the $100 an hour is committed until Dec 1, 2026 and billed either way: stopping"
        " saves nothing, more if other work uses the commitment.",
    ),
    (words.period, (Window(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)),),
     "November 2026"),
    (words.period, (span(MIDNIGHT, DAY),), "Nov 20, 2026"),
    (words.period, (span(MIDNIGHT, 2 * DAY),), "Nov 20 to 21, 2026"),
    (words.period, (span(MIDNIGHT, 12 * DAY),), "Nov 20 to Dec 1, 2026"),
    (words.period, (span(MIDNIGHT, 43 * DAY),), "Nov 20, 2026 to Jan 1, 2027"),
    (words.period, (span(NOON, 2 * DAY),), "2 days to Nov 22, 12:00 UTC"),
    (words.period, (span(NOON, 3 * DAY),), "3 days to Nov 23, 12:00 UTC"),
    (words.period, (span(NOON, 49 * HOUR),), "Nov 20, 12:00 to Nov 22, 13:00 UTC"),
    (words.period, (span(NOON, 90 * MINUTE),), "Nov 20, 12:00 to Nov 20, 13:30 UTC"),
    (
        words.period,
        (span(NOON, 42 * DAY + MINUTE),),
        "Nov 20, 12:00 2026 to Jan 1, 12:01 UTC",
    ),
    (words.in_period, (Window(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)),),
     "in November 2026"),
    (words.in_period, (span(MIDNIGHT, DAY),), "on Nov 20, 2026"),
    (words.in_period, (span(MIDNIGHT, 2 * DAY),), "from Nov 20 to 21, 2026"),
    (words.in_period, (span(NOON, 2 * DAY),), "in the 2 days to Nov 22, 12:00 UTC"),
    (words.about, (Decimal(271_828),), "$272,000"),
    (words.about, (Decimal("9.876"),), "$9.88"),
    (words.quantity, (0.205, "%"), "20 %"),
    (words.quantity, (59.9, "seconds"), "59.9 s"),
    (words.quantity, (60, "seconds"), "1 min"),
    (words.quantity, (1.005, "USD per day"), "$1.00 a day"),
    (words.quantity, (2, "USD per hour"), "$2.00 an hour"),
    (words.quantity, (1, "count"), "1 event"),
    (words.quantity, (0, "count"), "0 events"),
    (words.quantity, (0.5, "score"), "0.5"),
    (words.quantity, (0.5, "GB/s"), "0.5 GB/s"),
    (words.growth, (Decimal("0.005"),), "under 1 %"),
    (words.growth, (Decimal("0.0051"),), "1 %"),
    (words.percent, (0.005,), "under 1 %"),
    (words.percent, (0.996,), "over 99 %"),
    (words.percent, (21.64,), "2,164 %"),
    (words.growth, (Decimal("0.00499"),), "under 1 %"),
    (words.growth, (Decimal("99.99"), 0), "9,999 %"),
    (words.growth, (Decimal(100),), words.ALMOST_NOTHING),
    (words.growth, (Decimal(-100),), words.ALMOST_NOTHING),
    (words.moved, (Decimal("0.18"),), "up 18 % from"),
    (words.moved, (Decimal("-0.18"),), "down 18 % from"),
    (words.moved, (Decimal("0.0049"),), "unchanged from"),
    (words.moved, (Decimal("-0.0049"),), "unchanged from"),
    (words.moved, (Decimal(200),), "up from almost nothing in"),
    (words.plural, ("item of the bill",), "items of the bill"),
    (words.plural, ("node",), "nodes"),
    (words.figures, (99.96,), "100"),
    (words.figures, (0.000412,), "0.000412"),
    (words.figures, (12_345.6,), "12,346"),
    (words.amount_in, (Decimal("1234.5"), "USD"), "$1,234"),
    (words.amount_in, (Decimal("1234.5"), "EUR"), "1,234.50 EUR"),
    (words.about_in, (Decimal("1234.5"), "USD"), "$1,230"),
    (words.about_in, (Decimal("1234.5"), "EUR"), "1,234.50 EUR"),
    (words.PriceAge(date(2026, 11, 20), 90).of, (date(2026, 8, 22),), ""),
    (words.PriceAge(date(2026, 11, 20), 90).of, (date(2026, 8, 21),), ", 91 days old: check it"),
    (words.cited, (note_of(date(2025, 11, 20)), date(2026, 11, 20)), "AWS, Nov 20, 2025"),
    (
        words.cited,
        (note_of(date(2025, 11, 19)), date(2026, 11, 20)),
        "AWS, Nov 19, 2025, 366 days old: check it",
    ),
    (words.note_lines, ((), date(2026, 11, 20), "Notes"), []),
    (
        words.note_lines,
        ((note_of(date(2026, 11, 1)),), date(2026, 11, 20), "Notes"),
        [
            text(Strong("Notes")),
            text(Strong("spot"), ": It is sold (GA; AWS, Nov 1, 2026)."),
        ],
    ),
    (words.spoken, ("tag:business_unit",), "business unit"),
    (words.grouped_words, ((),), ""),
    (words.grouped_words, (("tag:cost_center",),), " · by cost center"),
    (words.grouped_words, (("team", "instance_type"),), " · by team, instance type"),
    (words.short, ("abcd", 4), "abcd"),
    (words.short, ("abcde", 4), "abc…"),
    (words.few, (["a", "b"], 2), ["a", "b"]),
    (words.few, (["a", "b", "c"], 2), ["a", "b", "and 1 more"]),
    (words.few, (["a", "b", "c"], 1, "rule"), ["a", "and 2 more rules"]),
    # The axes of charts.
    (charts.extent, (of(3.0, None, float("nan")),), (0.0, 3.0)),
    (charts.extent, (of(-2.0, unit="%"),), (-2.0, 100.0)),
    (charts.extent, (of(100.0, unit="%"),), (0.0, 100.0)),
    (charts.extent, (of(101.0, unit="%"),), (0.0, 101.0)),
    (charts.extent, (of(0.0),), (0.0, 1.0)),
    (charts.extent, (Chart(ChartKind.LINE, "", "", (Series("a", (1.0,)),), band=(2.0, 4.0)),),
     (0.0, 4.0)),
    (
        charts.extent,
        (Chart(ChartKind.LINE, "", "", (Series("a", (5.0,)), Series("b", (7.0,)))),),
        (0.0, 7.0),
    ),
    (charts.marks, (of(1.0, 2.0),), (0.0, 1.0, 2.0)),
    (charts.marks, (of(0.5, 1.0),), (0.0, 0.25, 0.5, 0.75, 1.0)),
    (charts.counts, (of(1.0, None, float("nan")),), True),
    (charts.counts, (of(1.5),), False),
    (charts.counts, (of(1.0, unit="$"),), False),
    (
        charts.flows,
        (
            Chart(
                ChartKind.FLOW,
                "",
                "$",
                (Series("a", (1.0, -1.0, None)), Series("b", (float("inf"), 2.0))),
                categories=("x", "y", "z"),
            ),
        ),
        [[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]],
    ),
    (charts.named, (of(1.0),), False),
    (charts.named, (Chart(ChartKind.LINE, "", "", (Series("a", (1.0,), Tone.GOOD),)),), True),
    (charts.named, (Chart(ChartKind.LINE, "", "", (Series("a", ()), Series("b", ()))),), True),
    (charts.ticks, (0.0, 4.0), (0.0, 1.0, 2.0, 3.0, 4.0)),
    (charts.ticks, (0.0, 4.1), (0.0, 2.0, 4.0, 6.0)),
    (charts.ticks, (0.0, 9.0, 5, 1.0), (0.0, 2.5, 5.0, 7.5, 10.0)),
    (
        charts.time_ticks,
        (MIDNIGHT, MIDNIGHT + 6 * HOUR),
        tuple(
            (MIDNIGHT + n * HOUR, "Nov 20" if n == 0 else f"{n:02}:00") for n in range(7)
        ),
    ),
    (
        charts.time_ticks,
        (MIDNIGHT + SECOND, MIDNIGHT + 6 * HOUR + MINUTE),
        tuple((MIDNIGHT + n * HOUR, f"{n:02}:00") for n in (2, 4, 6)),
    ),
    (charts.figure, (9.999, "$"), "$10"),
    (charts.figure, (9.99, "$"), "$9.99"),
    (charts.figure, (99.96, "s"), "100.0 s"),
    (charts.figure, (100.4, "s"), "100 s"),
    (charts.figure, (0.99, "s"), "0.99 s"),
    (charts.figure, (-1.5, "$/h"), "-$1.50/h"),
    (charts.span, (85, 95, "%"), "85-95 %"),
    (charts.span, (3, 5, "$/h"), "$3-5/h"),
    (charts.tick_labels, ((0.0, 1000.0), "s"), ("0", "1k s")),
    (charts.tick_labels, ((0.0, 40.0), "%"), ("0 %", "40 %")),
    (charts.amount, (3.0, "%"), "3 %"),
    (charts.amount, (3.0, "s"), "3"),
    (charts.brief, (999.6, "$"), "$1,000"),
    (charts.brief, (34_561.0, "$"), "$34.6k"),
    (charts.brief, (34_561.0, "s"), "34.6k"),
    (charts.shade, (None,), None),
    (charts.shade, (float("nan"),), None),
    (charts.shade, (19.9,), 0),
    (charts.shade, (20.0,), 1),
    (charts.shade, (100.0,), 4),
    (charts.shade, (-1.0,), 0),
    (charts.tick_label, (999.0, ""), "999"),
    (charts.tick_label, (1e3, ""), "1k"),
    (charts.tick_label, (1e6, "$/h"), "$1M/h"),
    (charts.tick_label, (-2.5e9, "B"), "-2.5B B"),
    (charts.shorten, ("abcdefghij", 10), "abcdefghij"),
    (charts.shorten, ("abcdefghijk", 10), "abcdef…ijk"),
    (charts.thinned, (0, 5), 1),
    (charts.thinned, (5, 5), 1),
    (charts.thinned, (6, 5), 2),
    (charts.thinned, (6, 0), 6),
    (charts.newest, ([1.0, None],), (0, 1.0)),
    (charts.is_reading, (0.0,), True),
    (charts.unit_of, ("net_bytes_per_second",), ("GB/s", 1e-9)),
    (charts.unit_of, ("step_seconds",), ("s", 1.0)),
    (charts.unit_of, ("used_bytes",), ("GiB", 2.0**-30)),
    (charts.unit_of, ("spend_usd",), ("$", 1.0)),
    (charts.unit_of, ("used_ratio",), ("%", 100.0)),
    (charts.unit_of, ("queue",), ("", 1.0)),
    (charts.name_of, ("step_seconds",), "Step"),
    (charts.name_of, ("efa_rx_bytes_per_second",), "Efa rx"),
    # Lines that the grammar reads back.
    (lines.visible, ("a\u202eb\x1b[0m\tc\nd\u200d",), "ab[0m\tc\nd\u200d"),
    (lines.quote, ("",), '""'),
    (lines.quote, ("a-b",), "a-b"),
    (lines.quote, ('a "b"\\',), '"a \\"b\\"\\\\"'),
    (lines.quote, ("a=b",), '"a=b"'),
    (lines.form_line, ("set", {"a": "1", "b": "", "c": "x y"}), 'set a=1 c="x y"'),
    (lines.filter_line, (Filter("team", ("a", "b"), negated=True),), "team!=a,b"),
    (lines.filter_line, (Filter("team", ("",)),), "team="),
    (lines.filter_line, (Filter("team", ("a b",)),), 'team="a b"'),
    (lines.cost_line, ("7d", ()), "cost 7d"),
    (
        lines.cost_line,
        ("7d", ("team", "zone"), [Filter("job", ("x",))]),
        "cost 7d by team,zone job=x",
    ),
    (lines.window_line, (span(MIDNIGHT, DAY),), "2026-11-20"),
    (lines.window_line, (span(MIDNIGHT, 2 * DAY),), "2026-11-20..2026-11-21"),
    (lines.window_line, (span(MIDNIGHT, 12 * HOUR),), "2026-11-20T00:00..2026-11-20T12:00"),
    (lines.window_line, (span(NOON, DAY + SECOND),), "2026-11-20T12:00..2026-11-21T12:00:01"),
    (lines.window_line, (span(NOON, DAY),), "2026-11-20T12:00..2026-11-21T12:00"),
    (lines.window_line, (Window(MIDNIGHT, MIDNIGHT),), "2026-11-20T00:00..2026-11-20T00:00"),
    (lines.spreadsheet, ("ä",), b"\xef\xbb\xbf\xc3\xa4"),
    (lines.file_name, (" cost 7d by=team!",), "trnbot-cost-7d-by-team.csv"),
    (lines.file_name, ("x" * 81,), f"trnbot-{'x' * 80}.csv"),
]  # fmt: skip
CARDS = {
    words.as_read,
    words.amount_of,
    words.money_data,
    charts.alert_chart,
    charts.belongs,
    lines.with_share,
    lines.with_file,
    lines.without_details,
    lines.with_details,
    lines.with_permalink,
    lines.without_share,
}
"""What makes of a card, a bill or an alert another one; tried below, or with the cards."""


def test_every_way_of_writing_is_tried():
    public = {
        function
        for module in (words, charts, lines)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
    tried = {function for function, _, _ in WRITTEN if inspect.isfunction(function)}
    assert public == tried | CARDS


@in_one_run
@pytest.mark.parametrize(("function", "arguments", "expected"), WRITTEN)
def test_it_is_written_as_people_say_it(function, arguments, expected):
    assert function(*arguments) == expected


UNITS = [
    (columns.TEXT, "a", "a", "a"),
    (columns.DAY, NOON, "Nov 20", NOON),
    (columns.DURATION, timedelta(hours=2, minutes=5), "2 h 5 min", 7500.0),
    (columns.NUMBER, 1234, "1234", 1234),
    (columns.COUNT, 1234, "1,234", 1234),
    (columns.HOURS, 1234.5678, "1,234.6", 1234.57),
    (columns.MEGABYTES, 12_345_678, "12", 12_345_678),
    (columns.SHARE, 0.12345, "12 %", 0.12345),
    (columns.TIMES, 1.5, "1.50x", 1.5),
    (columns.RATIO, 0.123456, "12 %", 0.1235),
    (columns.USD, Decimal("1234.567"), "$1,235", Decimal("1234.567")),
    (columns.USD_CENTS, Decimal("1234.567"), "$1,234.57", Decimal("1234.567")),
]


def test_every_unit_is_written_on_the_card_and_kept_in_data():
    known = {unit for unit in vars(columns).values() if isinstance(unit, columns.Unit)}
    assert known == {unit for unit, _, _, _ in UNITS}
    for unit, value, written, stored in UNITS:
        column = Column("x", lambda item: item, unit, "x")
        assert (column.cell(value), column.datum(value)) == (written, stored), written
        assert (column.cell(None), column.datum(None)) == ("–", None)


ITEMS = [("a", Decimal(1)), ("b", None), ("", Decimal("2.5"))]
TABLE = Columns(
    Column("name", lambda item: item[0], key="name", missing="(none)"),
    Column("$", lambda item: item[1], columns.USD, "usd", "as billed", total=True),
    Column("double", lambda item: item[1] and 2 * item[1]),
    columns.datum("twice", lambda item: item[0] * 2, "the name, twice"),
)


def test_a_table_is_drawn_added_up_and_kept_by_its_columns():
    whole = TABLE.table(ITEMS, total="sum", caption="c")
    assert [x.name for x in whole.columns] == ["name", "$", "double"]
    assert whole.rows == (("a", "$1.00", "2"), ("b", "–", "–"), ("(none)", "$2.50", "5.0"))
    assert (whole.total, whole.caption, whole.rest) == (("sum", "$3.50", ""), "c", "")
    assert TABLE.data(ITEMS)[1:] == [
        {"name": "b", "usd": None, "twice": "bb"},
        {"name": "", "usd": Decimal("2.5"), "twice": ""},
    ]
    assert TABLE.sources("t") == {"t/usd": "as billed", "t/twice": "the name, twice"}
    assert [x.key for x in TABLE.pick("usd", "name").columns] == ["usd", "name"]


@in_one_run
@pytest.mark.parametrize(
    ("most", "noun", "drawn", "rest"),
    [
        (3, "", 3, ""),
        (2, "", 2, "and 1 more"),
        (1, "node", 1, "and 2 more nodes"),
        (None, "", 3, ""),
    ],
)
def test_a_table_says_how_many_it_leaves_out(most, noun, drawn, rest):
    table = TABLE.table(ITEMS, most=most, noun=noun, total="sum")
    assert (len(table.rows), table.rest, table.total[1]) == (drawn, rest, "$3.50")

    # What opens a line is folded and not left out: a page shows all of it.
    opened = TABLE.table(ITEMS, most=most, noun=noun, opens=lambda item: f"show {item[0]}")
    assert (len(opened.rows), len(opened.every or opened.rows), opened.rest) == (drawn, 3, rest)
    assert opened.lines == ("show a", "show b", "show ")


PLAIN = Card("t", blocks=(text("a"), Table((), ()), Buttons((Button("B", "b"),))))
DETAILED = Card("t", blocks=(text("a"), Text(("d",), Style.DETAIL)))
FORM = Card("t", blocks=(Form("t", "set", (Field("x", "X"),)),))
LONG = "x" * lines.LONGEST_SHARED


def buttons(card: Card) -> list[str]:
    return [button.line for block in card.each(Buttons) for button in block.buttons]


@in_one_run
@pytest.mark.parametrize(
    ("add", "button"),
    [
        (lines.with_share, "share {}"),
        (lines.with_file, "csv {}"),
        (lines.without_details, "details {}"),
    ],
)
def test_a_button_comes_last_where_its_line_fits_and_the_card_is_an_answer(add, button):
    card = DETAILED if add is lines.without_details else PLAIN
    for line in ("cost", LONG):
        assert buttons(add(card, line))[-1:] == [button.format(line)]
        assert isinstance(add(card, line).blocks[-1], Buttons)
    for unfit in (FORM, Card("t", tone=Tone.ERROR, blocks=(text("a"),)), Card("t")):
        if add is not lines.with_share or unfit.blocks:
            assert add(unfit, "cost") == unfit
    assert add(card, f"{LONG}x") == card


def test_details_are_shown_or_left_out_whole():
    shown = lines.with_details(DETAILED)
    assert [block.style for block in shown.blocks] == [Style.NORMAL, Style.QUIET]
    assert lines.without_details(DETAILED, "").blocks == DETAILED.blocks
    assert lines.without_details(DETAILED, "x").blocks[:-1] == (text("a"),)


def test_a_permalink_stands_before_the_last_buttons():
    url = "https://x.example/?q=cost"
    kinds = [type(block).__name__ for block in lines.with_permalink(PLAIN, url).blocks]
    assert kinds == ["Text", "Table", "Text", "Buttons"]
    assert lines.with_permalink(PLAIN, "") == PLAIN
    assert lines.with_permalink(FORM, url) == FORM
    assert len(lines.with_permalink(Card("t"), url).blocks) == 1


def test_what_all_can_see_is_shared_no_more():
    shared = Card("t", blocks=(Buttons((Button("B", "b"), ShareButton("Share", "share x"))),))
    assert buttons(lines.without_share(shared)) == ["b"]
    public = Card("t", blocks=(text("a"),), public=True)
    assert lines.with_share(public, "cost") == public


@in_one_run
@pytest.mark.parametrize(
    ("ago", "first"),
    [
        (timedelta(minutes=30), timedelta(hours=6)),
        (timedelta(hours=5), timedelta(hours=6)),
        (timedelta(hours=6), timedelta(hours=7)),
        (timedelta(hours=47), timedelta(hours=48)),
        (timedelta(days=5), timedelta(hours=48)),
    ],
)
def test_a_chart_shows_six_hours_or_an_hour_before_the_onset_of_two_days_at_most(ago, first):
    step = timedelta(minutes=30)
    found = anomaly(n=1, window=Window(NOON - ago, NOON))
    things = (Labels(instance=found.things[0]), Labels(instance="i-other"))
    steps = 8 * 48
    values = np.full((1, steps, 2), 0.2, dtype=np.float32)
    frame = Frame(
        "node", things, NOON - steps * step, step, (found.metric,), values.transpose(2, 1, 0)
    )
    chart = charts.alert_chart(alert(found, opened=NOON), {"node": frame})
    assert chart.times[0] == NOON - first + step
    assert chart.times[-1] == NOON
    assert chart.shaded.start == NOON - ago


def test_work_at_risk_is_a_warning_while_it_may_be_lost_and_a_fact_afterwards():
    risk = AtRisk(("i-1", "i-2"), 2.5)
    found = alert(anomaly(at_risk=risk), at_risk_usd=Decimal("1234"))
    (open_now,), (over,) = (
        alert_words.risk_texts(found),
        alert_words.risk_texts(alert(found.anomaly, at_risk_usd=found.at_risk_usd, closed=NOON)),
    )
    work = " of work on 2 nodes since the newest checkpoint, 2 h 30 min"
    assert plain(open_now.spans) == f"At risk: $1,234{work} ago; estimated."
    assert plain(over.spans) == f"At risk were $1,234{work} before its end; estimated."
    assert (open_now.style, over.style) == (Style.LEAD, Style.NORMAL)
    assert alert_words.risk_texts(alert()) == []
    assert alert_words.risk_texts(alert(found.anomaly, at_risk_usd=Decimal(0))) == []


def test_a_row_that_lost_all_its_buttons_is_gone():
    card = Card(
        "t", blocks=(Buttons((Button("A", "a"),)), Buttons((Button("A", "a"), Button("B", "b"))))
    )
    assert card.without_buttons(lambda button: button.line == "a").blocks == (
        Buttons((Button("B", "b"),)),
    )


def test_what_to_do_names_a_line_that_asks_about_the_alert_itself():
    scope = Labels(service="Amazon Simple Storage Service", region="us-west-2")
    spend = alert(
        anomaly(
            Cause.SPEND_JUMP,
            kind="spend",
            scope=scope,
            labels=scope.merge(Labels(cluster="serving")),
            suggestions=Cause.SPEND_JUMP.facts.suggestions,
        )
    )
    assert alert_words.remedies(spend) == (
        "Open `cost 7d by usage_type region=us-west-2"
        ' service="Amazon Simple Storage Service"`; compare with what was launched that day.',
    )
    assert alert_words.subject_of(spend) == "Amazon Simple Storage Service"
    assert alert_words.subject_of(alert()) == "llama"
