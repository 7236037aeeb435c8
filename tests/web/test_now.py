"""What the strip above the channel says, from the answers' own numbers."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from adapters.web.live import standing
from bot.cards.card import Card, Heading, Strong, Style, Table, Text, Tone
from bot.model.notification import Coverage, Known
from tests.e2e import samples

WORDS = tuple(Heading(name) for name in ("cause", "where", "for", "$/h", "so far", "state"))


def alert(name, dollars="698.00", **changed):
    waste = {
        "per_hour": Decimal(dollars),
        "so_far": Decimal("1118.20"),
        "month_end": Decimal(152_000),
    }
    onset = samples.NOW - timedelta(hours=2)
    found = {
        "id": name,
        "closed_at": None,
        "muted_by": "",
        "onset": onset,
        "waste_usd": waste,
        "suggestions": ["Prefetch."],
    }
    return found | changed


def alerts(*found):
    rows = tuple(
        ("starved", f"{one['id']}, 64 x <b>trn1</b>", "2 h", "$698", "$1,118", "open")
        for one in found
    )
    return Card(
        "t",
        blocks=(Table(WORDS, rows),),
        data={"alerts": list(found), "usd_per_hour": Decimal("698.00"), **Coverage().data},
    )


SAVED = Card("t", data={"usd_per_hour": Decimal("88.10"), "usd_so_far": Decimal("1234.00")})


def test_open_alerts_are_named_and_the_others_counted():
    made = [alert(f"a{i}") for i in range(5)] + [
        alert("m", muted_by="silence:s1"),
        alert("o", closed_at=samples.NOW),
    ]
    now = standing(alerts(*made), SAVED)
    assert [row.id for row in now.rows] == ["a0", "a1", "a2"]
    assert (now.hidden, now.rows[0].todo, now.saved_usd_per_hour) == (
        2,
        "Prefetch.",
        Decimal("88.10"),
    )


def test_an_alert_without_a_price_has_no_dollars():
    (row,) = standing(alerts(alert("a", waste_usd=None, suggestions=[])), SAVED).rows
    assert (row.usd_per_hour, row.usd_so_far, row.todo) == (None, None, "")


def test_an_answer_without_numbers_is_not_taken_for_calm():
    assert not standing(Card("That did not work"), SAVED).answered
    assert standing(alerts(), SAVED).answered


async def test_the_strip_is_shown_escaped_and_read_again(open_console):
    now = {"alerts": alerts(alert("a/1"))}

    async def answer(request):
        return now.get(request.line, SAVED)

    _, client = await open_console(answer=answer)
    page = await (await client.get("/")).text()
    assert "$698" in page
    assert 'href="/alert/a%2F1"' in page or 'href="/alert/a/1"' in page
    assert "64 x &lt;b&gt;trn1&lt;/b&gt;" in page
    assert "about $88.10 an hour stopped in 7 days, $1,234 saved since" in page
    now["alerts"] = alerts()
    assert "Nothing is wasting money now." in await (await client.get("/now")).text()


def told(name, dollars, so_far="451", month_end="9.00"):
    """Return the message of an alert: its lead, and the alert that it is about."""
    lead = Text(
        (
            "Wasting ",
            Strong(f"${dollars} an hour"),
            f" · ${so_far} so far · about ",
            Strong(f"${month_end} by month end"),
        ),
        Style.LEAD,
    )
    return Card("FIRING 2 h · starved", blocks=(lead,), data={"id": name, "alerts": [name]})


async def test_card_strip_and_header_of_the_channel_tell_one_reading_of_one_alert(open_console):
    # The message was sent at $708; since then its nodes cost $705, and the header last heard of $113.
    now = alerts(alert("a1", "705.00"))
    now.data["usd_per_hour"] = Decimal("705.00")

    async def answer(request):
        # In the thread of the message, `alert` is what the message is about.
        current = told("a1", "705", "1,118", "152,000") if request.thread else SAVED
        return {"alerts": now, "alert": current}.get(request.line, SAVED)

    console, client = await open_console(
        answer=answer, health=lambda: {"ok": True, "open_alerts": 4, "usd_per_hour": Decimal(113)}
    )
    await console.post("alerts", told("a1", "708"), "k1")
    page = await (await client.get("/")).text()
    assert page.count("$705") == 3, "header, strip and card"
    assert "$1,118 so far" in page
    assert "$152,000 by month end" in page
    assert not any(old in page for old in ("$708", "$113", "$451", "$9.00"))


async def test_the_header_of_the_list_of_alerts_adds_up_its_rows(open_console):
    listed = replace(alerts(alert("a1", "185.00"), alert("a2", "113.00")), data={
        "alerts": [alert("a1", "185.00"), alert("a2", "113.00")], "usd_per_hour": Decimal("298.00"), **Coverage().data})  # fmt: skip

    async def answer(_):
        return listed

    _, client = await open_console(
        answer=answer, health=lambda: {"ok": True, "open_alerts": 1, "usd_per_hour": Decimal(113)}
    )
    header = (await (await client.get("/alerts")).text()).partition("</header>")[0]
    assert "$298" in header
    assert "$113" not in header


async def test_a_message_of_an_alert_that_is_over_keeps_what_it_said(open_console):
    async def answer(request):
        return alerts() if request.line == "alerts" else SAVED

    console, client = await open_console(answer=answer)
    await console.post("alerts", told("a1", "708"), "k1")
    assert "$708" in await (await client.get("/")).text()


MONEY = Card(
    "t",
    blocks=(Text((Strong("Spend"), ": $5 <b>now</b>.")), Text((Strong("Forecast"), ": about $7."))),
)


async def test_the_first_page_begins_with_the_money_of_the_summary_and_does_not_wait_for_it(
    open_console,
):
    asked = []

    async def answer(request):
        asked.append(request.line)
        return MONEY if request.line == "summary money" else alerts()

    _, client = await open_console(answer=answer)
    page = await (await client.get("/")).text()
    assert page.index('data-from="/lead"') < page.index('id="now"')
    assert "summary money" not in asked
    shown = [await (await client.get("/lead")).text() for _ in range(3)]
    assert all("<b>Spend</b>" in one and "$5 &lt;b&gt;now&lt;/b&gt;." in one for one in shown)
    assert asked.count("summary money") == 1, "a minute's readers share one reading"


async def test_a_summary_that_failed_shows_nothing_on_the_first_page(open_console):
    async def answer(_):
        return replace(MONEY, tone=Tone.ERROR)

    _, client = await open_console(answer=answer)
    assert not (await (await client.get("/lead")).text()).strip()


async def test_a_page_that_sees_nothing_says_neither_calm_nor_zero_dollars(open_console):
    blind = Coverage(Known.UNKNOWN, "The credentials <expired>.")
    listed = replace(alerts(), data={"alerts": [], "usd_per_hour": Decimal(0), **blind.data})

    async def answer(request):
        return listed if request.line == "alerts" else SAVED

    _, client = await open_console(answer=answer)
    page = await (await client.get("/")).text()
    assert "Nothing is wasting money now" not in page
    assert "What is wasted now is not known." in page
    assert "The credentials &lt;expired&gt;." in page
    header = page.partition("</header>")[0]
    assert "Blind" in header
    assert "$0" not in header


async def test_the_strip_is_of_the_moment_and_nobody_reads_that_of_a_minute_ago(open_console):
    listed = [alerts(alert("a1")), alerts()]

    async def answer(request):
        return listed[0] if request.line == "alerts" else SAVED

    _, client = await open_console(answer=answer)
    before = await (await client.get("/now")).text()
    listed.reverse()
    after = await (await client.get("/now")).text()
    assert before != after
    listed.reverse()
    assert await (await client.get("/now")).text() == before
