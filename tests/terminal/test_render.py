import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.terminal.render import as_markdown, columns, render
from bot.cards.card import (
    Align,
    Button,
    Buttons,
    Card,
    Chart,
    ChartKind,
    Code,
    Facts,
    Heading,
    Link,
    Series,
    Strong,
    Table,
    Tone,
    text,
)
from tests.e2e import samples

ALERT = """\
● FIRING 25 min · starved · llama-70b, 64 x trn1.32xlarge, us-west-2

NeuronCore utilization 20 %, usually 85-95 % at this hour. Runtime loaded, steps
run at 22 % of their usual rate, host CPU 96 %.

Wasting $1,083 an hour · $451 so far · about $23,800 by month end
(21,000-26,500) at amortised price of 2026-11-20

Likely the data loader (0.86); next: network (0.09). Try: more loader workers
and prefetch; stage the data on FSx.

NeuronCore utilization, mean of 64 nodes (%)
█████████████▇▇▇█▇▇███████████  ▇▇▇▇▇██████████████▇▇▇▇▇████████████▅▂▂▂▂ 20 %
                                                       since 14:00 ▔▔▔▔▔▔
Nov 20, 08:25                                                   14:25 UTC
usual 85-95 %
Utilization fell from 90 % to 20 % at 14:00 UTC; usual at this hour is 85-95 %.

Next:
  Acknowledge     trnbot ack a1
  Snooze…         trnbot snooze a1
  Not an anomaly  trnbot feedback a1 no
  Why             trnbot why a1
  Tune…           trnbot tune starved

Since Nov 20, 14:00 UTC · owner @dana · key starved/llama-70b
"""

TABLE = """\
◆ Cost

Team        Amortised
─────────────────────
research  $157,250.11
speech     $57,000.40
─────────────────────
Total     $214,250.51
3 teams under $10 folded away
"""

CARDS = [
    samples.alert_card(),
    samples.idle_card(),
    samples.over_card(),
    samples.cost_card(),
    samples.form_card(),
]


def cost(*rows, total=(), rest=""):
    return Card(
        "Cost",
        Tone.INFO,
        (Table((Heading("Team"), Heading("Amortised", Align.RIGHT)), rows, total, "", rest),),
    )


def test_alert_reads_as_in_a_chat():
    assert render(samples.alert_card(), 80, False) == ALERT


def test_tables_align_numbers_right():
    card = cost(
        ("research", "$157,250.11"),
        ("speech", "$57,000.40"),
        total=("Total", "$214,250.51"),
        rest="3 teams under $10 folded away",
    )
    assert render(card, 60, False) == TABLE


@pytest.mark.parametrize("width", [30, 48, 80, 160])
@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.title[:12])
def test_lines_fit_the_width(card, width):
    assert max(columns(line) for line in render(card, width, False).splitlines()) <= width


def test_numbers_are_never_cut():
    for width in (30, 40, 60, 100):
        assert "$157,250.11" in render(samples.cost_card(), width, False)


@pytest.mark.parametrize("width", [30, 44, 60, 100])
def test_an_id_is_never_broken_and_prose_never_cut(width):
    node, prose = "i-2f2de69dda129058d", "beyond its network, as it seems: check its metrics " * 3
    table = Table(
        (Heading("node"), Heading("cluster"), Heading("$/h", Align.RIGHT), Heading("verdict")),
        ((node, "gpu-baseline", "$157,250.11", prose),),
    )
    drawn = render(Card("Nodes", Tone.INFO, (table,)), width, False)
    assert node in drawn
    assert drawn.count("metrics") == 3


@pytest.mark.parametrize(
    ("line", "typed"),
    [
        ("ack a1", "trnbot ack a1"),
        ('why "a b"', 'trnbot why "a b"'),
        ("cost 7d by tag:team account!=1", "trnbot 'cost 7d by tag:team account!=1'"),
        ("why x;reboot", "trnbot 'why x;reboot'"),
        ("why $(reboot)", "trnbot 'why $(reboot)'"),
    ],
)
def test_a_shell_takes_a_line_as_it_is_printed(line, typed):
    drawn = render(Card("Alert", Tone.INFO, (Buttons((Button("Go", line),)),)), 80, False)
    assert f"  Go  {typed}\n" in drawn


