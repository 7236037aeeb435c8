"""Open databases: addresses, migrations, many processes, crashes."""

import multiprocessing
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text

from adapters.store import open
from adapters.store.open import DatabaseLease, FileLease, masked, open_store, prepare, read_address
from adapters.store.tables import METADATA
from bot.__main__ import main
from bot.errors import Standby, StoreFailed, Unavailable, WrongInput
from bot.model.alert import Alert, Waste
from bot.model.anomaly import Anomaly
from bot.model.causes import Cause
from bot.model.labels import Labels
from bot.model.window import Window
from bot.ports import State, StateUpdate
from bot.ports.work import leading

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)


def alert(name):
    labels, cost = Labels(cluster="llama"), Decimal("10.5")
    anomaly = Anomaly("idle", Cause.IDLE, labels, labels, ("i-1",), Window(NOW, NOW), 0.9, 0.0, "%")
    return Alert(
        name,
        anomaly,
        NOW,
        NOW,
        waste=Waste(Decimal("21.50"), Decimal("0.1"), cost, cost, cost, "price list"),
    )


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("mysql://dana:hunter2@db/x", "'mysql' is not a database"),
        ("postgresq://dana:hunter2@db/x", "did you mean 'postgresql'"),
        ("dana:hunter2@db", "cannot be read"),
        ("postgresql://dana:hunter2@db:port/x", "cannot be read"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("", "cannot be read"),
    ],
)
def test_a_wrong_address_is_named_without_its_password(address, words):
    with pytest.raises(WrongInput, match=words) as caught:
        open_store(address)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "address", ["postgresql://u@h/n", "postgres://u@h/n", "postgresql+psycopg://u@h/n"]
)
def test_postgres_has_three_spellings(address):
    assert read_address(address).drivername == "postgresql+psycopg"


def test_a_server_that_does_not_answer_is_unavailable_without_its_password():
    with pytest.raises(Unavailable, match=r"cannot be opened.*TRNBOT_DATABASE_URL") as caught:
        open_store("postgresql://dana:hunter2@127.0.0.1:1/x?sslpassword=hunter3")
    assert "hunter" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    ["dana:hunter2@db", "postgresql://dana:hunter2/?@x@db", "postgresql://db/x?password=hunter2"],
)
def test_masking_hides_a_password_wherever_it_stands(address):
    assert "hunter2" not in masked(address)


def test_masking_leaves_what_tells_databases_apart():
    assert (
        masked("postgresql://dana:p%40ss@db.example:5432/trnbot?password=x")
        == "postgresql://****@db.example:5432/trnbot"
    )


def test_a_file_that_is_no_database_is_unavailable(tmp_path):
    (tmp_path / "x.db").write_text("not a database " * 100)
    with pytest.raises(Unavailable, match="cannot be opened: file is not a database"):
        open_store(f"sqlite:///{tmp_path}/x.db")


def test_the_migrations_make_exactly_the_tables(empty_url):
    open_store(empty_url).close()
    engine = create_engine(read_address(empty_url))
    with engine.connect() as connection:
        differences = compare_metadata(
            MigrationContext.configure(connection, opts={"compare_type": True}), METADATA
        )
    engine.dispose()
    assert differences == []


def test_the_last_migration_is_the_one_the_code_knows():
    config = Config()
    config.set_main_option("script_location", str(open.Path(open.__file__).parent / "migrations"))
    assert ScriptDirectory.from_config(config).get_current_head() == open.HEAD


def test_a_second_opening_keeps_what_was_saved(url):
    first = open_store(url)
    first.save(StateUpdate(ticked_at=NOW))
    first.close()
    second = open_store(url)
    assert second.load(NOW) == State(ticked_at=NOW)
    second.close()


def test_tables_of_a_newer_version_are_left_alone(url):
    open_store(url).close()
    engine = create_engine(read_address(url))
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(Unavailable, match="newer trnbot"):
        open_store(url)


def test_a_step_before_the_first_release_is_refused_in_words(url, monkeypatch, capsys):
    open_store(url).close()
    engine = create_engine(read_address(url))
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0002'"))
    engine.dispose()
    sentence = "at step 0002, before the first that was released"
    with pytest.raises(Unavailable, match=sentence):
        open_store(url)
    monkeypatch.setenv("TRNBOT_DATABASE_URL", url)
    assert main(["upgrade", "--check"]) == 1
    said = capsys.readouterr()
    assert sentence in said.err
    assert "adds to the tables" not in said.out


def open_and_write(url, name):
    store = open_store(url)
    for i in range(5):
        store.put("race", f"{name}-{i}", {})
    store.close()


def test_processes_that_open_an_empty_database_at_once_all_succeed(empty_url):
    with ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("spawn")) as pool:
        for done in [pool.submit(open_and_write, empty_url, name) for name in "abcd"]:
            done.result()
    store = open_store(empty_url)
    assert len(store.newest("race", 99)) == 20
    store.close()


