"""The audit log tells who did what from where with which result, a line of JSON each, and the history tells all."""

import json
import logging
import socket
from dataclasses import replace
from datetime import timedelta

import pytest

from bot.answers.config.show import history_card
from bot.errors import Unavailable, WrongInput
from bot.model.policy import Attempt, Version, VersionKind
from bot.model.request import LOCAL, Belonging, Request, Standing, User
from bot.ports.work import Asker, asked_by
from bot.wiring.logs import audit_to, hide
from tests.builders import NOON
from tests.guarded import guarded, later

DANA, EVE = User("web:dana@x.org", "Dana"), User("slack:U9", "Eve")


@pytest.fixture
def log(tmp_path):
    """Return the records of an audit log in a file."""
    path = tmp_path / "audit.jsonl"
    audit_to(str(path))
    hide(["hunter2-hunter2"])
    yield lambda: [json.loads(line) for line in path.read_text().splitlines()]
    logging.getLogger("trnbot.audit").handlers[:] = [logging.NullHandler()]
    hide([])


def asked(line, user=DANA, **more):
    made = Request(line, user, later(), "web", LOCAL, "web:alerts")
    return replace(made, **more)


async def test_changes_refusals_and_shares_are_told_and_plain_reads_are_not(log):
    bot = await guarded("web:dana@x.org")
    asker = Asker()
    asker.origin = "192.0.2.7"
    stranger = Belonging("T9", Standing.STRANGER)
    with asked_by(asker):
        for line in (f"ack {bot.alert}", "alerts", "share alerts", "not a line at all"):
            await bot.bot.answer(asked(line))
    await bot.bot.answer(asked("subscribe", EVE, surface="slack", channel="slack:C1"))
    await bot.bot.answer(asked("alerts", EVE, surface="slack", belonging=stranger))
    await bot.bot.answer(asked(f"useful {bot.alert} hunter2-hunter2\u202e\n{{}}"))
    records = log()
    told = [(x["who"], x["from"], x["result"], x["line"]) for x in records[:2]]
    assert told == [
        ("web:dana@x.org", "192.0.2.7", "done", f"ack {bot.alert}"),
        ("web:dana@x.org", "192.0.2.7", "done", "share alerts"),
    ]
    assert [(x["who"], x["result"], x["surface"]) for x in records[2:4]] == [
        ("slack:U9", "refused", "slack"),
        ("slack:U9", "refused", "slack"),
    ]
    assert "for admins" in records[2]["because"]
    assert records[3]["from"] == "T9"
    assert "hunter2" not in json.dumps(records)
    assert "\u202e" not in records[4]["line"]
    assert len(records) == 5
    assert all(x["at"].endswith("Z") for x in records)


async def test_it_goes_to_syslog_and_is_begun_anew_where_the_file_was_moved_away(log, tmp_path):
    bot = await guarded()
    await bot.bot.answer(asked(f"ack {bot.alert}"))
    (tmp_path / "audit.jsonl").rename(tmp_path / "audit.1")
    await bot.bot.answer(asked(f"useful {bot.alert}"))
    assert [x["line"].split()[0] for x in log()] == ["useful"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(10)
        audit_to(f"syslog:127.0.0.1:{listening.getsockname()[1]}")
        await bot.bot.answer(asked(f"useful {bot.alert}"))
        packet = listening.recv(4_096).decode()
    assert json.loads(packet.partition("trnbot: ")[2].rstrip("\x00"))["who"] == DANA.id
    with pytest.raises(Unavailable, match="TRNBOT_AUDIT"):
        audit_to(str(tmp_path / "nowhere" / "audit"))


def test_the_history_is_whole_and_paged():
    edits = {"edits": (), "overrides": (), "preview": "", "shown": {}}
    versions = [
        Version(n, NOON + timedelta(days=n), "web:a", "a", VersionKind.UNDO, **edits)
        for n in range(40, 0, -1)
    ]
    attempts = [Attempt(NOON, "web:b", "b", f"config set {n}", "for admins") for n in range(12)]
    pages = [history_card(versions, attempts, page) for page in (1, 2, 3)]
    shown = [row[0] for card in pages for row in card.blocks[0].rows]
    assert shown == [str(n) for n in range(40, 0, -1)]
    assert all(len(card.data["versions"]) == 40 for card in pages)
    lines = [b.line for card in pages for x in card.blocks for b in getattr(x, "buttons", ())]
    assert [x for x in lines if "page" in x] == ["config history page=2", "config history page=3"]
    with pytest.raises(WrongInput, match="3 pages"):
        history_card(versions, attempts, 4)
