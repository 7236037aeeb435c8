"""The console's tables, charts and addresses as a page holds them, without any script."""

import asyncio
import re
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from html import unescape

import pytest

from adapters.charts.svg import Canvas, svg
from adapters.web.html import PageRenderer, legend
from adapters.web.links import ROWS, address, controls_of, paged, span
from adapters.web.views import QUICK_S
from bot.app import error_card
from bot.cards.card import Align, Button, Buttons, Card, Heading, Table, Tone, folded, text
from bot.errors import Unavailable, WrongInput
from bot.grammar.line import window_of
from bot.model.request import CommandHint
from tests.e2e import samples

PAGES = PageRenderer(token="t", title="trnbot")
COLUMNS = (Heading("node"), Heading("used", Align.RIGHT))


@pytest.mark.parametrize(
    ("line", "opens"),
    [
        ("alert a15a22ca8d", "/alert/a15a22ca8d"),
        ("alert llama/64 nodes", "/ask?line=alert%20llama%2F64%20nodes"),
        ("fleet llama", "/fleet?line=fleet%20llama"),
        (
            'cost 7d by team service="Amazon EC2"',
            "/cost?line=cost%207d%20by%20team%20service%3D%22Amazon%20EC2%22",
        ),
        ("why a1", "/ask?line=why%20a1"),
        ("suggestions", "/alerts?line=suggestions"),
    ],
)
def test_a_line_opens_the_page_of_its_kind(line, opens):
    assert address(line) == opens


def test_a_row_opens_its_line_without_script():
    table = Table(COLUMNS, (("llama", "20 %"), ("(no cluster)", "5 %")), lines=("fleet llama", ""))
    shown = str(PAGES.card(Card("x", blocks=(table,))))
    assert re.findall(r'<a href="([^"]*)">([^<]*)</a>', shown) == [
        ("/fleet?line=fleet%20llama", "llama")
    ]
    assert shown.count('class="opens"') == 1


def test_a_chat_folds_rows_and_a_page_shows_them_all():
    rows = tuple((f"i-{i}", f"{i} %") for i in range(40))
    table = folded(
        Table(COLUMNS, rows, lines=tuple(f"node {name}" for name, _ in rows)),
        15,
        "and 25 more nodes",
    )
    assert (len(table.rows), table.rest) == (15, "and 25 more nodes")
    shown = str(PAGES.card(Card("x", blocks=(table,))))
    assert shown.count("<tr") == 41
    assert "25 more" not in shown


def test_a_table_that_is_no_longer_than_its_room_is_whole():
    table = Table(COLUMNS, (("i-1", "1 %"),))
    assert folded(table, 1, "and more") == table


def test_colours_are_named_in_full_and_open_what_they_stand_for():
    chart = samples.bar_chart()
    first, *others = chart.series
    long = replace(
        first, name="a team whose name is long indeed", line="cost 7d by service team=research"
    )
    named = str(legend(replace(chart, series=(long, *others))))
    assert "a team whose name is long indeed" in named
    assert unescape(re.findall(r'href="([^"]*)"', named)[0]) == address(long.line)
    assert named.count("<li>") == len(chart.series)


def test_a_bar_opens_its_line_and_a_partial_one_is_hatched():
    chart = replace(samples.bar_chart(), lines=("cost 2026-11-13 by team",), partial=(0,))
    drawn = str(svg(chart, Canvas(address=address)))
    assert drawn.count("<a href=") == 1
    assert drawn.count('class="unfinished"') == 1
    assert "13 Nov, a part of its time only · " in drawn
    assert "part of its time only" in str(legend(chart))


def test_a_chart_stands_beside_what_is_said_of_it():
    shown = str(PAGES.card(samples.alert_card()))
    assert shown.index('class="split"') < shown.index("<figure") < shown.index('class="buttons"')
    assert 'class="split"' not in str(PAGES.card(Card("x", blocks=(text("no chart"),))))


async def test_a_page_keeps_the_lines_of_its_kind_and_sends_others_on(open_console):
    _, client = await open_console()
    own = await client.get("/cost", params={"line": "cost 7d by cluster"})
    assert "/trn cost 7d by cluster" in await own.text()
    sent = await client.get("/cost", params={"line": "why a1"}, allow_redirects=False)
    assert (sent.status, sent.headers["Location"]) == (303, "/ask?line=why%20a1")


