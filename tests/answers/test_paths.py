"""Nothing typed outside a terminal reaches the file system, but for the names that two folders offer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from adapters.store.memory import MemoryStore
from bot.app import App
from bot.cards.card import Tone
from bot.errors import WrongInput
from bot.model.limits import POLICY_BYTES
from bot.settings.settings import read_settings
from bot.wiring.source import OpenedSource, folder_of
from tests.answers.configuring import app, ask, refused
from tests.e2e.product import recording

CHATS = ("slack", "teams", "web", "chat")


@pytest.mark.parametrize("surface", CHATS)
async def test_a_device_named_as_a_policy_is_not_read(bot: App, surface: str) -> None:
    assert "Paths are for a terminal" in refused(
        await ask(bot, f"backtest {_tiny()} policy=/dev/zero", surface=surface)
    )


@pytest.mark.parametrize("surface", CHATS)
async def test_no_simulation_is_written_for_a_line_from_chat(
    bot: App, surface: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for line in (
        "backtest simulator:7",
        "backtest simulator:7/tiny",
        'backtest "simulator:8/calm"',
    ):
        assert "Paths are for a terminal" in refused(await ask(bot, line, surface=surface))
    written = {name for _, folders, _ in os.walk(tmp_path) for name in folders}
    assert "simulator" not in written


@pytest.mark.parametrize("surface", CHATS)
@pytest.mark.parametrize(
    "line", ["backtest {}", "backtest recording:{}", "backtest x policy={}", "config import {}"]
)
async def test_an_admin_in_chat_cannot_probe_the_servers_files(
    bot: App, tmp_path: Path, surface: str, line: str
) -> None:
    (tmp_path / "locked").touch(mode=0o000)
    (tmp_path / "text").write_text("hunter2 is no toml")
    (tmp_path / "folder").mkdir()
    places = [
        "/etc/passwd",
        "/etc/shadow",
        "/root",
        "../..",
        "~/.ssh",
        *(str(tmp_path / x) for x in ("locked", "text", "folder")),
    ]
    told = {
        refused(await ask(bot, line.format(place), surface=surface)).replace(place, "X")
        for place in (*places, "/nothing/there")
    }
    assert len(told) == 1, "what stands at a path changes the answer"
    assert "hunter2" not in told.pop()


async def test_no_folder_of_the_server_is_opened_as_a_recording(bot: App) -> None:
    card = await ask(bot, f"backtest {_tiny()}", surface="slack")
    assert (card.tone, "alerts" in card.data) == (Tone.ERROR, False)


@pytest.fixture
def offering(opened: OpenedSource, tmp_path: Path) -> App:
    recordings, policies, outside = (
        tmp_path / name for name in ("recordings", "policies", "outside")
    )
    for folder in (recordings, policies, outside):
        folder.mkdir()
    (recordings / "hollow").mkdir()
    (recordings / "week-46").mkdir()
    for part in _tiny().iterdir():
        (recordings / "week-46" / part.name).symlink_to(part)
    (recordings / "linked").symlink_to(outside)
    (recordings / "again").symlink_to(recordings / "week-46")
    (policies / "night.toml").write_text("[idle]\non = false\n")
    (policies / "huge.toml").write_text("#" * (POLICY_BYTES + 1))
    (policies / "linked.toml").symlink_to(outside / "secret.toml")
    (outside / "secret.toml").write_text("[idle]\non = false\n")
    os.mkfifo(policies / "fifo.toml")
    source = f"recording:{_tiny()}"
    environ = {
        "TRNBOT_SOURCE": source,
        "TRNBOT_INTERVAL": "30m",
        "TRNBOT_RECORDINGS": str(recordings),
        "TRNBOT_POLICIES": str(policies),
    }
    return app(OpenedSource(source, read_settings(environ)), MemoryStore())


async def test_what_folders_offer_is_backtested_by_name(offering: App) -> None:
    card = await ask(offering, "backtest week-46 policy=night")
    assert card.title.startswith("week-46: ")
    assert "idle" not in {alert["cause"] for alert in card.data["alerts"]}
    assert (await ask(offering, "backtest week-46 policy=night.toml")).data["alerts"] == card.data[
        "alerts"
    ]
    assert (await ask(offering, "config import night")).data["edits"]


async def test_the_names_offered_are_in_the_refusal_and_links_out_are_not_offered(
    offering: App,
) -> None:
    assert "known: again, hollow, week-46" in refused(await ask(offering, "backtest linked"))
    assert "did you mean 'week-46'?" in refused(await ask(offering, "backtest week-45"))
    told = refused(await ask(offering, "backtest week-46 policy=linked"))
    assert "known: huge, night" in told


@pytest.mark.parametrize(
    "name",
    [
        "../outside",
        "/etc",
        ".",
        "..",
        "week-46/../../outside",
        "linked/x",
        "week-46/",
        "",
        "\u00e9",
        "a" * 200,
    ],
)
async def test_what_is_no_plain_name_is_refused(offering: App, name: str) -> None:
    assert "no recording offered here" in refused(await ask(offering, f'backtest "{name}"'))


async def test_the_refusal_of_an_offered_name_tells_no_path(offering: App, tmp_path: Path) -> None:
    hollow, huge = (
        refused(await ask(offering, "backtest hollow")),
        refused(await ask(offering, "backtest week-46 policy=huge")),
    )
    assert "The recording hollow has no metric" in hollow
    assert f"The policy 'huge' has over {POLICY_BYTES:,} bytes; give a smaller one." in huge
    assert str(tmp_path) not in hollow + huge


async def test_a_terminal_names_paths_and_offered_names(offering: App, tmp_path: Path) -> None:
    by_path = await ask(
        offering, f"backtest {_tiny()} policy={tmp_path}/policies/night.toml", surface="terminal"
    )
    by_name = await ask(offering, "backtest week-46 policy=night", surface="terminal")
    assert (by_path.data["alerts"], by_name.data["alerts"]) == ([], [])
    assert (await ask(offering, f"backtest {_tiny()}", surface="terminal")).data["alerts"]
    assert "has over" in refused(
        await ask(offering, f"backtest {_tiny()} policy=/dev/zero", surface="terminal")
    )
    assert "cannot be read" in refused(
        await ask(offering, "backtest week-46 policy=nothing.toml", surface="terminal")
    )


@pytest.mark.parametrize("name", ["7/../../../tmp", "7/tiny/..", "x", "9" * 5_000, "7/", "\u0663"])
def test_a_simulation_has_a_seed_and_a_scenario_and_no_path(name: str) -> None:
    with pytest.raises(WrongInput, match="is not a seed"):
        folder_of(f"simulator:{name}")


def _tiny() -> Path:
    return recording("tiny")
