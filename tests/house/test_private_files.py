"""What the bot writes is for its own user alone, whatever the umask, and no secret stands in it."""

from __future__ import annotations

import base64
import os
import sqlite3
import stat
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from adapters.chat.slack.surface import SlackSurface
from adapters.store.open import open_store, tighten
from adapters.store.sealing import fresh_key
from bot.__main__ import main
from bot.settings.settings import read_settings
from bot.wiring.secrets import sealed_documents
from tests.e2e.product import product, recording
from tests.e2e.slackserver import free_port
from tests.slack.conftest import Bot, Workspace, config, ports, slack
from tests.slack.test_installing import MENTION, grant, installed

fake_slack = slack
TOKENS = {team: f"xoxb-{team}-1234567890-AbCdEfGhIjKlMnOp" for team in ("T1", "T2")}
CLIENT_SECRET, KEY = "0123456789abcdef0123456789abcdef", fresh_key()


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=["umask 000", "umask 022", "umask 077"])
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """Return the permissions of everything in a folder, and of itself."""
    return {
        str(path.relative_to(folder.parent)): stat.S_IMODE(path.stat().st_mode)
        for path in (folder, *folder.rglob("*"))
    }


def private(folder: Path) -> None:
    """Check that nobody but the owner may read anything there."""
    assert {path: oct(mode) for path, mode in modes(folder).items() if mode & 0o077} == {}


@pytest.mark.usefixtures("_umask")
def test_the_database_its_log_and_its_lock_are_private(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/new/state/trnbot.db")
    assert store.acquire_lead()
    store.put("checklists", "c", {"x": 1})
    kept = modes(tmp_path / "new")
    assert {Path(path).name for path in kept} >= {
        "state",
        "trnbot.db",
        "trnbot.db-wal",
        "trnbot.db-shm",
        "trnbot.db.lead",
    }
    private(tmp_path / "new")
    store.close()


def test_a_database_that_others_could_read_is_tightened_with_a_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o755)
    path = tmp_path / "trnbot.db"
    with sqlite3.connect(path) as old:
        old.execute("PRAGMA journal_mode=WAL")
        old.execute("CREATE TABLE t (x)")
        for file in tmp_path.iterdir():
            file.chmod(0o644)
        open_store(f"sqlite:///{path}").close()
    old.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert f"others could read {path}" in caplog.text
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755, (
        "a folder that the bot did not make is not the bot's"
    )


def test_files_that_others_could_read_are_counted_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = [tmp_path / name for name in "ab"]
    for file in files:
        file.touch(0o644)
    tighten(files[:1])
    assert caplog.messages.pop().startswith(f"others could read {files[0]}; now")
    files[0].chmod(0o644)
    tighten(files)
    assert caplog.messages[-1].startswith(f"others could read {files[0]} and 1 more; now")


def test_a_link_in_the_state_folder_is_not_followed(tmp_path: Path) -> None:
    target, folder = tmp_path / "target", tmp_path / "state"
    target.write_text("x")
    target.chmod(0o644)
    folder.mkdir()
    (folder / "link").symlink_to(target)
    tighten(folder.rglob("*"))
    assert stat.S_IMODE(target.stat().st_mode) == 0o644


@pytest.mark.usefixtures("_umask")
def test_a_line_leaves_private_files_and_what_is_handed_on_is_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRNBOT_SOURCE", "simulator:7/tiny")
    before = os.umask(0)
    os.umask(before)
    assert main(["fleet"]) == 0
    private(tmp_path / ".trnbot")
    assert main(["manifest", "shared"]) == 0
    assert stat.S_IMODE((tmp_path / "shared" / "slack.yaml").stat().st_mode) == 0o666 & ~before
    after = os.umask(0)
    os.umask(after)
    assert after == before


def spellings(secret: str) -> Iterator[bytes]:
    """Yield a secret as `strings` would find it: in UTF-8, in UTF-16, and in base64 at each of its three offsets."""
    yield secret.encode()
    yield from (secret.encode(code) for code in ("utf-16-le", "utf-16-be"))
    for shift in range(3):
        inner = base64.b64encode(b"\0" * shift + secret.encode())
        yield inner[4:-4]


