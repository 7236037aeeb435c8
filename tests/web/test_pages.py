from datetime import timedelta

import pytest

from bot.cards.card import Button, Buttons, Card, Tone, text
from tests.e2e import samples
from tests.e2e.console_server import MemoryShelf, filled, health

SCRIPT = {"X-Trnbot": "console", "Sec-Fetch-Site": "same-origin"}


async def body(response):
    assert response.status == 200, await response.text()
    return await response.text()


async def test_channel_shows_what_was_posted_in_order(open_console):
    console, client = await open_console()
    await filled(console)
    page = await body(await client.get("/"))
    places = [
        page.index(words) for words in ("hung, whisper-l", "eval-sweep, 4 x", "llama-70b, 64 x")
    ]
    assert places == sorted(places)
    assert "Wasting <strong>$1,083 an hour</strong>" in page
    assert 'class="chart line one"' in page


async def test_messages_outlive_the_process(open_console):
    shelf = MemoryShelf()
    console, _ = await open_console(shelf=shelf)
    posted = await console.post("alerts", samples.alert_card(), "k")
    again, client = await open_console(shelf=shelf)
    assert (await again.posted("alerts")).get("k", "") == posted
    assert "llama-70b" in await body(await client.get("/"))


async def test_a_message_of_another_version_hides_no_other(open_console):
    shelf = MemoryShelf()
    console, client = await open_console(shelf=shelf)
    await filled(console)
    shelf.put(
        "web.messages",
        "m-old",
        {"id": "m-old", "channel": "alerts", "key": "k", "card": {"title": 3}},
    )
    assert (await body(await client.get("/"))).count('class="slot"') == 3
    assert await console.edit("alerts", "m-old", samples.over_card(), "k") != "m-old"


async def test_edit_replaces_in_place_and_keeps_the_thread(open_console):
    console, client = await open_console()
    posted = await filled(console)
    await console.reply("alerts", posted, samples.good_card(), "acked")
    assert await console.posted("alerts", posted) == {"acked": "acked"}
    assert await console.posted("alerts", "m-gone") == {}
    assert await console.edit("alerts", posted, Card("OVER after 2 h", Tone.OVER), "k2") == posted
    page = await body(await client.get("/"))
    assert "OVER after 2 h" in page
    assert "FIRING 25 min" not in page
    assert page.count("Acknowledged by dana") == 2


async def test_edit_of_a_message_that_is_gone_posts_afresh(open_console):
    console, _ = await open_console()
    made = await console.edit("alerts", "m-gone", samples.over_card(), "k9")
    assert made != "m-gone"
    assert (await console.posted("alerts")).get("k9", "") == made


async def test_find_knows_its_channel(open_console):
    console, _ = await open_console()
    await console.post("alerts", samples.over_card(), "k")
    assert (await console.posted("other")).get("k", "") == ""
    assert (await console.posted("alerts")).get("unknown", "") == ""


async def test_shelf_keeps_the_newest_only(open_console):
    shelf = MemoryShelf()
    console, _ = await open_console(shelf=shelf)
    for i in range(702):
        await console.post("alerts", Card(f"n{i}"), f"k{i}")
    assert len(shelf.rows) <= 602
    assert (await console.posted("alerts")).get("k701", "")


async def test_what_an_earlier_process_kept_too_long_is_dropped_at_the_first_message(open_console):
    shelf = MemoryShelf()
    for number in range(600):
        shelf.put("web.messages", f"m{number}", {"id": f"m{number}", "channel": "alerts"})
    console, _ = await open_console(shelf=shelf)
    await console.post("alerts", Card("new"), "k")
    assert (len(shelf.rows), shelf.get("web.messages", "m100")) == (500, None)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/alerts", "2 alerts"),
        ("/cost", "in 7 days, by team"),
        ("/fleet", "3 clusters"),
        ("/help", "What can be asked"),
        ("/alert/a1", "llama-70b"),
    ],
)
async def test_every_page_of_the_rail_answers_its_line(open_console, path, words):
    _, client = await open_console()
    assert words in await body(await client.get(path))


async def test_alert_id_is_one_word_of_the_line(open_console):
    lines = []

    async def answer(request):
        lines.append(request.line)
        return Card("x")

    _, client = await open_console(answer=answer)
    await client.get("/alert/a1%20%22x%3Dy")
    assert lines == ['alert "a1 \\"x=y"', 'timeline "a1 \\"x=y"']


