"""A backup is taken while the database is written to, goes back into either kind, and versions know each other."""

import sqlite3
import threading
from datetime import timedelta

import pytest
from sqlalchemy import create_engine, select

from adapters.store import backup, open
from adapters.store.open import HEAD, open_store, read_address
from adapters.store.tables import METADATA
from bot.__main__ import main
from bot.errors import Unavailable, WrongInput
from bot.model.notification import StateUpdate
from tests.builders import NOON
from tests.store.test_v0_1_0 import WRITTEN


@pytest.fixture
def old(tmp_path):
    """Return the file that 0.1.0 wrote."""
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as database:
        database.executescript(WRITTEN.read_text(encoding="utf-8"))
    database.close()
    return path


def everything(url):
    """Return every row of every table."""
    engine = create_engine(read_address(url))
    with engine.connect() as connection:
        rows = {
            table.name: [tuple(map(str, row)) for row in connection.execute(select(table))]
            for table in METADATA.sorted_tables
        }
    engine.dispose()
    return {name: sorted(found) for name, found in rows.items()}


def test_what_0_1_0_wrote_moves_into_either_kind_out_of_it_and_on(old, empty_url, tmp_path):
    backup.restore(old, empty_url, replace=False)
    moved = everything(empty_url)
    copied = backup.back_up(empty_url, tmp_path / "copy")
    assert (copied.step, copied.rows) == (HEAD, sum(map(len, moved.values())))
    assert copied.rows > 50

    # Back over what came meanwhile; and the watch counts on from there.
    store = open_store(empty_url)
    store.save(StateUpdate(ticked_at=NOON + timedelta(days=9)))
    store.close()
    assert everything(empty_url) != moved
    with pytest.raises(WrongInput, match="--replace"):
        backup.restore(tmp_path / "copy", empty_url, replace=False)
    backup.restore(tmp_path / "copy", empty_url, replace=True)
    assert everything(empty_url) == moved
    store = open_store(empty_url)
    store.save(StateUpdate(ticked_at=NOON + timedelta(days=9)))
    assert store.ticked_at() == NOON + timedelta(days=9)
    store.close()
    assert not list(tmp_path.rglob("*.part*"))


def test_a_backup_is_of_one_instant_while_others_write(empty_url, tmp_path):
    store, ended = open_store(empty_url), threading.Event()

    def write():
        number = 0
        while not ended.is_set():
            number += 1
            # Both or neither: a copy that has one of them is of no instant.
            store.save(StateUpdate(ticked_at=NOON + timedelta(minutes=number)))

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for number in range(3):
            copied = backup.back_up(empty_url, tmp_path / f"copy{number}")
            with sqlite3.connect(tmp_path / f"copy{number}") as database:
                first, last, count = database.execute(
                    "SELECT min(number), max(number), count(*) FROM ticks"
                ).fetchone()
            assert (copied.step, last - first + 1 if count else 0) == (HEAD, count)
    finally:
        ended.set()
        writing.join()
        store.close()


def test_nothing_is_put_under_a_trnbot_that_serves(old, empty_url):
    store = open_store(empty_url)
    assert store.acquire_lead()
    with pytest.raises(Unavailable, match="stop every trnbot"):
        backup.restore(old, empty_url, replace=True)
    store.close()


def test_a_version_before_refuses_in_words_before_it_writes(old, tmp_path, monkeypatch, capsys):
    """Down: today's database under the code that knows one step less."""
    backup.restore(old, f"sqlite:///{tmp_path}/trnbot.db", replace=False)
    backup.back_up(f"sqlite:///{tmp_path}/trnbot.db", tmp_path / "today")
    copy = tmp_path / "today"
    assert copy.stat().st_mode & 0o077 == 0
    assert copy.read_bytes()[18:20] == b"\1\1", "one file, without a log beside it"
    before = everything(f"sqlite:///{tmp_path}/today")
    steps = f"{int(HEAD) - 1:04}"
    monkeypatch.setattr(open, "HEAD", steps)
    monkeypatch.setattr(backup, "HEAD", steps)
    with pytest.raises(Unavailable, match=f"newer trnbot .step {HEAD}, this one knows {steps}"):
        open_store(f"sqlite:///{tmp_path}/today")
    with pytest.raises(WrongInput, match="nothing was changed"):
        backup.restore(tmp_path / "today", f"sqlite:///{tmp_path}/other.db", replace=False)
    monkeypatch.setenv("TRNBOT_DATABASE_URL", f"sqlite:///{tmp_path}/today")
    assert main(["upgrade", "--check"]) == 1
    assert "nothing was changed" in capsys.readouterr().err
    assert everything(f"sqlite:///{tmp_path}/today") == before
    assert backup.step_of(f"sqlite:///{tmp_path}/today") == HEAD
    assert not (tmp_path / "other.db").exists()


def test_an_upgrade_leaves_the_way_back(old, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRNBOT_DATABASE_URL", f"sqlite:///{old}")
    monkeypatch.chdir(tmp_path)
    assert main(["upgrade", "--check"]) == 0
    assert backup.step_of(f"sqlite:///{old}") < HEAD
    assert main(["upgrade", "before"]) == 0
    assert backup.step_of(f"sqlite:///{old}") == HEAD
    assert backup.examine(tmp_path / "before").step < HEAD
    assert main(["upgrade"]) == 0
    assert "Nothing to do" in capsys.readouterr().out


def test_what_is_no_backup_is_told_by_name(tmp_path, old):
    (tmp_path / "text").write_text("no database")
    sqlite3.connect(tmp_path / "empty").close()
    broken = bytearray(old.read_bytes())
    broken[-4096:] = b"\xff" * 4096
    (tmp_path / "broken").write_bytes(broken)
    for name in ("text", "empty", "broken", "missing"):
        with pytest.raises(WrongInput, match=name):
            backup.restore(tmp_path / name, f"sqlite:///{tmp_path}/new.db", replace=False)
    assert not (tmp_path / "new.db").exists()


def test_a_database_is_replaced_only_where_that_is_said(old, tmp_path, monkeypatch, capsys):
    """By the words of a terminal: what is in the place stays until `--replace` says otherwise."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRNBOT_DATABASE_URL", f"sqlite:///{tmp_path}/trnbot.db")
    assert main(["restore", str(old)]) == 0
    assert " restored." in capsys.readouterr().out
    store = open_store(f"sqlite:///{tmp_path}/trnbot.db")
    store.put("web", "since", {})
    store.close()
    assert main(["restore", str(old)]) == 2
    assert "--replace" in capsys.readouterr().err
    store = open_store(f"sqlite:///{tmp_path}/trnbot.db")
    assert store.get("web", "since") == {}
    store.close()
    assert main(["restore", str(old), "--replace"]) == 0
    store = open_store(f"sqlite:///{tmp_path}/trnbot.db")
    assert store.get("web", "since") is None
    store.close()
