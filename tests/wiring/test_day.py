"""A day of the product says to AWS, to people, to its database and to its log what it was last seen to say.

Each golden in `days/` is the journal of a process that serves an account: what happened (`==`), and after the tick that
followed (`--`) each call that AWS answered, each message, each row that changed (`+ ~ -`), each line of the log, and how the
watch stands. `make goldens` writes them: read the diff.
"""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Iterator
from contextlib import redirect_stderr
from datetime import timedelta
from pathlib import Path

import pytest

from bot.__main__ import main
from tests import goldens
from tests.aws_live.conftest import World
from tests.aws_live.test_connect import serving
from tests.aws_live.test_events import QUEUE, health
from tests.wiring.conftest import tiny
from tests.wiring.day import Day, Happening, Office

NODE = "i-8fe715fad2d9108d3"
DAYS = Path(__file__).with_name("days")
MASKS = (
    (r"http://127\.0\.0\.1:\d+", "http://HERE"),
    (r"\b\d+(\.\d+)? s\b", "N s"),
    (r"\bm\d{14}-[0-9a-f]{8}\b", "MESSAGE"),
)
SETTINGS = {
    "TRNBOT_SOURCE": "aws",
    "TRNBOT_AWS_REGIONS": "us-west-2",
    "TRNBOT_AWS_BILLING": "s3://billing-exports/billing",
    "TRNBOT_PORT": "0",
    "TRNBOT_ROUTE": "slack:C02FIN",
    "TRNBOT_ADMINS": "slack:U01ALICE",
    "SLACK_BOT_TOKEN": "xoxb-secret-bot",
    "SLACK_APP_TOKEN": "xapp-secret-app",
}


@pytest.fixture
def office() -> Iterator[Office]:
    with serving(Office()) as made:
        yield made


@pytest.fixture
def day(world: World, office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Day:
    monkeypatch.chdir(tmp_path)
    for name, value in (SETTINGS | {"SLACK_API_URL": office.url}).items():
        monkeypatch.setenv(name, value)
    next(world.ticks(3.25, 3.25))
    return Day(world, office, tmp_path)


def check(name: str, day: Day) -> None:
    """Hold a journal against its golden."""
    text = "\n".join(day.journal) + "\n"
    for pattern, word in MASKS:
        text = re.sub(pattern, word, text)
    goldens.check(DAYS / f"{name}.txt", text)


def types(user: str, line: str, answer: str) -> Happening:
    """Return what a person types, until it is answered in words that contain these."""

    async def happens(day: Day) -> None:
        day.office.types(user, line)
        await day.hears(answer)

    return happens


def presses(user: str, button: str, answer: str) -> Happening:
    """Return a press on the newest message with such a button, until it is answered."""

    async def happens(day: Day) -> None:
        day.office.presses_button(user, button)
        await day.hears(answer)

    return happens


def denied(*actions: str) -> Happening:
    """Return what AWS denies from now on, five minutes later."""

    def happens(day: Day) -> None:
        day.world.standin.faults.denied = set(actions)
        day.passes(5)

    return happens


def dead(*, is_dead: bool) -> Happening:
    """Return whether nothing of AWS answers, five minutes later."""

    def happens(day: Day) -> None:
        day.world.standin.faults.dead = is_dead
        day.passes(5)

    return happens


def refused(method: str, *codes: str) -> Happening:
    """Return how Slack answers the next calls of a method, five minutes later."""

    def happens(day: Day) -> None:
        day.office.failing[method] = list(codes)
        day.passes(5)

    return happens


def set_clock(minutes: float) -> Happening:
    """Return what sets the clock of the machine, while no time passes."""

    def happens(day: Day) -> None:
        day.world.now += timedelta(minutes=minutes)

    return happens


def later(minutes: float = 5) -> Happening:
    """Return what lets time pass."""
    return lambda day: day.passes(minutes)


async def begun_twice(day: Day) -> None:
    """Serve with the same database in another thread, as another process would."""
    said = io.StringIO()
    with redirect_stderr(said):
        code = await asyncio.to_thread(main, ["serve"])
    day.note(f"exit {code}: {said.getvalue().strip()}")


WAIT = ("five minutes pass", later())


def test_an_ordinary_day(day: Day) -> None:
    """Two nodes begin to idle, people look and decide; the process is restarted, stands still, and the nodes work again."""
    people = (
        ("Alice acknowledges", presses("U01ALICE", "Acknowledge", "Acknowledged by you")),
        (
            "Eve, who is no admin, changes a threshold",
            types("U0EVE", "config set idle.below=4%", "for admins"),
        ),
        ("Dana asks what it costs", types("U0DANA", "cost 2d", "amortised")),
        ("Alice adds a route", types("U01ALICE", "subscribe cause=starved", "C02FIN")),
    )
    twice = ("another process begins with the same database", begun_twice)
    assert day.lives(WAIT, WAIT, WAIT, WAIT, *people, twice) == 0
    stops = (
        ("twenty minutes in which the process stands still", later(20)),
        ("two hours in which it stands still", later(125)),
    )
    assert day.lives(*stops, WAIT, WAIT) == 0
    check("ordinary", day)


def announced(day: Day) -> None:
    """Announce that something is wrong with a node."""
    now, code = day.world.now, "AWS_EC2_INSTANCE_STORE_DRIVE_PERFORMANCE_DEGRADED"
    day.world.standin.queue.put(health(code, NODE, at=now, starts=now))
    day.passes(5)


def test_a_day_on_which_much_fails(day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS denies and falls silent, Slack refuses, the clock is set; each is said once, and once that it is over."""
    monkeypatch.setenv("TRNBOT_AWS_EVENTS", QUEUE)
    day.lives(
        ("instances may not be described", denied("ec2:DescribeInstances")),
        ("metrics may not be read", denied("cloudwatch:GetMetricData")),
        ("all is allowed again", denied()),
        ("AWS announces that something is wrong with a node", announced),
        ("Slack refuses the alert", refused("chat.postMessage", "channel_not_found")),
        WAIT,
        ("AWS answers nothing", dead(is_dead=True)),
        WAIT,
        WAIT,
        ("AWS answers again", dead(is_dead=False)),
        WAIT,
        ("the clock is set ahead by an hour", set_clock(60)),
        ("a minute passes", later(1)),
        ("the clock is right again", set_clock(-60)),
        WAIT,
        ("the clock is set back by half an hour", set_clock(-30)),
        WAIT,
        WAIT,
    )
    check("trouble", day)


RECORDED = {
    "TRNBOT_SOURCE": f"recording:{tiny()}",
    "TRNBOT_SPEED": "1000000",
    "TRNBOT_ROUTE": "slack:C02FIN",
}


def test_a_recording_that_is_played(day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is played to its end; a restart has nothing left to play, and a demonstration shows only the end of it."""
    for name, value in RECORDED.items():
        monkeypatch.setenv(name, value)
    assert day.lives() == 0
    assert day.lives(("Dana asks what is wrong", types("U0DANA", "alerts", "alert"))) == 0
    day.moves(day.folder / "demo")
    assert day.lives(words=("demo", "--no-browser")) == 0
    check("recording", day)
