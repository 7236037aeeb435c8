"""From an empty folder to a test that somebody presses, and to the first true alert: the steps of README.md."""

import os
import pty
import select
import sys
import time
from datetime import UTC, datetime

import pytest

from tests.aws_live.standin import StandIn, environment, simulated
from tests.e2e.product import product
from tests.e2e.slackserver import APP_TOKEN, BOT_TOKEN, FINANCE, free_port, slack_server
from tests.e2e.test_product import button, message

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]
ANSWERS = (
    ("Regions of the fleet", "us-west-2"),
    ("Where the bill is delivered", ""),
    ("Connect Slack?", "yes"),
    ("Bot token", BOT_TOKEN),
    ("App token", APP_TOKEN),
    ("Channel of the alerts", "finops"),
    ("Connect Teams?", ""),
)
"""What a person types, by a part of the question."""


class Terminal:
    """Run a command at a terminal of its own, as a person sits before it."""

    def __init__(self, folder, environ, *command):
        self.text = ""
        self.process, self._screen = pty.fork()
        if not self.process:
            os.chdir(folder)
            os.execve(command[0], command, environ)

    def reads(self, words, seconds=60):
        """Read on until the words are there; return all that came since the last time."""
        end, begin = time.monotonic() + seconds, len(self.text)
        while words not in self.text[begin:]:
            assert time.monotonic() < end, f"'{words}' never came: {self.text[-2000:]}"
            if select.select([self._screen], [], [], 0.2)[0]:
                self.text += os.read(self._screen, 4096).decode()
        return self.text[begin:]

    def types(self, line):
        os.write(self._screen, f"{line}\n".encode())

    def ends(self):
        """Return the exit code."""
        code = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        os.close(self._screen)
        return code


@pytest.fixture
def aws(tmp_path):
    """Serve an account of three nodes, of which two have been idle for three quarters of an hour."""
    began = datetime.now(UTC)
    standin = StandIn(simulated(tmp_path / "account", began, 2.25), lambda: datetime.now(UTC))
    given = environment(standin, standin.start())
    yield {name: given[name] for name in given if name.startswith("AWS_")}
    standin.stop()


async def test_from_an_empty_folder_to_a_pressed_test_and_the_first_true_alert(aws, tmp_path):
    folder = tmp_path / "new"
    folder.mkdir()
    outside = {x: y for x, y in os.environ.items() if not x.startswith(("TRNBOT_", "AWS_"))}
    with slack_server("socket", tmp_path) as server:
        environ = {**outside, **aws, "SLACK_API_URL": server.api_url}
        began = time.monotonic()
        command = (sys.executable, "-m", "trnbot", "connect", "--no-browser")
        terminal = Terminal(folder, environ, *command)
        for question, answer in ANSWERS:
            terminal.reads(question)
            terminal.types(answer)
        terminal.reads("press 'I see it' there")
        assert BOT_TOKEN not in terminal.text
        assert "will cost about $" in terminal.text

        posted = await message(server, FINANCE, "Test of trnbot's alerts")
        await server.press(FINANCE, posted, button(posted, "I see it"))
        terminal.reads("as the first admin?")
        pressed_s = time.monotonic() - began
        assert "alice pressed after" in terminal.text
        assert "Cannot write" not in terminal.text, "the press was answered before Slack was left"
        terminal.types("")
        terminal.reads("To leave:")
        assert "Next: trnbot serve\r\n" in terminal.text
        assert terminal.ends() == 0
        seen = await message(server, FINANCE, "has seen the test")
        assert seen["ts"] == posted["ts"] or "alice" in str(seen)

        # The next command is what was said, and nothing is set by hand.
        with product(folder, free_port(), {**aws, "SLACK_API_URL": server.api_url}) as running:
            alert = await message(server, FINANCE, "idle", seconds=120)
            assert running.health()["ok"]
        alert_s = time.monotonic() - began
        print(f"a pressed test after {pressed_s:.0f} s, the first true alert after {alert_s:.0f} s")
        assert "$" in str(alert["blocks"])
