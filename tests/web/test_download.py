"""The table of an answer as a file of the console: for who reads the console, of lines that only read."""

import pytest

from bot.cards.card import Card, Heading, Table, Tone
from bot.grammar.line import effect_of
from tests.web.test_door import SECRET

COST = Card(
    "t",
    blocks=(Table((Heading("team"),), (("a",),)),),
    data={"rows": [{"key": {"team": "=a"}, "net_usd": 5}]},
)


async def answer(request):
    return COST if request.line.startswith("cost") else Card("no", Tone.ERROR)


async def test_a_page_with_a_table_offers_it_as_a_file(open_console):
    _, client = await open_console(answer=answer, effect=effect_of)
    assert (
        'href="/download?line=cost%207d"' in await (await client.get("/cost?line=cost%207d")).text()
    )
    given = await client.get("/download?line=cost%207d")
    assert given.headers["Content-Disposition"] == 'attachment; filename="trnbot-cost-7d.csv"'
    assert (await given.read()).decode() == "\ufeffteam,net_usd\r\n'=a,5\r\n"


@pytest.mark.parametrize(
    ("line", "headers", "to"),
    [
        ("ack a1", {}, "/ask?line=ack%20a1"),
        ("share cost", {}, "/ask?line=share%20cost"),
        ("backtest", {}, "/ask?line=backtest"),
        ("about", {}, "/settings?line=about"),
        (
            "cost",
            {
                "Sec-Fetch-Site": "cross-site",
                "Sec-Fetch-Mode": "navigate",
                "Sec-Fetch-Dest": "document",
            },
            "/cost?line=cost",
        ),
    ],
)
async def test_what_does_more_than_read_or_comes_by_a_link_is_shown_first(
    open_console, line, headers, to
):
    asked = []

    async def noting(request):
        asked.append(request.line)
        return await answer(request)

    _, client = await open_console(answer=noting, effect=effect_of)
    given = await client.get(
        "/download", params={"line": line}, headers=headers, allow_redirects=False
    )
    assert (given.status, given.headers["Location"]) == (303, to)
    assert asked in ([], ["about"])


async def test_nobody_gets_a_file_who_did_not_show_the_token(open_console):
    _, client = await open_console(answer=answer, effect=effect_of, secret=SECRET)
    assert (await client.get("/download?line=cost", allow_redirects=False)).status == 401
