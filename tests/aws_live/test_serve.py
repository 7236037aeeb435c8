"""Serve against the stand-in, as `make aws` does: everything is read, an alert is open, the cost is answered."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.slackserver import free_port

ROOT = Path(__file__).parents[2]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[int, int]]:
    port, console = free_port(), free_port()
    words = [sys.executable, "-m", "tests.aws_live.standin", "--port", str(port)]
    bot = [sys.executable, "-m", "bot", "serve"]
    environment = os.environ | {"TRNBOT_PORT": str(console), "PYTHONPATH": str(ROOT)}
    with (tmp_path / "log").open("wb") as log:
        running = subprocess.Popen(
            [*words, "--run", *bot],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        yield port, console
        # As Ctrl-C in a terminal: every process of the group hears it, and nothing is left.
        os.killpg(running.pid, signal.SIGINT)
        running.wait(20)
    assert not health(console)
    assert b"Traceback" not in (tmp_path / "log").read_bytes()


def health(console: int) -> dict[str, object]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{console}/healthz", timeout=5) as answer:
            return dict(json.load(answer))
    except OSError:
        return {}


@pytest.mark.slow
def test_an_alert_is_open_and_lines_are_answered_until_the_end(served, tmp_path):
    port, console = served
    until = time.monotonic() + 90
    while not health(console).get("ticks") and time.monotonic() < until:
        time.sleep(0.5)
    found = health(console)
    # The idle nodes, and the jump that Cost Anomaly Detection found.
    assert (found["open_alerts"], found["problem"], found["live"]) == (2, "", True)
    # One address points S3, STS, Cost Explorer, CloudTrail and all others at the stand-in.
    environment = os.environ | {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "AKIASTANDIN",
        "AWS_SECRET_ACCESS_KEY": "standin",
        "TRNBOT_AWS_REGIONS": "us-west-2",
        "TRNBOT_AWS_BILLING": "s3://billing-exports/billing",
        "TRNBOT_SOURCE": "aws",
        "PYTHONPATH": str(ROOT),
    }

    def said(*words: str) -> str:
        line = [sys.executable, "-m", "bot", *words]
        return subprocess.run(
            line,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            # What is not set up yet, such as Slack, is a 1 of its checks.
            check="doctor" not in words,
            timeout=90,
            text=True,
        ).stdout

    assert float(json.loads(said("cost", "7d", "--json"))["data"]["total"]["net_usd"]) > 1000
    assert "s3:GetObject" in said("self", "--json")
    assert "us-west-2" in said("doctor")