def found_in(folder: Path, secrets: list[str]) -> list[tuple[str, str]]:
    """Return which secret stands in which file."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    wanted = [(secret, spelled) for secret in secrets for spelled in spellings(secret)]
    return [
        (path.name, secret)
        for path in files
        for secret, spelled in wanted
        if spelled in path.read_bytes()
    ]


def test_the_search_finds_every_spelling(tmp_path: Path) -> None:
    secret = TOKENS["T1"]
    basic = base64.b64encode(f"u:{secret}".encode())
    for number, content in enumerate([secret.encode(), secret.encode("utf-16"), basic]):
        (tmp_path / f"{number}").write_bytes(b"\1\2" + content + b"\3")
    assert len(found_in(tmp_path, [secret])) >= 3


async def use(slack: Any, documents: Any, store: Any) -> list[str]:
    """Install the app in two workspaces, ask in each, reinstall one and remove it from the other; return every secret used."""
    bot = Bot()
    slack.granted = {
        f"code-{team}": grant(team, access_token=token) for team, token in TOKENS.items()
    }
    app = {
        "client_id": "1.2",
        "client_secret": CLIENT_SECRET,
        "workspaces": ("T1", "T2"),
        "public_url": "http://trnbot.example",
    }
    made = ports(bot, store)
    surface = SlackSurface(
        config(slack, **app),
        type(made)(made.answer, made.clock, made.draw, documents, store, made.hints),
    )
    routes = web.Application()
    routes.add_routes(surface.routes())
    cookies: list[str] = []
    async with TestClient(TestServer(routes)) as browser:
        for team in ("T1", "T2", "T1"):
            assert (await installed(browser, team)).status == 200
            cookies += [morsel.value for morsel in browser.session.cookie_jar if morsel.value]
        space = Workspace(browser, surface, slack)
        await space.command("cost 7d")
        await space.command("cost 7d", team_id="T2")
        await space.event(MENTION, team="T2")
        assert slack.tokens[-1][1] == TOKENS["T2"], "each workspace is spoken to by its own token"
        await space.event({"type": "app_uninstalled"}, team="T2")
    await surface.stop()
    slack_secrets = [
        *TOKENS.values(),
        CLIENT_SECRET,
        config(slack, bot_token="xoxb-x").signing_secret,
        *cookies,
    ]
    return [*slack_secrets, KEY, "_hooks/", "code-T1"]


async def test_no_secret_is_found_by_strings_in_the_state_folder(
    fake_slack: Any, tmp_path: Path
) -> None:
    """Run installations and sessions over a database that an older version wrote; read every byte while it is open and after."""
    folder = tmp_path / "state"
    url = f"sqlite:///{folder}/trnbot.db"
    old = "xoxb-OLD-0987654321-zYxWvUtSrQpOnMlK"
    store = open_store(url)
    for name in ("before", "after"):  # the one before stays in a page that is free again
        store.put(
            "slack.installations",
            "T2",
            {"name": name, "token": old, "at": "2026-11-20T00:00:00+00:00"},
        )
    assert found_in(folder, [old]), "the older version's way is what is looked for"
    settings = read_settings({"TRNBOT_DATABASE_URL": url, "TRNBOT_SECRETS_KEY": KEY})
    documents = sealed_documents(settings, store)
    assert documents.get("slack.installations", "T2")["token"] == old  # type: ignore[index] - it is there
    assert found_in(folder, [old]) == []
    used = await use(fake_slack, documents, store)
    assert documents.get("slack.installations", "T1")["token"] == TOKENS["T1"]  # type: ignore[index] - it is there
    assert found_in(folder, [old, *used]) == []
    store.close()
    assert found_in(folder, [old, *used]) == []
    private(folder)


def test_a_product_that_serves_tightens_its_folder_and_leaves_no_secret_in_it(
    tmp_path: Path,
) -> None:
    state = tmp_path / ".trnbot"
    (state / "aws").mkdir(parents=True)
    (state / "aws" / "usage.json").write_text("{}")
    for path in (state, state / "aws"):
        path.chmod(0o755)
    (state / "aws" / "usage.json").chmod(0o644)
    token = "correct-horse-battery-staple"
    environment = {
        "TRNBOT_SOURCE": f"recording:{recording('tiny')}",
        "TRNBOT_DATABASE_URL": "sqlite:///.trnbot/trnbot.db",
        "TRNBOT_WEB_TOKEN": token,
        "TRNBOT_SECRETS_KEY": KEY,
    }
    with product(tmp_path, free_port(), environment, ("serve", "--verbose")) as bot:
        asked = urllib.request.Request(
            f"{bot.url}/alerts", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(asked, timeout=30) as answer:
            assert answer.status == 200
        private(state)
        assert found_in(tmp_path, [token, KEY]) == []
    assert (
        "others could read .trnbot and 2 more; now only the user who runs trnbot can"
        in bot.log.read_text()
    )
