"""References that any version stored since 0.1.0 are read, by either SDK, and are stored as they were."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from botbuilder.schema import ChannelAccount, ConversationAccount, ConversationReference
from hypothesis import given
from hypothesis import strategies as st

from adapters.chat.config import TeamsSdk
from adapters.chat.teams.activity import Reference
from adapters.store.open import open_store
from bot.cards.card import Card, Tone, text

V0_1_0 = Path(__file__).parents[1] / "store" / "v0_1_0.sql"
ALERT = Card("FIRING 25 min", Tone.CRITICAL, (text("wasting $1,083 an hour"),))
ID = "19:ops@thread.tacv2"
DANA = {"id": "29:1dana", "name": "Dana", "aadObjectId": "00000000-0000-0000-0000-0000000000d1"}
BOT = {"id": "28:bot", "name": "trnbot"}


@pytest.fixture
def shelf(tmp_path: Path, connector: Any) -> Any:
    """Open the database that 0.1.0 wrote, its conversations led to the connector here."""
    path = tmp_path / "trnbot.db"
    with sqlite3.connect(path) as database:
        database.executescript(V0_1_0.read_text(encoding="utf-8"))
        database.execute(
            "UPDATE shelf SET body = replace(body, ?, ?) WHERE shelf = 'teams.conversations'",
            ("https://smba.trafficmanager.net/emea/", connector.url),
        )
    database.close()
    opened = open_store(f"sqlite:///{path}")
    yield opened
    opened.close()


async def test_a_channel_that_0_1_0_was_in_is_posted_to_edited_and_replied_in(
    new_bot: Any, connector: Any, shelf: Any
) -> None:
    surface = (await new_bot(shelf=shelf)).surface
    assert (await surface.posted(ID)).get("n1", "") == "1700000000042"
    await surface.edit(ID, "1700000000042", ALERT, "n1")
    await surface.reply(ID, "1700000000042", ALERT, "n1 line")
    await surface.post(ID, ALERT, "n2")
    assert [(method, path) for method, path, _ in connector.calls] == [
        ("PUT", f"/v3/conversations/{ID}/activities/1700000000042"),
        ("POST", f"/v3/conversations/{ID};messageid=1700000000042/activities/1700000000042"),
        ("POST", f"/v3/conversations/{ID}/activities"),
    ]
    for _, _, body in connector.calls:
        assert (body["from"], body["recipient"], body["channelId"]) == (BOT, DANA, "msteams")
        assert body["conversation"]["conversationType"] == "channel"


async def test_a_person_whom_0_1_0_knew_is_reached_in_their_chat(
    new_bot: Any, connector: Any, shelf: Any
) -> None:
    await (await new_bot(shelf=shelf)).surface.post("29:1dana", ALERT, "k")
    assert [path for _, path, _ in connector.calls] == ["/v3/conversations/a:dana/activities"]
    assert connector.opened == []


async def test_a_stored_tenant_leads_to_a_new_chat_under_either_spelling(
    new_bot: Any, connector: Any
) -> None:
    for spelling in ("tenantID", "tenantId"):
        bot = await new_bot()
        place = {"id": ID, "conversationType": "channel", spelling: "T1"}
        document = {
            "bot": BOT,
            "conversation": place,
            "channelId": "msteams",
            "serviceUrl": connector.url,
        }
        bot.shelf.put(
            "teams.conversations", ID, {"reference": document, "kind": "channel", "greeted": True}
        )
        await bot.surface.post("29:kim", ALERT, "k")
    assert [opened["tenantId"] for opened in connector.opened] == ["T1", "T1"]


async def test_what_one_sdk_stored_the_other_reads(new_bot: Any, connector: Any) -> None:
    """Whoever changes the setting keeps the conversations, back and forth."""
    first = await new_bot(sdk=TeamsSdk.BOTBUILDER)
    await first.hear(
        "hello", conversation={"id": ID, "conversationType": "channel", "tenantId": "T1"}
    )
    stored = first.shelf.get("teams.conversations", ID)
    second = await new_bot(sdk=TeamsSdk.AGENTS, shelf=first.shelf)
    await second.hear(
        "hello",
        conversation={"id": ID, "conversationType": "channel", "tenantId": "T1"},
        id="another",
    )
    assert second.shelf.get("teams.conversations", ID) == stored
    await second.surface.post(ID, ALERT, "k")
    await (await new_bot(sdk=TeamsSdk.BOTBUILDER, shelf=first.shelf)).surface.edit(
        ID, "m1", ALERT, "k"
    )


words = st.one_of(st.none(), st.text(min_size=1, max_size=8))
accounts = st.builds(
    lambda *a: ChannelAccount(id=a[0], name=a[1], aad_object_id=a[2], role=a[3]),
    words,
    words,
    words,
    words,
)
places = st.builds(
    lambda *a: ConversationAccount(id=a[0], name=a[1], conversation_type=a[2], tenant_id=a[3], is_group=a[4]),
    st.text(min_size=1, max_size=8), words, words, words, st.one_of(st.none(), st.booleans()),
)  # fmt: skip


@given(st.builds(lambda *a: ConversationReference(user=a[0], bot=a[1], conversation=a[2], channel_id=a[3], locale=a[4], service_url=a[5]),
                 accounts, accounts, places, words, words, words))  # fmt: skip
def test_botbuilder_s_own_documents_are_read_and_written_back_unchanged(
    reference: ConversationReference,
) -> None:
    document = json.loads(json.dumps(reference.serialize()))
    known = {name: part for name, part in document.items() if part != {}}
    assert Reference.of(document).document() == known
    assert (
        ConversationReference().deserialize(Reference.of(document).document()).serialize() == known
    )
