"""What is kept of a person is handed out whole, and erased without a trace of the person."""

import json
import sqlite3
from datetime import timedelta

import pytest

from adapters.store.open import open_store
from adapters.web.people import TOKENS, ProgramToken
from bot.__main__ import main
from bot.answers.about.document import as_json
from bot.model.alert import Decision, DecisionKind, Silence
from bot.model.labels import Labels
from bot.model.notification import Line, StateUpdate
from bot.model.policy import Attempt
from tests.builders import NOON, alert
from tests.store.test_v0_1_0 import WRITTEN

DANA, BO = "slack:U01DANA42", "web:bo@x.org"
DAY = timedelta(days=1)


@pytest.fixture
def store(url):
    """Return a database in which two people decided, and one of them about the other."""
    opened = open_store(url)
    opened.save(
        StateUpdate(
            alerts=[alert(opened=NOON)],
            decisions=[
                Decision("d1", "a1", DecisionKind.ACKNOWLEDGE, DANA, "Dana Ö", NOON, "on leave"),
                Decision("d2", "a1", DecisionKind.ASSIGN, BO, "Bo", NOON, "hers", DANA, "Dana Ö"),
                Decision("d3", "a1", DecisionKind.ACKNOWLEDGE, BO, "Bo", NOON, "mine"),
            ],
            silences=[Silence("s1", Labels(team="x"), NOON, NOON + DAY, DANA, "Dana Ö", "my trip")],
            lines=[Line("l1", "n1", "slack:C1", NOON, {"title": "Dana Ö took it", "by": DANA})],
        )
    )
    opened.note(Attempt(NOON, DANA, "Dana Ö", "config set idle.below 5%"))
    opened.put("teams.people", "29:1abcdef", {"name": "Tia"})
    opened.put("teams.people", "U01DANA42", {"name": "Dana Ö"})
    opened.put(
        "web.messages",
        "m1",
        {"card": {"title": "Taken", "mentions": [{"id": DANA, "name": "Dana Ö"}]}},
    )
    # Within a sentence a bare id may be any word.
    opened.put("shelf", "ticket", {"title": "Ticket U01DANA42 is closed"})
    TOKENS.put(opened, "ci", ProgramToken("x", "reader", NOON, 60, NOON, DANA))
    yield opened
    opened.close()


def test_all_that_is_kept_is_handed_out(store):
    kept = store.kept_of(DANA)
    tables = sorted(row["table"] for row in kept)
    assert tables == ["attempts", "decisions", "decisions", "lines", *["shelf"] * 3, "silences"]
    assert "on leave" in as_json(kept)
    assert "mine" not in as_json(kept)
    assert store.kept_of("slack:U01DANA") == []


def test_an_erased_person_stays_counted_as_someone(store):
    before = store.decisions("a1")
    assert store.erase(DANA) == 8
    after = store.decisions("a1")
    assert store.kept_of(DANA) == []
    assert [(x.id, x.doing, x.at) for x in after] == [(x.id, x.doing, x.at) for x in before]
    assert [x.by_name for x in after] == ["someone", "Bo", "Bo"]
    assert len({x.by for x in after}) == 2
    assert (after[0].note, after[1].note, after[1].assignee) == ("", "hers", after[0].by)

    # Another one is another someone, and the watch reads all of it.
    assert store.erase(BO) == 2
    assert len({x.by for x in store.decisions("a1")}) == 2
    state = store.load(NOON)
    assert (state.silences[0].by_name, state.silences[0].reason) == ("someone", "")
    assert state.lines[0].card["title"] == "someone took it"
    assert [x.line for x in store.attempts(9)] == [""]
    assert store.get("teams.people", "U01DANA42") is None
    assert store.get("teams.people", "29:1abcdef") == {"name": "Tia"}


def test_nothing_of_the_person_stays_in_the_file_that_0_1_0_wrote(tmp_path, monkeypatch, capsys):
    path = tmp_path / "trnbot.db"
    with sqlite3.connect(path) as database:
        database.executescript(WRITTEN.read_text(encoding="utf-8"))
    database.close()
    monkeypatch.setenv("TRNBOT_DATABASE_URL", f"sqlite:///{path}")
    opened = open_store(f"sqlite:///{path}")
    people = {x.by for x in opened.decisions(*[a.id for a in opened.load(NOON).alerts])}
    opened.close()
    assert people
    for person in people:
        capsys.readouterr()
        assert main(["people", "export", person]) == 0
        assert len(json.loads(capsys.readouterr().out)) > 0
        assert main(["people", "erase", person]) == 0
        assert main(["people", "erase", person]) == 2
        held = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert person.encode() not in held
