"""Work over two seconds shows how far it is: a bar on a terminal, now and then a line in a pipe, and `--json` stays clean."""

import io
import json
import os
import pty
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from adapters.terminal.render import ProgressBar
from tests.e2e.product import recording
from tests.e2e.slackserver import free_port
from tests.terminal.test_first_call import ROOT, trnbot

ENVIRON = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [ROOT, *sys.path[1:]]))}


class Terminal(io.StringIO):
    """A stream that a person watches."""

    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def bar(stream: io.StringIO, seconds: float) -> ProgressBar:
    clock = Clock()
    drawn = ProgressBar(stream, clock)
    clock.now = seconds
    drawn("Replaying", 30, 120)
    return drawn


def test_a_bar_on_a_terminal_after_two_seconds():
    stream = Terminal()
    bar(stream, 2.5)
    assert "Replaying [=======" in stream.getvalue()
    assert "25 %, 2 s" in stream.getvalue()


def test_quick_work_draws_nothing():
    stream = Terminal()
    bar(stream, 1.9).close()
    assert stream.getvalue() == ""


def test_the_bar_is_gone_before_the_answer():
    stream = Terminal()
    bar(stream, 9).close()
    assert stream.getvalue().rpartition("\r")[2] == ""
    assert stream.getvalue().split("\r")[-2].strip() == ""


def test_a_line_now_and_then_where_no_terminal_reads():
    quick, slow = io.StringIO(), io.StringIO()
    bar(quick, 29).close()
    bar(slow, 60).close()
    assert (quick.getvalue(), slow.getvalue()) == ("", "Replaying: 25 %, 60 s so far\n")


def test_a_pipe_s_stdout_has_the_json_alone_and_stderr_no_bar(tmp_path):
    done = trnbot("backtest", f"recording:{recording('story')}", "--json", folder=tmp_path)
    assert json.loads(done.stdout)["command"] == "backtest"
    assert all(line.endswith(" so far") for line in done.stderr.splitlines())  # where it is slow


def test_a_terminal_sees_the_bar_on_stderr_while_stdout_is_clean(tmp_path):
    ours, theirs = pty.openpty()
    call = [
        sys.executable,
        "-m",
        "bot",
        "alerts",
        "--source",
        f"recording:{recording('story')}",
        "--json",
    ]
    with subprocess.Popen(
        call, cwd=tmp_path, env=ENVIRON, stdout=subprocess.PIPE, stderr=theirs
    ) as running:
        os.close(theirs)
        drawn = b"".join(read_to_the_end(ours))
        assert running.stdout
        answer = json.loads(running.stdout.read())
    assert answer["command"] == "alerts"
    assert b"Replaying [" in drawn


def read_to_the_end(terminal):
    """Yield all that is written to a terminal until nobody writes to it any more."""
    with suppress(OSError):
        while some := os.read(terminal, 4096):
            yield some
    os.close(terminal)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_healthz_says_starting_and_not_ok_while_the_source_still_opens_and_the_log_says_so(
    tmp_path: Path,
):
    port, log = free_port(), tmp_path / "log"
    environ = ENVIRON | {"TRNBOT_PORT": str(port)}
    call = [
        sys.executable,
        "-m",
        "bot",
        "demo",
        "--no-browser",
        "--source",
        "simulator:7/reference",
    ]
    said, pages = list[dict[str, object]](), list[str]()
    with (
        log.open("wb") as out,
        subprocess.Popen(call, cwd=tmp_path, env=environ, stdout=out, stderr=out) as running,
    ):
        while running.poll() is None and (not said or said[-1].get("starting")):
            said += [one] if (one := answered(port, "/healthz", json.loads)) else []
            pages += (
                [page]
                if said and said[-1].get("starting") and (page := answered(port, "/", str))
                else []
            )
        running.terminate()
    assert said[0]["starting"] is True
    assert said[0]["ok"] is False
    assert "Opening simulator:7/reference" in str(said[0]["problem"])
    assert any('class="bone' in page for page in pages)
    assert "opening simulator:7/reference, for" in log.read_text()


def answered(port, path, read):
    """Return what is answered, whatever its status; None where nobody does."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
            return read(answer.read().decode())
    except urllib.error.HTTPError as error:
        return read(error.read().decode())
    except OSError:
        return None