async def test_a_page_runs_no_line_that_does_more_than_read(open_console):
    asked = []

    async def answer(request):
        asked.append(request.line)
        return Card("done")

    _, client = await open_console(answer=answer)
    for path in ("/cost", "/fleet", "/alerts", "/ask"):
        await client.get(path, params={"line": "ack a1"})
    assert "ack a1" not in asked


async def test_pages_load_fast_and_light(open_console):
    """Everything that a page loads, uncompressed, is a third of what a page may weigh before its own words."""
    _, client = await open_console()
    page = await (await client.get("/cost")).text()
    weights = {
        path: len(await (await client.get(path)).read())
        for path in re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    }
    assert sum(weights.values()) + len(page) < 120_000, weights


async def test_what_never_changes_at_its_address_is_asked_for_once(open_console):
    _, client = await open_console()
    page = await (await client.get("/")).text()
    paths = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page)) | set(
        re.findall(r'data-hints="([^"]+)"', page)
    )
    assert len(paths) > 5
    for path in paths:
        assert "immutable" in (await client.get(path)).headers["Cache-Control"]
        older = re.sub(
            r"/[0-9a-f]{12}\b", "/" + "0" * 12, path
        )  # a page of another version, which asks this one
        assert (await client.get(older)).headers["Cache-Control"] == "no-cache"
    assert (await (await client.get(*re.findall(r'data-hints="([^"]+)"', page))).json())[0][
        "name"
    ] == "cost"
    for script in (
        path for path in paths if path.endswith(".js")
    ):  # a script that is found late is waited for
        code = await (await client.get(script)).text()
        names = re.findall(r'^import .* from "./([^"]+)"', code, re.MULTILINE)
        assert code.count("import ") == len(names), script
        assert {f"{script.rpartition('/')[0]}/{name}" for name in names} <= paths, script


def cost_answer(**data):
    window = {
        "start": datetime(2026, 11, 13, 12, tzinfo=UTC),
        "end": datetime(2026, 11, 20, 12, tzinfo=UTC),
    }
    return Card(
        "$1",
        data={
            "window": window,
            "by": ["team"],
            "filters": [],
            "groupings": ["service", "team"],
            **data,
        },
    )


def controls(line, card=Card("x")):  # noqa: B008  # a card never changes
    return controls_of(card, window_of(line, samples.NOW), samples.NOW)


def test_the_controls_of_cost_keep_what_was_asked():
    line = "cost 7d by team service=AmazonEC2"
    shown = controls(line, cost_answer(filters=["service=AmazonEC2"]))
    assert [one.words for one in shown.windows if one.chosen] == ["7 days"]
    assert shown.windows[3].line == "cost mtd by team service=AmazonEC2"
    assert shown.groupings[0].line == "cost 7d by service service=AmazonEC2"
    assert [one.words for one in shown.groupings if one.chosen] == ["team"]
    assert [(one.words, one.line) for one in shown.filters] == [
        ("service=AmazonEC2", "cost 7d by team")
    ]


def test_a_window_of_ones_own_is_kept_through_groupings_and_filters():
    shown = controls("cost 2026-11-13T12:00..2026-11-20T12:00 by team", cost_answer())
    assert not any(one.chosen for one in shown.windows)
    assert shown.groupings[0].line == "cost 2026-11-13T12:00..2026-11-20T12:00 by service"


@pytest.mark.parametrize(
    ("line", "chosen", "another"),
    [
        ("alerts", [], "alerts window=7d"),
        ("alerts window=7d", ["7 days"], "alerts window=7d"),
        ("alerts window 30d", ["30 days"], "alerts window 7d"),
        ("savings", ["30 days"], "savings window=7d"),
        ("goodput mtd by cluster", ["This month"], "goodput 7d by cluster"),
        ("why cost 24h team=vision", ["24 hours"], "why cost 7d team=vision"),
    ],
)
def test_every_answer_of_a_window_offers_others(line, chosen, another):
    shown = controls(line)
    assert [one.words for one in shown.windows if one.chosen] == chosen
    assert shown.windows[1].line == another
    assert (shown.first is None) == (not chosen)