CRASH = """
import os, sys
from datetime import UTC, datetime, timedelta
from adapters.store.open import open_store
from bot.model.alert import Decision, DecisionKind
from bot.ports import StateUpdate

now = datetime(2026, 11, 20, 9, tzinfo=UTC)
store = open_store(sys.argv[1])
store.save(StateUpdate(decisions=[Decision("kept", "a", DecisionKind.USEFUL, "u", "u", now)], ticked_at=now))
store.put("before", "k", {})

from adapters.store import sql
dying = sql.insert_new
sql.insert_new = lambda *args: (dying(*args), os._exit(7))
store.save(StateUpdate(decisions=[Decision("lost", "a", DecisionKind.USEFUL, "u", "u", now)]))
"""


def test_a_process_that_dies_within_a_save_leaves_the_save_before(url):
    died = subprocess.run([sys.executable, "-c", CRASH, url], check=False, timeout=60)
    assert died.returncode == 7
    store = open_store(url)
    assert [x.id for x in store.decisions("a")] == ["kept"]
    assert store.load(NOW).ticked_at == NOW
    store.close()


def test_one_of_two_leads_and_the_other_takes_over(url):
    first, second = open_store(url), open_store(url)
    assert first.acquire_lead()
    assert first.acquire_lead()
    assert not second.acquire_lead()
    first.release_lead()
    assert second.acquire_lead()
    first.close()
    second.close()


class Seconds:
    """Real seconds moved by hand."""

    def __init__(self):
        self.at = 0.0

    def __call__(self):
        return self.at


def lease_of(postgres_url, lasts_s=60.0):
    """Return a process's leases, its stopwatch, and their engine."""
    engine, stopwatch = create_engine(read_address(postgres_url)), Seconds()
    return DatabaseLease(engine, lasts_s, stopwatch), stopwatch, engine


def expire(engine):
    with engine.begin() as connection:
        connection.execute(text("UPDATE leases SET expires = now() - interval '1 second'"))


def test_a_lead_of_sqlite_ends_with_its_process(tmp_path):
    url = f"sqlite:///{tmp_path}/trnbot.db"
    code = "import os, sys; from adapters.store.open import open_store; os._exit(open_store(sys.argv[1]).acquire_lead() + 6)"
    assert (
        subprocess.run([sys.executable, "-c", code, url], check=False, timeout=60).returncode == 7
    )
    store = open_store(url)
    assert store.acquire_lead()
    store.close()


def test_a_lock_is_held_under_its_one_epoch_until_it_is_given_back(tmp_path):
    lease = FileLease(tmp_path / "lock")
    assert [lease.holds("watch", 1), lease.holds("send a", 7)] == [False, True]
    assert [lease.take("watch"), lease.take("watch"), lease.holds("watch", 2)] == [1, 1, False]
    lease.free("watch", 0)
    assert lease.holds("watch", 1)
    lease.free("watch", 1)
    assert not lease.holds("watch", 1)


def test_a_lease_is_taken_once_it_ran_out_and_its_holder_learns_so(postgres_url):
    open_store(postgres_url).close()
    (frozen, stopwatch, engine), (standby, _, other) = (
        lease_of(postgres_url),
        lease_of(postgres_url),
    )
    assert [frozen.take("watch"), frozen.take("watch"), standby.take("watch")] == [1, 1, 0]
    expire(engine)
    assert frozen.take("watch") == 1, "nobody took it meanwhile"
    expire(engine)
    assert standby.take("watch") == 2
    assert frozen.holds("watch", 1), "its own word is new enough"
    stopwatch.at = 31
    assert [frozen.holds("watch", 1) for _ in "ab"] == [False, False], "asking renews nothing"
    assert [frozen.take("watch"), standby.holds("watch", 2)] == [0, True]
    standby.free("watch", 2)
    assert frozen.take("watch") == 3
    assert not standby.holds("watch", 2)
    engine.dispose()
    other.dispose()


def test_all_that_a_process_holds_is_renewed_and_what_was_released_is_another_ones(postgres_url):
    open_store(postgres_url).close()
    (first, stopwatch, engine), (second, _, other) = lease_of(postgres_url), lease_of(postgres_url)
    assert [first.take("watch"), first.take("send a"), second.take("send a")] == [1, 1, 0]
    expire(engine)
    first.take("watch")
    assert second.take("send a") == 0
    expire(engine)
    assert second.take("send a") == 2
    second.free("send a", 2)
    stopwatch.at = 31
    assert not first.holds("send a", 1), "another process has sent it meanwhile"
    assert first.take("send a") == 1
    engine.dispose()
    other.dispose()


