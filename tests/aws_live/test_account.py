"""Set the account up, record it from the terminal, and let only the leader watch."""

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from bot.__main__ import main
from bot.errors import WrongInput
from bot.model.window import EVER
from bot.settings.settings import read_settings
from bot.watch.health import Health
from bot.wiring.source import OpenedSource
from bot.wiring.watch import LiveServer
from tests.aws_live.conftest import open_tiny


def test_settings_of_the_account():
    said = {
        "TRNBOT_AWS_REGIONS": "us-west-2, us-east-1",
        "TRNBOT_AWS_ROLES": "self,arn:aws:iam::4:role/r",
        "TRNBOT_AWS_BUDGET": "$2.50",
    }
    found = read_settings(said)
    assert found["aws.regions"] == ("us-west-2", "us-east-1")
    assert found["aws.roles"] == ("self", "arn:aws:iam::4:role/r")
    assert found["aws.budget"] == Decimal("2.50")
    assert read_settings({})["aws.budget"] is None


@pytest.mark.parametrize("said", ["lots", "-1", "1e9", "nan"])
def test_a_budget_is_an_amount(said):
    with pytest.raises(WrongInput, match=f"'{said}' is not an amount; write USD such as 5"):
        read_settings({"TRNBOT_AWS_BUDGET": said})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["record"], "takes one new folder"),
        (["record", "made", "--days", "16"], "keeps minutes for 15 days"),
        (["record", "made", "--days", "soon"], "soon"),
        (["record", "made", "--port", "1"], "no option '--port'"),
    ],
)
def test_a_wrong_record_is_one_sentence(words, said, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_a_record_from_the_terminal_can_be_read(world, monkeypatch, tmp_path, capsys):
    world.standin.shift = world.standin.shift_to(datetime.now(UTC), 0)
    world.standin.clock = lambda: datetime.now(UTC)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRNBOT_AWS_REGIONS", "us-west-2")
    assert main(["record", "made", "--days", "2h"]) == 0
    assert "points and" in capsys.readouterr().out
    assert [
        str(path)
        for path in (tmp_path / "made", *(tmp_path / "made").rglob("*"))
        if path.stat().st_mode & 0o077
    ] == []
    made = open_tiny(tmp_path / "made")
    # The clock goes on between what is asked for first and last.
    assert made.extent().end - made.extent().start <= timedelta(hours=2, minutes=5)
    end = made.extent().end
    assert len(made.read(end).inventory.instances) == 3
    recorded = OpenedSource(f"recording:{tmp_path / 'made'}", read_settings({}))
    assert len(recorded.outlook().findings(end)) == 1
    assert recorded.outlook().forecast(end)
    assert recorded.bill().tally(EVER, ("service",)).sources == ("Cost Explorer",)


class Lead:
    def __init__(self, leads):
        self.leads = leads

    def acquire_lead(self):
        return int(self.leads)

    def release_lead(self):
        self.leads = False

    def ticked_at(self):
        return None


class Ticks:
    """Stand for the app: note what is ticked."""

    def __init__(self):
        self.at, self.health = [], Health()

    async def tick(self, now):
        self.at.append(now)

    def leave(self):
        self.at.append("left")

    async def settle(self):
        self.at.append("settled")


@pytest.mark.parametrize("leads", [True, False])
async def test_only_the_leader_ticks(leads):
    now = datetime(2026, 11, 20, 12, 3, tzinfo=UTC)
    play = LiveServer(timedelta(minutes=5), lambda: now, Lead(leads), lambda: None)
    play.app = app = Ticks()
    await play.start()
    await asyncio.sleep(0.2)
    await play.stop()
    assert app.at == [*([now.replace(minute=0)] if leads else []), "left", "settled"]