@pytest.mark.parametrize("line", ["fleet", "help cost", "cost 7x", "cost --help", "cots 7d"])
def test_what_is_of_no_window_has_no_controls(line):
    assert window_of(line, samples.NOW) is None


async def test_the_days_of_a_form_become_a_line(open_console):
    _, client = await open_console()
    days = {"line": "goodput by cluster", "first": "2026-11-01", "last": "2026-11-07"}
    sent = await client.get("/ask", params=days, allow_redirects=False)
    there = "/ask?line=goodput%20by%20cluster%20window%3D2026-11-01..2026-11-07"
    assert sent.headers["Location"] == there
    assert span("2026-11-01", "2026-11-01") == "2026-11-01"


async def test_an_alert_that_nobody_knows_shows_no_message_of_the_channel(open_console):
    async def refuse(request):
        raise WrongInput("No alert zzz.")

    console, client = await open_console(answer=refuse)
    await console.post("alerts", Card("A preview", Tone.INFO), "shared")
    page = await (await client.get("/alert/zzz")).text()
    assert "No alert zzz." in page
    assert "Sent to this console" not in page


async def test_a_line_is_the_name_of_its_page_and_a_way_leads_back(open_console):
    _, client = await open_console()
    page = await (await client.get("/cost", params={"line": "cost 30d by service"})).text()
    assert "<title>cost 30d by service · trnbot</title>" in page
    assert '<a href="/cost">Cost</a>' in page.split('class="crumbs"')[1].split("</nav>")[0]
    alert = await (await client.get("/alert/a1")).text()
    assert "<title>Alert a1 · trnbot</title>" in alert
    assert '<a href="/">Alerts</a>' in alert.split('class="crumbs"')[1].split("</nav>")[0]
    assert "<title>Fleet · trnbot</title>" in await (await client.get("/fleet")).text()


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/nothing", 404, "There is no page /nothing here."),
        ("/alert/zzz", 404, "No alert zzz."),
        ("/ask?line=cots", 400, "is not a command"),
        ("/fleet?line=fleet%20nowhere", 503, "The source is away."),
        ("/ask?line=" + "x" * 4001, 400, "longer than 4000 characters"),
    ],
)
async def test_a_wrong_address_says_so_and_leads_back(open_console, path, status, words):
    async def refuse(request):
        if "zzz" in request.line:
            raise WrongInput("No alert zzz.")
        if "nowhere" in request.line:
            return error_card(Unavailable("The source is away."))
        raise WrongInput(f"'{request.line}' is not a command.")

    _, client = await open_console(answer=refuse)
    said = await client.get(path, headers={"Accept": "text/html,*/*"})
    page = await said.text()
    assert (said.status, words in page) == (status, True)
    assert 'href="/"' in page
    assert said.headers["Content-Type"].startswith("text/html")


async def test_a_program_is_told_of_a_wrong_address_in_one_sentence(open_console):
    _, client = await open_console()
    said = await client.get("/nothing")
    assert (said.status, await said.text()) == (404, "There is no page /nothing here.\n")


def test_a_button_that_the_page_offers_already_is_left_out():
    card = Card(
        "x",
        blocks=(Buttons((Button("By team", "cost 7d by team"), Button("Share", "share cost"))),),
    )
    left = card.without_buttons(lambda button: button.line == "cost 7d by team")
    assert [button.text for button in left.buttons] == ["Share"]
    assert left.without_buttons(lambda button: button.line == "share cost").blocks == ()


async def test_a_slow_answer_leaves_the_frame_of_its_page_at_once(open_console):
    ready = asyncio.Event()

    async def answer(request):
        if request.line.startswith("cost"):
            await ready.wait()
        return Card("told at last")

    _, client = await open_console(answer=answer)
    response = await client.get("/cost", headers={"Sec-Fetch-Mode": "navigate"})
    begun = await response.content.read(20_000)
    assert b"<h1>Cost</h1>" in begun
    assert b"told at last" not in begun
    ready.set()
    rest = await response.content.read()
    assert b"told at last" in rest
    assert (begun + rest).count(b"<body") == 1