@pytest.mark.parametrize(
    "line", ["/trn cost 7d by team", "trn cost 7d by team", "  cost 7d by team "]
)
async def test_a_line_is_asked_with_or_without_trn(open_console, line):
    _, client = await open_console()
    said = await client.post("/ask", data={"line": line}, headers=SCRIPT)
    assert "$261,730" in await body(said)


async def test_the_request_says_who_where_and_under_what(open_console):
    seen = []

    async def answer(request):
        seen.append(request)
        return Card("x")

    console, client = await open_console(answer=answer)
    posted = await console.post("alerts", samples.over_card(), "k")
    await client.post("/ask", data={"line": "why a1", "where": posted}, headers=SCRIPT)
    assert (seen[0].user.id, seen[0].surface, seen[0].channel, seen[0].thread) == (
        "web:local",
        "web",
        "web:alerts",
        posted,
    )
    assert seen[0].at == samples.NOW


async def test_private_answers_stay_private_and_shared_ones_are_posted(open_console):
    _, client = await open_console()
    await client.post("/ask", data={"line": "cost"}, headers=SCRIPT)
    assert "$261,730" not in await body(await client.get("/"))
    shared = await client.post("/ask", data={"line": "share cost"}, headers=SCRIPT)
    assert shared.status == 204
    assert "$261,730" in await body(await client.get("/"))


async def test_a_public_answer_to_a_button_joins_the_thread(open_console):
    console, client = await open_console()
    posted = await console.post("alerts", samples.alert_card(), "k")
    await client.post("/ask", data={"line": "ack a1", "where": posted}, headers=SCRIPT)
    page = await body(await client.get("/"))
    assert "1 reply" in page
    assert page.count('class="slot"') == 1


async def test_wrong_lines_come_back_as_a_sentence(open_console):
    _, client = await open_console()
    said = await client.post("/ask", data={"line": "cots"}, headers=SCRIPT)
    assert said.headers["X-Trnbot-Tone"] == "error"
    assert "is not a command" in await body(said)


@pytest.mark.parametrize("line", ["", "   ", "x" * 4001])
async def test_lines_nobody_types_are_refused(open_console, line):
    _, client = await open_console()
    assert (await client.post("/ask", data={"line": line}, headers=SCRIPT)).status == 400


async def test_a_form_submits_the_line_it_stands_for(open_console):
    _, client = await open_console()
    fields = [
        ("line", "snooze a1"),
        ("f.for", "2h"),
        ("f.reason", 'it is "known"'),
        ("f.others", "off"),
        ("f.others", "on"),
        ("f.ceiling", ""),
    ]
    said = await client.post("/form", data=fields, headers=SCRIPT)
    assert "snooze a1 for=2h reason=&#34;it is \\&#34;known\\&#34;&#34; others=on" in await body(
        said
    )


async def test_forms_work_without_javascript(open_console):
    _, client = await open_console()
    page = await body(await client.get("/"))
    token = page.split('name="token" value="')[1].split('"')[0]
    own = {"Origin": str(client.make_url("")).rstrip("/")}
    said = await client.post("/ask", data={"line": "why a1", "token": token}, headers=own)
    assert "Why a1 speaks" in await body(said)
    back = await client.post(
        "/ask", data={"line": "ack a1", "token": token}, headers=own, allow_redirects=False
    )
    assert (back.status, back.headers["Location"]) == (303, "/")


async def test_empty_channel_says_what_to_do(open_console):
    _, client = await open_console()
    page = await body(await client.get("/"))
    assert 'id="empty" >' in page
    assert "/ask?line=cost%207d%20by%20team" in page


async def test_healthz_says_well_and_unwell(open_console):
    _, well = await open_console()
    said = await well.get("/healthz")
    assert (said.status, (await said.json())["usd_per_hour"]) == (200, "1225")
    assert (await said.json())["now"] == "2026-11-20T14:25:00Z"
    _, ill = await open_console(
        health=lambda: {
            "ok": False,
            "problem": "no tick for 20 min",
            "ticked_at": samples.NOW - timedelta(hours=1),
        }
    )
    said = await ill.get("/healthz")
    assert (said.status, (await said.json())["problem"]) == (503, "no tick for 20 min")
    assert "no tick for 20 min" in await body(await ill.get("/"))


