"""What is kept of places and people: written once, again after it was forgotten, and led to by what is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adapters.chat.teams.activity import Account, Place, Reference
from adapters.chat.teams.conversations import (
    Conversation,
    Conversations,
    Person,
    conversation_of,
    is_person,
)
from adapters.store.memory import MemoryStore
from bot.errors import Unavailable
from tests.cases import in_one_run


class Shelf(MemoryStore):
    """Counts what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []

    def put(self, shelf: str, key: str, document: Any) -> None:
        self.written.append(key)
        super().put(shelf, key, document)


class Opening:
    """Opens a chat under the person's own name, and remembers by whom it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    async def __call__(self, *asked: str) -> str:
        self.asked.append(asked)
        return f"a:{asked[2]}"


def place(name: str, kind: str = "channel", **more: Any) -> Conversation:
    reference = Reference(Place(name, kind, "t1"), f"https://{name}", Account("28:bot"))
    return Conversation(reference, kind, **more)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


async def test_a_place_is_written_when_anything_about_it_changed_and_after_it_was_forgotten(
    shelf: Shelf,
) -> None:
    kept = Conversations(shelf, Opening())
    known = place("19:x")
    for conversation in (known, known, replace(known, greeted=True), replace(known, shared=True)):
        await kept.remember(conversation)
    assert shelf.written == ["19:x"] * 3
    assert await kept.get("19:x;messageid=5") == replace(known, shared=True)
    await kept.forget("19:x")
    assert await kept.get("19:x") is None
    await kept.remember(replace(known, shared=True))
    assert await kept.get("19:x") == replace(known, shared=True)


async def test_a_person_is_reached_in_their_chat_which_is_opened_once(shelf: Shelf) -> None:
    opening = Opening()
    kept = Conversations(shelf, opening)
    with pytest.raises(Unavailable, match="has not introduced the bot to '29:1'"):
        await kept.reach("29:1")
    with pytest.raises(Unavailable, match="has not introduced the bot to '19:x'"):
        await kept.reach("19:x")
    await kept.remember(place("19:other"))
    await kept.remember(place("19:x"))
    await kept._put("29:1", Person(heard="19:other", entra="e"))
    chat = await kept.reach("29:1")
    assert opening.asked == [("https://19:other", "28:bot", "29:1", "t1")]
    assert (chat.id, chat.personal, chat.greeted) == ("a:29:1", True, True)
    assert await kept.person("29:1") == Person("a:29:1", "19:other", "e")
    assert await kept.reach("29:1") == chat
    assert len(opening.asked) == 1

    # Who never wrote is looked for by the place that was written last.
    await kept.reach("29:2")
    assert opening.asked[-1][2] == "29:2"
    assert await kept.person("29:2") == Person("a:29:2", "a:29:2")


async def test_only_channels_are_listed_and_opened_to_others(shelf: Shelf) -> None:
    kept = Conversations(shelf, Opening())
    for conversation in (place("19:a"), place("19:g", "groupChat"), place("a:1", "personal")):
        await kept.remember(conversation)
        await kept.open_to_others(conversation.id)
    await kept.open_to_others("19:unknown")
    (channel,) = await kept.channels()
    assert (channel.id, channel.shared) == ("19:a", True)
    assert await kept.get("19:unknown") is None


async def test_a_message_is_found_by_its_key_in_its_own_place(shelf: Shelf) -> None:
    kept = Conversations(shelf, Opening())
    await kept.keep_message("19:x|y", "n1", "5")
    await kept.keep_message("19:x|y", "n1", "6")
    await kept.keep_message("19:x", "n1", "7")
    assert await kept.messages("19:x|y") == {"n1": "6"}
    assert await kept.messages("19:x") == {"n1": "7"}


@in_one_run
@pytest.mark.parametrize(
    ("kind", "private", "threaded"),
    [("channel", False, True), ("groupChat", False, False), ("personal", True, False)],
)
def test_a_thread_is_of_a_channel_and_a_chat_of_one_is_private(
    kind: str, private: bool, threaded: bool
) -> None:
    conversation = place("19:x", kind)
    assert (conversation.private, conversation.threaded) == (private, threaded)
    assert conversation.thread("5") == ("19:x;messageid=5" if threaded else "19:x")
    assert conversation.thread("") == "19:x"
    assert replace(conversation, targeted=True).private


@in_one_run
@pytest.mark.parametrize(
    ("place", "kind"),
    [
        (Place("19:x"), "groupChat"),
        (Place("a:1"), "personal"),
        (Place("a:1", is_group=True), "groupChat"),
        (Place("19:x", "channel"), "channel"),
    ],
)
def test_the_kind_of_a_place_is_told_or_guessed(place: Place, kind: str) -> None:
    class Said:
        conversation, targeted, channel_type = place, False, ""
        reference = Reference(place, "https://x")

    assert conversation_of(Said()).kind == kind  # type: ignore[arg-type]


def test_people_are_told_from_places() -> None:
    assert [is_person(x) for x in ("29:1x", "19:x", "a:29:1")] == [True, False, False]