def test_what_a_deposed_leader_writes_is_refused_as_a_whole(postgres_url):
    first, second = open_store(postgres_url), open_store(postgres_url)
    epoch = first.acquire_lead()
    engine = create_engine(read_address(postgres_url))

    async def check():
        """Nothing is sent here."""

    with leading(epoch, check):
        first.save(StateUpdate(ticked_at=NOW))
        expire(engine)
        assert second.acquire_lead() == epoch + 1
        for write in (
            lambda: first.save(StateUpdate([alert("late")], ticked_at=NOW + timedelta(hours=1))),
            lambda: first.put("digests", "c", {}),
        ):
            with pytest.raises(Standby):
                write()
    assert second.load(NOW).ticked_at == NOW
    assert (second.load(NOW).alerts, second.get("digests", "c")) == ((), None)
    first.put("digests", "c", {})  # what no lead is needed for is written by anybody
    engine.dispose()
    first.close()
    second.close()


def test_a_leader_that_stands_still_within_a_write_is_cut_off(postgres_url, monkeypatch):
    monkeypatch.setitem(open._SESSION, "idle_in_transaction_session_timeout", "300ms")
    first, second = open_store(postgres_url, 0.2), open_store(postgres_url, 0.2)
    epoch = first.acquire_lead()

    async def check():
        """Nothing is sent here."""

    def stand_still():
        with leading(epoch, check), first._writing():
            while not second.acquire_lead():  # it waits until the server ends the session
                time.sleep(0.05)

    with pytest.raises(StoreFailed):
        stand_still()
    first.close()
    second.close()


def test_a_session_of_postgresql_has_limits(postgres_url):
    store = open_store(postgres_url)
    with store._speaking(store._reader) as connection:
        said = [connection.execute(text(f"SHOW {name}")).scalar() for name in open._SESSION]
        options = connection.connection.driver_connection.info.get_parameters()
    assert said == ["1min", "5s"]
    assert options["tcp_user_timeout"] == "15000"
    assert options["keepalives_idle"] == "10"
    store.close()


def test_money_can_be_summed_where_it_is_kept(url):
    store = open_store(url)
    store.save(StateUpdate([alert("a"), alert("b")]))
    engine = create_engine(read_address(url))
    with engine.connect() as connection:
        assert (
            connection.execute(
                text("SELECT sum(usd_per_hour) FROM alerts WHERE usd_so_far < 9")
            ).scalar()
            == 43
        )
    engine.dispose()
    store.close()


def switch_to_wal(path, barrier, said):
    connection = sqlite3.connect(path, isolation_level=None)
    barrier.wait()
    try:
        prepare(connection, None)
        said.put("ready")
    except sqlite3.Error as error:
        said.put(str(error))


def test_processes_that_switch_a_new_file_to_wal_at_once_take_turns(tmp_path):
    context = multiprocessing.get_context("fork")
    for i in range(5):
        barrier, said = context.Barrier(4), context.Queue()
        workers = [
            context.Process(target=switch_to_wal, args=(tmp_path / f"{i}.db", barrier, said))
            for _ in range(4)
        ]
        for worker in workers:
            worker.start()
        assert [said.get(timeout=30) for _ in workers] == ["ready"] * 4
        for worker in workers:
            worker.join()


def test_sqlite_answers_readers_while_someone_writes(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/trnbot.db")
    store.save(StateUpdate(ticked_at=NOW))
    writer = sqlite3.connect(tmp_path / "trnbot.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    assert store.load(NOW).ticked_at == NOW
    writer.close()
    store.close()


def test_a_stored_body_that_was_damaged_is_named(url):
    store = open_store(url)
    engine = create_engine(read_address(url))
    with engine.begin() as connection:
        row = "'n', 'c', 'FIRST', '2026-11-20 09:00:00', 'm', 0, '{}'"
        connection.execute(
            text(f"INSERT INTO said (id, channel, reason, at, message, over, body) VALUES ({row})")
        )
    engine.dispose()
    with pytest.raises(
        Unavailable, match="A stored notification log entry cannot be read: NotificationLogEntry: "
    ):
        store.load(NOW)
    store.close()


def test_a_file_that_is_damaged_is_noticed_by_a_connection_that_has_read_it_before(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/now.db")
    store.save(StateUpdate(alerts=[alert("a1")], ticked_at=NOW))
    assert len(store.load(NOW).alerts) == 1
    for name, begin in (("now.db", 0), ("now.db-wal", 32)):
        with (tmp_path / name).open("r+b") as file:
            file.seek(begin)
            file.write(b"\xa5" * ((tmp_path / name).stat().st_size - begin))
    with pytest.raises(StoreFailed, match="; stop trnbot and restore a backup"):
        store.load(NOW)


def test_who_sends_a_message_keeps_the_watch_until_the_store_is_closed(sqlite_url):
    first, second = open_store(sqlite_url), open_store(sqlite_url)
    assert first.acquire_lead()
    first.release("m1", first.hold("m1"))
    assert not second.acquire_lead()
    first.close()
    assert second.acquire_lead()
    second.close()
