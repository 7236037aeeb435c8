"""Who made a browser send a request, by every word of it; and each small piece of a page at its edge."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from adapters.web.auth import Guesses, Sender, _network, own_path, refusal, sender_of
from adapters.web.html import _groups, _headline, plain_json, spans, when
from adapters.web.links import _worth, address, controls_of, download, page_of, paged, span
from adapters.web.live import MOST, lead_of, standing
from bot.cards.card import (
    Align,
    Card,
    Chart,
    ChartKind,
    Code,
    Facts,
    Form,
    Heading,
    Link,
    Mention,
    Strong,
    Table,
    Text,
    Tone,
    When,
    text,
)
from bot.model.request import LineWindow
from bot.model.window import Window
from tests.cases import in_one_run

NOON = datetime(2026, 11, 20, 13, 0, 5, tzinfo=timezone(timedelta(hours=1)))
HOST, SITE, MODE, DEST = "Host", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"
OURS, THEIRS = "http://x.example", "http://evil.example"
PAGE = {MODE: "navigate", DEST: "document"}


@in_one_run
@pytest.mark.parametrize(
    ("headers", "get", "post"),
    [
        ({}, "DIRECT", "DIRECT"),
        ({SITE: "same-origin"}, "OWN", "OWN"),
        ({SITE: "none"}, "DIRECT", "DIRECT"),
        ({SITE: "cross-site", **PAGE}, "LINK", "OTHER"),
        ({SITE: "same-site", **PAGE}, "LINK", "OTHER"),
        ({SITE: "cross-site", MODE: "navigate", DEST: "iframe"}, "OTHER", "OTHER"),
        ({SITE: "cross-site", MODE: "no-cors", DEST: "document"}, "OTHER", "OTHER"),
        ({SITE: "cross-site"}, "OTHER", "OTHER"),
        ({"Origin": OURS}, "OWN", "OWN"),
        ({"Origin": OURS.upper()}, "OWN", "OWN"),
        ({"Origin": THEIRS}, "OTHER", "OTHER"),
        ({"Origin": "null"}, "OTHER", "OTHER"),
        ({"Origin": THEIRS, SITE: "same-origin"}, "OTHER", "OTHER"),
        ({"Origin": "http://[x"}, "OTHER", "OTHER"),
        ({"Referer": f"{OURS}/fleet"}, "OWN", "OWN"),
        ({"Referer": THEIRS, "Accept": "text/html,*/*"}, "LINK", "OTHER"),
        ({"Referer": THEIRS, "Accept": "image/*"}, "OTHER", "OTHER"),
        ({"Referer": THEIRS, "Origin": OURS}, "OWN", "OWN"),
    ],
)
def test_a_browser_tells_who_made_it_send(headers, get, post):
    for method, sender in (("GET", get), ("POST", post)):
        request = make_mocked_request(method, "/", headers={HOST: "x.example", **headers})
        assert sender_of(request) is Sender[sender]


@in_one_run
@pytest.mark.parametrize(
    ("target", "kept"),
    [
        ("/", True),
        ("/fleet?line=a%20b&x=1", True),
        ("/alert/a-1", True),
        ("//evil.example", False),
        ("/\\evil.example", False),
        ("https://evil.example", False),
        ("/a\n", False),
        ("", False),
        ("/ä", False),
    ],
)
def test_only_a_path_of_this_console_is_gone_back_to(target, kept):
    assert own_path(target) == (target if kept else "/")


def test_who_is_not_let_in_is_sent_to_sign_in_and_a_program_is_told():
    def refused(method, path, accept):
        return refusal(make_mocked_request(method, path, headers={"Accept": accept}))

    page = refused("GET", "/fleet?line=a", "text/html")
    assert (page.status, page.headers["Location"]) == (303, "/login?to=%2Ffleet%3Fline%3Da")
    assert refused("GET", "/", "text/html").headers["Location"] == "/login"
    for method, accept in (("POST", "text/html"), ("GET", "application/json")):
        told = refused(method, "/fleet", accept)
        assert (told.status, told.headers["WWW-Authenticate"]) == (401, "Bearer")


def test_an_address_that_guesses_waits_a_minute_and_a_subscriber_is_one_address():
    assert _network("192.0.2.1") == "192.0.2.1"
    assert _network("2001:db8:0:1::5") == _network("2001:db8:0:1:ffff::") == "2001:db8:0:1::/64"
    assert _network("2001:db8:0:2::5") != _network("2001:db8:0:1::5")
    assert _network("unix") == "unix"
    now = [0.0]
    guesses = Guesses(lambda: now[0])
    for _ in range(10):
        guesses.check("2001:db8::1")
        guesses.count("2001:db8::1")
        now[0] += 1
    with pytest.raises(web.HTTPTooManyRequests) as refused:
        guesses.check("2001:db8::2")
    assert refused.value.headers["Retry-After"] == "60"
    guesses.check("192.0.2.1")
    now[0] = 59.9
    with pytest.raises(web.HTTPTooManyRequests):
        guesses.check("2001:db8::1")
    now[0] = 60.0
    guesses.check("2001:db8::1")


def test_every_span_is_escaped_and_only_web_addresses_link():
    drawn = spans((
        "<a>", Strong("<b>"), Code("<c>"), Mention("u", "<d>"), Link("<e>", "https://x?a=1&b=\"2"),
        Link("f", "/fleet"), Link("g", "//evil"), Link("h", "javascript:x"), When(NOON),
    ))  # fmt: skip
    time = '<time datetime="2026-11-20T12:00:05+00:00" data-form="full"'
    assert str(drawn).startswith(
        '&lt;a&gt;<strong>&lt;b&gt;</strong><code>&lt;c&gt;</code><span class="mention">@&lt;d&gt;</span>'
        '&lt;e&gt;<a href="/fleet" rel="noreferrer noopener">f</a>gh' + time
    )
    assert "Nov 20, 12:00 UTC</time>" in str(drawn)
    assert "12:00 UTC</time>" in when(NOON, "clock")
    assert 'title="2026-11-20 12:00:05 UTC"' in when(NOON)


def test_an_incident_says_its_state_apart():
    for tone in Tone:
        split = tone in (Tone.CRITICAL, Tone.WARNING, Tone.OVER)
        expected = ("FIRING", "a · b") if split else ("", "FIRING · a · b")
        assert _headline(Card("FIRING · a · b", tone)) == expected
    assert _headline(Card("FIRING", Tone.CRITICAL)) == ("", "FIRING")


def test_one_chart_of_time_stands_beside_its_words_and_tables_beside_each_other():
    chart, bars = (Chart(kind, "", "", ()) for kind in (ChartKind.LINE, ChartKind.BAR))
    words, table, form = text("a"), Table((), ()), Form("f", "set", ())
    for expected, blocks in (
        ("split", [words, chart, table]),
        ("beside below", [chart, table, words]),
        ("below beside", [words, bars, table]),
        ("below beside below", [words, chart, form]),
        ("below beside", [words, chart, chart]),
    ):
        assert " ".join(group.kind for group in _groups(blocks)) == expected
    (group,) = _groups([words, Facts(()), chart, table])
    assert (group.blocks, group.chart, group.after) == ([words, Facts(())], chart, [table])


def test_facts_are_json_without_floats_of_money():
    facts = {"usd": Decimal("1.10"), "at": NOON, "n": [1, (2.5, None)], 5: {True}, "x": "a"}
    assert plain_json(facts) == {
        "usd": "1.10",
        "at": "2026-11-20T12:00:05Z",
        "n": [1, [2.5, None]],
        "5": [True],
        "x": "a",
    }


@in_one_run
@pytest.mark.parametrize(
    ("line", "opens"),
    [
        ("/", "/"),
        ("alert a-1", "/alert/a-1"),
        ("alert a-1 details", "/ask?line=alert%20a-1%20details"),
        ("cost 7d & b", "/cost?line=cost%207d%20%26%20b"),
        ("idle", "/fleet?line=idle"),
        ("silences", "/settings?line=silences"),
        ("why a1", "/ask?line=why%20a1"),
        ("a\u202eb", "/ask?line=ab"),
    ],
)
def test_a_line_has_an_address(line, opens):
    assert address(line) == opens
    assert download(line).startswith("/download?line=")
    assert opens.startswith(page_of(line)) or line.startswith(("/", "alert a-1"))


def test_days_of_a_form_are_a_window_and_the_chosen_one_is_marked():
    assert (span("a", "b"), span("a", "a")) == ("a..b", "a")
    now = NOON.astimezone(UTC)
    current = LineWindow(Window.parse("7d", now), "runs ")
    controls = controls_of(Card("t"), current, now)
    assert [(x.line, x.chosen) for x in controls.windows][:2] == [
        ("runs 24h", False),
        ("runs 7d", True),
    ]
    assert (controls.first, controls.last) == (
        current.window.start.date(),
        (current.window.end - timedelta(seconds=1)).date(),
    )
    assert controls.groupings == ()


@in_one_run
@pytest.mark.parametrize(
    "cells",
    [
        ("-$5", "3", "$1,200", "words"),
        ("45 s", "5 min", "1 h 10 min", "2 d", "1 w"),
        ("node-9", "node-10"),
        ("~3", "+4", "≈5"),
        ("2026-11-20", "2026-11-21"),
    ],
)
def test_cells_are_sorted_by_what_they_are_worth(cells):
    shuffled = sorted(cells, key=lambda cell: cell[::-1])
    assert tuple(sorted(shuffled, key=_worth)) == cells


def table(count):
    headings = (Heading("name"), Heading("$", Align.RIGHT))
    rows = tuple((f"n{n}", "?" if n == 3 else f"${n}") for n in range(count))
    return Card("t", blocks=(Table(headings, rows, ("sum", "$1")),))


def page(count, **query):
    ((block),) = paged(table(count), "/fleet", {"line": "x", **query}).blocks
    return block


def test_a_long_table_is_leafed_sorted_and_filtered_by_its_address():
    assert page(100) is not None
    assert not hasattr(page(100), "fitting")
    first = page(201)
    assert (len(first.rows), first.first, first.fitting, first.of) == (100, 0, 201, 201)
    assert (first.before, first.after) == ("", "/fleet?line=x&from=101#table-1")
    last = page(201, **{"from": "201"})
    assert [row[0] for row in last.rows] == ["n200"]
    assert (last.before, last.after) == ("/fleet?line=x&from=101#table-1", "")
    assert page(201, **{"from": "101"}).before == "/fleet?line=x#table-1"
    assert page(201, **{"from": "150"}).first == 100
    assert page(200, **{"from": "201"}).first == page(200, **{"from": "0"}).first == 0
    assert (first.total, page(201, filter="n20").total) == (("sum", "$1"), ())
    assert [row[0] for row in page(201, filter="N20").rows] == ["n20", "n200"]
    dearest = page(201, sort="-$")
    assert [dearest.rows[0][0], dearest.fitting] == ["n200", 201]
    assert page(201, sort="-$", **{"from": "201"}).rows[-1][0] == "n3"
    assert page(201, sort="$", **{"from": "201"}).rows[-1][0] == "n3"
    assert [state for _, state in dearest.sorts] == ["", "descending"]
    assert "sort=-%24" in first.sorts[1][0]
    assert "sort=name" in first.sorts[0][0]
    assert dict(page(201, filter="n2", sort="$").fields) == {"line": "x", "sort": "$"}


def alerts(count, **changed):
    record = {"waste_usd": {"per_hour": Decimal(5), "so_far": Decimal(9)}, "onset": NOON,
              "closed_at": None, "muted_by": "", "suggestions": ["try `x`", "y"]}  # fmt: skip
    records = [{**record, "id": f"a{n}", **changed} for n in range(count)]
    data = {"alerts": records, "known": "known", "because": "", "usd_per_hour": Decimal(7)}
    rows = tuple((f"cause {n}", "where", "1 h") for n in range(count))
    return Card("t", blocks=(Table((), rows),), data=data)


def test_the_strip_names_the_dearest_and_counts_the_others():
    savings = Card("s", data={"usd_per_hour": Decimal(2), "usd_so_far": Decimal(3)})
    strip = standing(alerts(MOST + 2), savings)
    assert (len(strip.rows), strip.hidden, strip.facts["open_alerts"]) == (MOST, 2, MOST + 2)
    assert (strip.usd_per_hour, strip.saved_usd_per_hour, strip.saved_usd) == (7, 2, 3)
    (first, *_) = strip.rows
    assert (first.id, first.cause, first.todo, first.usd_so_far) == ("a0", "cause 0", "try x", 9)
    assert standing(alerts(2, muted_by="silence:s"), savings).rows == ()
    assert standing(alerts(2, closed_at=NOON), savings).firing == {}
    assert standing(alerts(1, assigned_to="dana"), savings).rows[0].holder == "assigned to dana"
    assert not standing(Card("t"), savings).answered
    assert standing(Card("t"), savings).facts == {}
    shown = Card("s", blocks=(Text((Strong("Saved"), ": $5")), text("a"), Text(())))
    assert list(lead_of(shown)) == [("Saved", "$5")]
    assert lead_of(Card("s", Tone.ERROR, shown.blocks)) == ()