@pytest.mark.parametrize("path", ["/cost", "/ask?line=cost%207d%20by%20teem", "/alert/zzz"])
async def test_a_slow_mistake_has_its_own_status_and_a_frame_that_began_says_it(open_console, path):
    async def answer(_):
        await asyncio.sleep(QUICK_S * 1.2)
        return Card("That did not work", Tone.ERROR)

    _, client = await open_console(answer=answer)
    code = 404 if "alert" in path else 400
    program = await client.get(path)
    assert program.status == code
    person = await client.get(path, headers={"Sec-Fetch-Mode": "navigate"})
    assert f"Error {code}" in await person.text()


NODES = Table(
    (Heading("node"), Heading("team"), Heading("$/h", Align.RIGHT)),
    tuple((f"i-{n:04}", "vision" if n % 2 else "nlp", f"${n:,}.50") for n in range(1, 2001)),
    lines=tuple(f"fleet i-{n:04}" for n in range(1, 2001)),
)


@pytest.mark.parametrize(
    ("address", "first", "shown", "words"),
    [
        ("?", "i-0001", 100, "1-100 of 2,000"),
        ("?from=1901", "i-1901", 100, "1,901-2,000 of 2,000"),
        ("?sort=-$/h", "i-2000", 100, "1-100 of 2,000"),
        ("?sort=-$/h&from=101", "i-1900", 100, "101-200 of 2,000"),
        ("?sort=$/h&filter=nlp", "i-0002", 100, "1,000 of 2,000 rows"),
        ("?filter=i-199", "i-1990", 10, "10 of 2,000 rows"),
        ("?filter=i-199&sort=-node", "i-1999", 10, "10 of 2,000 rows"),
        ("?from=9999", "i-0001", 100, "1-100 of 2,000"),
        ("?from=2001", "i-0001", 100, "1-100 of 2,000"),
        ("?from=150", "i-0101", 100, "101-200 of 2,000"),
        ("?from=x&sort=nothing", "i-0001", 100, "1-100 of 2,000"),
    ],
)
async def test_an_address_sorts_filters_and_leafs_through_all_rows(
    open_console, address, first, shown, words
):
    async def answer(_):
        return Card("2,000 nodes", blocks=(folded(NODES, 12, "and more"),))

    _, client = await open_console(answer=answer)
    page = await (await client.get(f"/fleet{address}")).text()
    nodes = re.findall(r"<tr class=\"opens\"><td[^>]*><a[^>]*>([^<]*)</a>", page)
    assert (nodes[0], len(nodes)) == (first, shown)
    assert words in page
    assert len(page) < 60_000
    # Every address of the page keeps what it does not change.
    kept = re.findall(r"(?:sort|filter)=[^&]*", address)
    ahead = re.search(r'href="([^"]*)">Next', page)
    assert not ahead or all(
        f"{name.replace('/', '%2F').replace('$', '%24')}" in ahead[1] for name in kept
    )


def test_each_table_has_its_own_part_of_the_address():
    query = {"line": "fleet", "sort": "node", "from": "101", "sort.2": "-node", "filter.2": "nlp"}
    one, two = paged(Card("x", blocks=(NODES, NODES)), "/fleet", query).blocks
    assert (one.rows[0][0], two.rows[0][0]) == ("i-0101", "i-2000")
    assert (one.fitting, two.fitting) == (2000, 1000)
    kept = {"line": "fleet", "sort": "node", "from": "101", "sort.2": "-node"}
    assert dict(two.fields) == kept, "a new filter keeps the order and begins at the first row"
    assert one.sorts[1][0] == ("/fleet?line=fleet&sort=team&sort.2=-node&filter.2=nlp#table-1"), (
        "a new order begins at the first row"
    )


@pytest.mark.parametrize(("filtered", "shown"), [("nlp", 0), ("none such", 0), (" ", 1), ("", 1)])
async def test_a_total_of_every_row_does_not_stand_under_filtered_ones(
    open_console, filtered, shown
):
    async def answer(_):
        total = ("total", "", "$2,002,000.00")
        return Card("2,000 nodes", blocks=(folded(replace(NODES, total=total), 12, "and more"),))

    _, client = await open_console(answer=answer)
    page = await (await client.get(f"/fleet?filter={filtered}")).text()
    assert page.count("$2,002,000.00") == shown


