"""Versions of the policy and attempts to change it, in every kind of store."""

from datetime import timedelta

import pytest

from adapters.store import open
from adapters.store.open import open_store
from bot.errors import WrongInput
from bot.model.labels import Labels
from bot.model.notification import StateUpdate
from bot.model.policy import Attempt, Edit, Version, VersionKind
from tests.builders import NOON

LLAMA = Labels(cluster="llama")


def version(number: int, **more: object) -> Version:
    edit = Edit(LLAMA, "idle.below", "5%", "15%")
    made = {
        "by": "chat:U1",
        "by_name": "dana",
        "doing": VersionKind.SET,
        "preview": "p1",
        "shown": {"alerts": [2, 1], "usd": "1.50"},
    }
    return Version(
        number, NOON, **{**made, **more}, edits=(edit,), overrides=((LLAMA, "idle.below", "15%"),)
    )


def test_versions_come_back_as_they_were_written(store):
    first, second = version(1), version(2, doing=VersionKind.UNDO, restores=0, preview="", shown={})
    store.add(first)
    store.add(second)
    assert list(store.versions(9)) == [second, first]
    assert list(store.versions(1)) == [second]


def test_a_number_is_taken_once(store):
    store.add(version(1))
    with pytest.raises(WrongInput, match="in the same moment; nothing of yours was applied"):
        store.add(version(1, by="chat:U2"))
    assert [one.by for one in store.versions(9)] == ["chat:U1"]


def test_attempts_come_back_newest_first(store):
    tried = [
        Attempt(NOON + timedelta(minutes=i), "chat:U1", "dana", f"config set x {i}", "no" * i)
        for i in range(3)
    ]
    for attempt in tried:
        store.note(attempt)
    assert list(store.attempts(2)) == [tried[2], tried[1]]


def test_a_database_of_before_is_brought_up_to_date_with_what_it_holds(empty_url, monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setattr(open, "HEAD", "0003")
        first = open_store(empty_url)
        first.save(StateUpdate(ticked_at=NOON))
        first.close()
    second = open_store(empty_url)
    second.add(version(1))
    assert (second.load(NOON).ticked_at, second.versions(1)[0].number) == (NOON, 1)
    second.close()