async def test_healthz_is_ready_once_people_are_answered(open_console):
    waiting = {"ok": True, "problem": "", "starting": "Starting: Slack."}
    _, client = await open_console(health=lambda: waiting)
    said = await client.get("/healthz")
    assert (said.status, (await said.json())["problem"]) == (503, "Starting: Slack.")
    assert [(await client.get(path)).status for path in ("/livez", "/readyz")] == [200, 503]
    waiting["starting"] = ""
    assert (await client.get("/healthz")).status == 200
    waiting |= {"ok": False, "problem": "no tick for 20 min", "up_seconds": 1300.0}
    assert (await client.get("/healthz")).status == 503
    ready = await client.get("/readyz")
    assert (ready.status, await ready.json()) == (
        200,
        {"ok": True, "starting": "", "up_seconds": 1300.0},
    )


@pytest.mark.parametrize(
    "left_out", [(), ("now",), ("usd_per_hour", "open_alerts"), tuple(health())]
)
async def test_status_strip_bears_what_is_not_known(open_console, left_out):
    _, client = await open_console(
        health=lambda: {name: value for name, value in health().items() if name not in left_out}
    )
    page = await body(await client.get("/"))
    assert ("wasting now" in page) == ("usd_per_hour" not in left_out)


async def test_trouble_that_does_not_stop_the_watch_is_said(open_console):
    _, client = await open_console(health=lambda: {**health(), "problem": "us-west-2: <no> bill"})
    page = await body(await client.get("/"))
    assert "us-west-2: &lt;no&gt; bill" in page
    assert "Replay 60" in page


async def test_metrics_are_prometheus_text(open_console):
    _, client = await open_console()
    said = await client.get("/metrics")
    assert said.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert await said.text() == "trnbot_ticks_total 3\n"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("console.css", "text/css"), ("console.js", "text/javascript"), ("icon.svg", "image/svg+xml")],
)
async def test_static_files_have_their_type(open_console, name, kind):
    _, client = await open_console()
    assert (await client.get(f"/static/{name}")).headers["Content-Type"].startswith(kind)


@pytest.mark.parametrize(
    "name", ["nothing.css", "..%2Fsurface.py", "%2Fetc%2Fpasswd", "surface.py", "."]
)
async def test_nothing_else_is_static(open_console, name):
    _, client = await open_console()
    assert (await client.get(f"/static/{name}")).status == 404


async def test_rows_of_buttons_that_follow_each_other_are_one(open_console):
    console, client = await open_console()
    await console.post(
        "alerts",
        Card("x", blocks=(Buttons((Button("A", "a"),)), Buttons((Button("B", "b"),)))),
        "k",
    )
    assert (await body(await client.get("/"))).count('class="buttons"') == 1


async def test_quiet_cards_without_blocks_and_long_ones_draw(open_console):
    console, client = await open_console()
    await console.post(
        "alerts", Card("x" * 3000, blocks=tuple(text("y" * 500) for _ in range(60))), "k"
    )
    assert "y" * 500 in await body(await client.get("/"))


@pytest.mark.parametrize(
    ("argument", "field"),
    [("ceiling", "ceiling"), ("idle.below", "idle.below"), ("a\r\nX-Y: 1", "aX-Y1"), ("", "")],
)
async def test_an_answer_names_the_field_that_is_wrong(open_console, argument, field):
    async def refuse(request):
        return Card("That did not work", Tone.ERROR, (text("No."),), {"argument": argument})

    _, client = await open_console(answer=refuse)
    asked = await client.post("/form", data={"line": "snooze a1"}, headers=SCRIPT)
    assert asked.headers["X-Trnbot-Field"] == field


async def test_an_answer_whose_numbers_are_lists_is_shared_as_any_other(open_console):
    console, client = await open_console()
    card = Card(
        "Preview: 6 alerts instead of 5",
        Tone.INFO,
        (text("As asked."),),
        {"waste_usd": ["1.00", "2.00"]},
        public=True,
    )
    await console.post("alerts", card, "")
    assert "Preview: 6 alerts instead of 5" in await (await client.get("/")).text()


async def test_an_empty_line_is_refused(open_console):
    _, client = await open_console()
    answer = await client.post("/ask", data={"line": "  "}, headers=SCRIPT)
    assert (answer.status, "The line is empty" in await answer.text()) == (400, True)


async def test_an_edited_message_is_found_by_its_newest_key(open_console):
    page, _ = await open_console()
    message = await page.post("alerts", Card("first"), "n1")
    await page.edit("alerts", message, Card("second"), "n2")
    assert await page.posted("alerts") == {"n2": message}
