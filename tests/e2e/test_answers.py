"""The answers to a lead's questions, asked in the real clients; pictures for the docs on the way.

With TRNBOT_SHOTS=docs/pictures the pictures are taken again.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.playground import playground
from tests.e2e.product import product, recording
from tests.e2e.slackserver import free_port, slack_server
from tests.e2e.test_life import STILL, newest, say, screen, teams_settings
from tests.e2e.test_product import ask, slack_settings

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]
ANSWERS = (
    ("summary", "Do first", "summary"),
    ("forecast", "Spent until", "forecast"),
    ("price trn1.32xlarge", "on demand", "price"),
    ("what did llama cost in the last 3 days?", "Read as", "read-as"),
    ("why llama", "Why:", "why-cluster"),
)
"""A line, words of its answer, and the name of its picture."""


async def test_a_lead_asks_in_slack_and_gets_a_table_as_a_file(
    watched: Path, tmp_path: Path, browser: Any
) -> None:
    shutil.copytree(watched, tmp_path, dirs_exist_ok=True)
    with slack_server("socket", tmp_path) as server:
        settings = slack_settings(server, "socket") | {
            "TRNBOT_SOURCE": f"recording:{recording('reference')}",
            "TRNBOT_ROUTE": "web:alerts",
        }
        with product(tmp_path, free_port(), settings | STILL):
            async with screen(browser, server.url, "slack", 1300) as slack:
                await slack.page.get_by_text("finops-alerts").first.click()
                for line, words, name in ANSWERS:
                    await say(slack, f"/trn {line}")
                    await slack.sees(words)
                    await slack.shot(name, newest(slack))
                await say(slack, "/trn csv cost 3d by team")
                await slack.sees("trnbot-cost-3d-by-team.csv")
                await slack.shot("csv", newest(slack))


async def test_a_personal_chat_of_teams_begins_with_the_summary(
    watched: Path, tmp_path: Path, browser: Any
) -> None:
    shutil.copytree(watched, tmp_path, dirs_exist_ok=True)
    port = free_port()
    with playground(f"http://127.0.0.1:{port}/api/messages") as url:
        async with screen(browser, "about:blank", "teams", 1400) as teams:
            with product(tmp_path, port, teams_settings() | STILL):
                await teams.page.goto(url)
                await teams.sees("Hello, trnbot watches")
                await teams.sees("month to date by service")
                await teams.shot("home")
                for line, words, name in ANSWERS:
                    await ask(teams.page, line)
                    await teams.sees(words)
                    await teams.shot(name)
                await ask(teams.page, "csv cost 3d by team")
                await teams.sees("--csv")
