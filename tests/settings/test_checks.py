"""The doctor names what would not be served, and where workspaces install."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from adapters.billing.bill import open_billing
from bot.errors import Unavailable
from bot.settings.routes import OwnersFile
from bot.settings.settings import read_settings
from bot.wiring.checks import examine

OAUTH = {
    "SLACK_CLIENT_ID": "1.2",
    "SLACK_CLIENT_SECRET": "hunter2",
    "SLACK_APP_TOKEN": "xapp-1",
    "TRNBOT_SLACK_WORKSPACES": "T1, T2",
}


def nothing() -> Any:
    raise Unavailable("There is nothing here.")


class Opened:
    """A recording of which nothing can be opened but the bill that is given."""

    live = False
    account = recording = staticmethod(nothing)

    def __init__(self, bill: Callable[[], Any] = nothing) -> None:
        self.bill = bill
        self.owners = OwnersFile("")


def found(environ: dict[str, str], name: str) -> list[tuple[bool, str]]:
    return [
        (one.ok, one.found) for one in examine(read_settings(environ), Opened()) if one.name == name
    ]


def test_what_would_not_be_served_is_named() -> None:
    ((ok, sentence),) = found({"TRNBOT_HOST": "0.0.0.0"}, "serve")
    assert (ok, "set TRNBOT_WEB_TOKEN" in sentence) == (False, True)
    assert found({}, "serve") == []


def test_a_channel_of_a_platform_that_is_not_set_up_is_missed() -> None:
    there = {"SLACK_BOT_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1"}
    routed = {"TRNBOT_ROUTE": "web:alerts, slack:C1, teams:19:x"}
    lost = "slack:C1, teams:19:x: not reached, as that platform is not set up"
    assert found(routed, "route") == [(False, lost)]
    lost = "teams:19:x: not reached, as that platform is not set up"
    assert found(routed | there, "route") == [(False, lost)]
    assert found({"TRNBOT_ROUTE": "slack:C1"} | there, "route") == [(True, "slack:C1")]


def test_the_address_where_workspaces_install_is_told() -> None:
    public = {
        "TRNBOT_PUBLIC_URL": "https://trn.example",
        "TRNBOT_WEB_TOKEN": "correct horse battery",
    }
    ((ok, sentence),) = found(OAUTH | public, "Slack")
    assert (ok, sentence) == (
        True,
        "installed by OAuth at https://trn.example/slack/install, by T1, T2",
    )


def test_a_bill_that_is_not_whole_needs_somebody(tmp_path: Path) -> None:
    columns = "line_item_usage_start_date,line_item_unblended_cost"
    (tmp_path / "whole.csv").write_text(f"{columns}\n2026-11-02T00:00:00Z,3\n")

    def billing() -> tuple[bool, str]:
        bill = open_billing(tmp_path)
        (check,) = (
            x for x in examine(read_settings({}), Opened(lambda: bill)) if x.name == "billing"
        )
        bill.close()
        return check.ok, check.found

    assert billing() == (True, "billed through Nov 2, 00:00 UTC")
    (tmp_path / "torn.csv.gz").write_bytes(b"no gzip")
    ok, found = billing()
    assert not ok
    assert found.startswith("billed through Nov 2, 00:00 UTC; torn.csv.gz could not be read")


def test_a_mapping_of_owners_with_a_mistake_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "owners.toml"
    path.write_text('[[owner]]\nname = "dana"\nclutser = "llama"\n')
    settings, opened = read_settings({"TRNBOT_OWNERS_FILE": str(path)}), Opened()
    opened.owners = OwnersFile(str(path))
    (check,) = (one for one in examine(settings, opened) if one.name == "owners")
    assert not check.ok
    assert check.found.startswith(
        "owners.toml, line 3: 'clutser' is nothing to own by; did you mean 'cluster'"
    )