@given(st.text(), st.booleans())
def test_data_never_controls_the_terminal(words, colour):
    card = Card(
        words,
        Tone.INFO,
        (
            text(words, Strong(words), Code(words)),
            Facts(((words, words),)),
            *cost((words, words)).blocks,
        ),
    )
    bare = (
        re.sub(r"\x1b\[[0-9;]+m", "", render(card, 60, colour))
        if colour
        else render(card, 60, colour)
    )
    assert not [c for c in bare if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs")]


def test_escape_sequences_from_data_are_defused():
    assert "\x1b" not in render(Card("a\x1b[31mred\x07\u202e"), 60, False)


@pytest.mark.parametrize("tone", list(Tone))
def test_colour_follows_the_tone_and_is_off_on_request(tone):
    card = Card("x", tone)
    assert render(card, 60, True).startswith("\x1b[1;")
    assert "\x1b" not in render(card, 60, False)


def test_links_show_their_address():
    assert "runbook <https://x.example>" in render(
        Card("t", blocks=(text(Link("runbook", "https://x.example")),)), 60, False
    )


def test_a_form_tells_what_to_type():
    drawn = render(samples.form_card(), 80, False)
    assert "snooze a1 name=value" in drawn
    assert "1h, 2h, 1d, 1w; now 2h" in drawn


def test_of_more_bars_than_fit_times_keep_the_newest_and_ranks_the_first():
    names = tuple(f"Oct {i}" for i in range(1, 31))
    series = (Series("s", tuple(float(i) for i in range(30))),)
    ranked, timed = (
        render(
            Card(
                "t",
                Tone.INFO,
                (Chart(ChartKind.BAR, "t", "$", series, categories=names, timed=timed),),
            ),
            80,
        )
        for timed in (False, True)
    )
    assert "Oct 1 " in ranked
    assert "and 10 more" in ranked
    assert "Oct 30" in timed
    assert "10 earlier, and" in timed
    assert "Oct 10 " not in timed


def test_a_flow_is_a_tree_whose_branches_stand_by_their_size():
    series = (Series("work", (60.0, 20.0)), Series("idle", (0.0, 20.25)))
    chart = Chart(ChartKind.FLOW, "t", "$", series, categories=("llama", "vision"))
    lines = render(Card("t", Tone.INFO, (chart,)), 80).splitlines()
    ends = [
        (line.split("█")[0].strip(" ▏▎▍▌▋▊▉"), line.split("$")[1]) for line in lines if "%" in line
    ]
    assert ends == [
        ("all", "100 100 %"),
        ("├ llama", "60 60 %"),
        ("│ └ work", "60 60 %"),
        ("└ vision", "40 40 %"),
        ("├ idle", "20 20 %"),
        ("└ work", "20 20 %"),
    ]


def test_markdown_for_a_pull_request_neither_formats_links_nor_mentions():
    hostile = "@dana `x` [a](http://b) | <b> *c* #1"
    table = Table(
        (Heading("node"), Heading("cost", Align.RIGHT)), ((hostile, "$1"),), ("total", "$1")
    )
    written = as_markdown(
        Card("Title *x*", Tone.INFO, (text(Strong("so"), f" {hostile}"), table), {})
    )
    assert written.startswith("### ◆ Title \\*x\\*\n")
    assert "@dana" not in written
    assert "**so** &#64;dana \\`x\\` \\[a\\](http&#58;//b) \\| \\<b\\> \\*c\\* \\#1" in written
    # Two cells a row, whatever stands in them.
    rows = [line for line in written.splitlines() if line.startswith("|")]
    assert rows[:2] == ["| node | cost |", "| --- | --: |"]
    assert {len(re.split(r"(?<!\\)\|", row)) for row in rows} == {4}