async def test_a_long_table_of_an_alert_is_paged_too(open_console):
    async def answer(_):
        return Card("2,000 nodes", blocks=(folded(NODES, 12, "and more"),))

    _, client = await open_console(answer=answer)
    page = await (await client.get("/alert/a1?from=1901")).text()
    assert "1,901-2,000 of 2,000" in page
    assert 'href="/alert/a1?from=1801#table-1">Previous' in page


@pytest.mark.parametrize(
    "cells",
    [
        ["-$1,200", "-12 %", "–"],
        ["1 min", "3 h", "1 d 11 h", "2 d"],
        ["$9.50", "~$20", "$1,083"],
        ["Nov 9, 10:05", "Nov 9, 10:30", "Nov 20, 09:00"],
        ["2025-12-31", "2026-01-09", "2026-01-10"],
        ["node-9", "node-10", "node-100"],
        ["3 of 10", "3 of 12"],
        ["5", "-$-6", "--5", "1-2-3"],
    ],
)
def test_cells_are_sorted_as_people_read_them(cells):
    table = Table((Heading("x"),), tuple((cell,) for cell in cells[::-1] * ROWS))
    ordered = []
    for start in range(1, len(table.rows), ROWS):
        query = {"sort": "x", "from": str(start)}
        (page,) = paged(Card("x", blocks=(table,)), "/fleet", query).blocks
        ordered += [cell for (cell,) in page.rows]
    assert list(dict.fromkeys(ordered)) == cells


async def test_an_alert_tells_its_story_and_what_this_console_said(open_console):
    at = samples.NOW

    async def answer(request):
        if request.line.startswith("timeline"):
            said = [
                ("seen", "Began on 64 nodes", ""),
                ("sent", "Sent to web:alerts", "trnbot"),
                ("decided", "Acknowledged", "dana"),
            ]
            events = [
                {"at": at, "kind": kind, "words": words, "by": by} for kind, words, by in said
            ]
            return Card("Timeline", data={"id": "a1", "events": events})
        return samples.alert_card()

    console, client = await open_console(answer=answer)
    waste = {"per_hour": Decimal(1), "so_far": Decimal(2)}
    posted = await console.post(
        "alerts", Card("FIRING", data={"id": "a1", "waste_usd": waste}), "k"
    )
    await console.reply("alerts", posted, Card("Worse: $669 an hour now"), "r")
    page = await (await client.get("/alert/a1")).text()
    story = page[page.index('class="story"') :]
    assert [
        words
        for words in ("Began on 64", "Sent to this console", "Worse: $669", "Acknowledged")
        if words not in story
    ] == []
    assert "Sent to web:alerts" not in story
    assert f'href="/?until={posted}#{posted}"' in story


async def test_settings_are_a_page_of_the_rail(open_console):
    _, client = await open_console()
    page = await (await client.get("/settings")).text()
    assert re.findall(r'<a href="/settings" aria-current="page">', page)
    for line in ("config history", "routes", "silences", "doctor"):
        assert f'href="{address(line)}"' in page


async def test_ask_offers_what_works_as_it_stands_and_begins_the_rest(open_console):
    hints = (
        CommandHint(
            "alerts", "What is wasted now.", "alerts", changes=False, topic="Wrong", place=0
        ),
        CommandHint(
            "why", "Why.", "why a1b2c3d4e", changes=False, topic="Wrong", place=0, needed=True
        ),
        CommandHint("ack", "Look into it.", "ack a1", topic="Wrong", place=0),
        CommandHint(
            "cost", "What it costs.", "cost 7d by team", changes=False, topic="Costs", place=1
        ),
    )
    _, client = await open_console(hints=hints)
    page = await (await client.get("/ask")).text()
    listed = re.findall(r'<li><a href="([^"]*)"><code>', page)
    assert listed == [
        "/alerts?line=alerts",
        "/ask?draft=why",
        "/ask?draft=ack",
        "/cost?line=cost%207d%20by%20team",
    ]
    assert page.index("<h2>Wrong</h2>") < page.index("<h2>Costs</h2>")
    begun = await (await client.get("/ask", params={"draft": 'ack "><b>'})).text()
    assert 'value="ack &#34;&gt;&lt;b&gt; "' in begun
