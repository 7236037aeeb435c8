"""Ten minutes in which a platform fails in every way it can, and channels that are gone: nothing lost, nothing doubled."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from adapters.store.memory import MemoryStore
from bot.cards.card import Card, Tone
from bot.errors import Refused, Unanswered, Unavailable
from bot.model.alert import Alert
from bot.model.anomaly import Anomaly, Detection
from bot.model.causes import Cause, Severity
from bot.model.policy import Policy
from bot.model.reading import Reading
from bot.model.route import Routes
from bot.watch.deliver import Aside
from tests.builders import FIVE, NOON, anomaly, reading, with_parts
from tests.house.fakes import Chat, Fleet, Script, app, ask

MINUTE = timedelta(minutes=1)
COSTS = {"bert": 50, "gpt": 400, "llama": 450, "moe": 10, "tiny": 200}
CRITICAL = "moe"


class Incidents:
    """Detects one anomaly a cluster, from `start` to `end`."""

    def __init__(self, start: datetime, end: datetime) -> None:
        self.start, self.end = start, end

    def __call__(self, reading: Reading, policy: Policy, known: Sequence[Alert]) -> Detection:
        now = reading.now
        return Detection(
            tuple(self.one(name, now) for name in COSTS) if self.start <= now < self.end else ()
        )

    def one(self, cluster: str, now: datetime) -> Anomaly:
        severity = Severity.CRITICAL if cluster == CRITICAL else Severity.WARNING
        usd = Decimal(COSTS[cluster])
        return anomaly(
            Cause.HUNG,
            cluster=cluster,
            at=now,
            usd_per_hour=usd,
            wasted_shares=(),
            severity=severity,
        )


class Stormy(Chat):
    """Fails while it storms: refused, broken, cut off before the work was done, and cut off after it."""

    def __init__(self) -> None:
        super().__init__()
        self.storm = False
        self.ways = itertools.cycle(["429", "500", "timeout", "arrived", "reset"])
        self.heads: list[str] = []
        self.failures: Counter[str] = Counter()

    async def _through(self, doing: Any) -> Any:
        way = next(self.ways) if self.storm else "through"
        self.failures[way] += 1
        if way in {"429", "500"}:
            doing.close()
            raise Unavailable(f"the chat says {way}")
        if way in {"timeout", "reset"}:
            doing.close()
            raise TimeoutError if way == "timeout" else ConnectionResetError
        done = await doing
        if way == "arrived":
            raise TimeoutError
        return done

    async def post(self, channel: str, card: Card, key: str) -> str:
        return str(await self._through(self._post(channel, card, key)))

    async def _post(self, channel: str, card: Card, key: str) -> str:
        self.heads.append(card.title.rpartition(" · ")[2].partition(",")[0])
        return await super().post(channel, card, key)

    async def edit(self, channel: str, message: str, card: Card, key: str) -> str:
        return str(await self._through(super().edit(channel, message, card, key)))

    async def reply(self, channel: str, message: str, card: Card, key: str) -> str:
        return str(await self._through(super().reply(channel, message, card, key)))

    async def posted(self, channel: str, thread: str = "") -> dict[str, str]:
        return dict(await self._through(super().posted(channel, thread)))


async def minutes(bot: Any, first: int, last: int) -> None:
    for i in range(first, last):
        await bot.tick(NOON + i * MINUTE)


async def test_what_began_in_a_storm_is_told_after_it_worst_first_and_once() -> None:
    chat = Stormy()
    bot = app(Incidents(NOON, NOON + 20 * MINUTE), chat)  # type: ignore[arg-type]
    chat.storm = True
    await minutes(bot, 0, 10)
    before = len(chat.heads)
    assert bot.health.undelivered
    chat.storm = False
    await minutes(bot, 10, 12)
    late = [CRITICAL, *sorted((c for c in COSTS if c != CRITICAL), key=lambda c: -COSTS[c])]
    assert chat.heads[before:] == [name for name in late if name not in chat.heads[:before]]
    assert sorted(chat.heads) == sorted(COSTS)
    assert bot.health.undelivered == ()
    assert set(chat.failures) == {"429", "500", "timeout", "arrived", "reset", "through"}


async def test_what_ended_in_a_storm_is_told_after_it_and_no_thread_repeats() -> None:
    chat = Stormy()
    bot = app(Incidents(NOON, NOON + 5 * MINUTE), chat)  # type: ignore[arg-type]
    await minutes(bot, 0, 19)
    chat.storm = True
    await minutes(bot, 19, 29)
    chat.storm = False
    await minutes(bot, 29, 31)
    assert {card.tone for card in chat.messages.values()} == {Tone.OVER}
    assert len(chat.messages) == len(COSTS)
    assert max(Counter(chat.threads).values()) == 1
    assert not [
        s for s in bot.ports.stores.alerts.load(NOON + 31 * MINUTE).notification_log if not s.over
    ]


async def test_a_message_shows_the_newest_state_after_a_storm_and_its_thread_every_decision_in_order() -> (
    None
):
    chat = Stormy()
    bot = app(Incidents(NOON, NOON + 40 * MINUTE), chat)  # type: ignore[arg-type]
    await minutes(bot, 0, 2)
    chat.storm = True
    (first, *_) = bot.ports.stores.alerts.load(NOON).alerts
    for i, line in enumerate((f"ack {first.id}", f"unack {first.id}", f"ack {first.id}")):
        await bot.answer(ask(line, at=NOON + 2 * MINUTE + timedelta(seconds=i)))
    chat.storm = False
    await minutes(bot, 3, 5)
    assert chat.threads == ["Acknowledged by dana", "Open again", "Acknowledged by dana"]
    shown = "".join(repr(card.blocks) for card in chat.messages.values())
    assert shown.count("Acknowledged by ") == 1


class Closed(Chat):
    """Takes messages and edits, and refuses what is to stand in a thread."""

    closed = True

    async def reply(self, channel: str, message: str, card: Card, key: str) -> str:
        if self.closed:
            raise Refused("The thread is locked.")
        return await super().reply(channel, message, card, key)


async def test_what_arrives_while_a_tick_waits_counts_as_delivered() -> None:
    chat = Stormy()
    bot = app(Incidents(NOON, NOON + 20 * MINUTE), chat)  # type: ignore[arg-type]
    chat.storm = True

    class Arriving(Aside):
        async def run(self, name: str, work: Any) -> Any:
            if name == "periodicals":
                assert bot.health.undelivered
                for failure in bot.health.undelivered:
                    bot._arrived(failure.partition(": ")[0])
            return await super().run(name, work)

    bot._aside = Arriving()
    await minutes(bot, 0, 2)
    assert bot.health.undelivered == ()


async def test_a_line_that_a_thread_refused_is_said_by_a_later_tick_and_once() -> None:
    chat = Closed()
    bot = app(Incidents(NOON, NOON + 40 * MINUTE), chat)  # type: ignore[arg-type]
    await minutes(bot, 0, 2)
    (first, *_) = bot.ports.stores.alerts.load(NOON).alerts
    await bot.answer(ask(f"ack {first.id}", at=NOON + 2 * MINUTE))
    await minutes(bot, 3, 5)
    assert chat.threads == []
    assert [line.sent for line in bot.ports.stores.alerts.load(NOON).lines] == [""], (
        "what was refused counts as never said"
    )
    assert [words for words in bot.health.undelivered if "The thread is locked." in words]
    chat.closed = False
    await minutes(bot, 5, 8)
    assert len(chat.threads) == 1
    assert "Acknowledged by " in repr([card.blocks for card in chat.messages.values()])
    assert bot.health.undelivered == ()


async def test_unsaid_notices_survive_a_restart() -> None:
    chat, store = Stormy(), MemoryStore()
    chat.storm = True
    await minutes(app(Incidents(NOON, NOON + 20 * MINUTE), chat, store), 0, 3)  # type: ignore[arg-type]
    chat.storm = False
    await minutes(app(Incidents(NOON, NOON + 20 * MINUTE), chat, store), 3, 5)  # type: ignore[arg-type]
    assert sorted(chat.heads) == sorted(COSTS)


def alerts(chat: Chat) -> list[Tone]:
    """Return how the messages about alerts look, what is said about the bot itself aside."""
    return [card.tone for card in chat.messages.values() if card.tone is not Tone.ERROR]


async def test_what_came_and_went_in_a_storm_is_told_as_over_within_a_day() -> None:
    for away, told in ((timedelta(minutes=40), len(COSTS)), (timedelta(hours=26), 0)):
        chat = Stormy()
        bot = app(Incidents(NOON, NOON + 5 * MINUTE), chat)  # type: ignore[arg-type]
        chat.ways, chat.storm = itertools.cycle(["429", "500", "timeout"]), True
        await minutes(bot, 0, 30)
        chat.storm = False
        await bot.tick(NOON + away)
        await bot.tick(NOON + away + MINUTE)
        assert alerts(chat) == [Tone.OVER] * told
        assert chat.threads == []
        assert not [
            s for s in bot.ports.stores.alerts.load(NOON + away).notification_log if not s.over
        ]


async def test_a_message_whose_answer_was_lost_does_not_stay_firing() -> None:
    chat = Stormy()
    bot = app(Incidents(NOON, NOON + 5 * MINUTE), chat)  # type: ignore[arg-type]
    chat.ways, chat.storm = itertools.cycle(["arrived"]), True
    await minutes(bot, 0, 30)
    chat.storm = False
    await minutes(bot, 30, 32)
    assert alerts(chat) == [Tone.OVER] * len(COSTS)


class Gone(Chat):
    """Has lost one channel."""

    error: Exception | None = Refused("The channel is archived; unarchive it or route to another.")

    async def post(self, channel: str, card: Card, key: str) -> str:
        if channel == "ops" and self.error:
            raise self.error
        return await super().post(channel, card, key)


@pytest.mark.parametrize(
    ("error", "told_at"),
    [(Refused("The channel is archived."), 0), (Unavailable("The chat is away."), 15)],
)
async def test_a_channel_that_is_gone_is_told_to_an_admin_once_and_so_is_its_return(
    error: Exception, told_at: int
) -> None:
    chat = Gone()
    chat.error = error
    bot = app(Incidents(NOON, NOON + 60 * MINUTE), chat, admins=("chat:U1",))  # type: ignore[arg-type]
    told = []
    for i in range(20):
        await bot.tick(NOON + i * MINUTE)
        told += [i] if len(chat.messages) > len(told) else []
    assert told == [told_at]
    assert [card.title for card in chat.messages.values()] == [f"Nothing reaches chat:ops: {error}"]
    assert bot.health.facts()["problem"] == f"chat:ops: {error}"
    chat.error = None
    await minutes(bot, 20, 22)
    assert [card.title for card in chat.messages.values()].count(
        "Messages reach chat:ops again."
    ) == 2, "there and to the admin"
    assert len(chat.messages) == len(COSTS) + 3


class Places(Gone):
    """Notes where each message went; one admin cannot be reached either."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[str] = []

    async def post(self, channel: str, card: Card, key: str) -> str:
        if channel == "U0":
            raise Refused("The person left.")
        message = await super().post(channel, card, key)
        self.places.append(channel)
        return message


async def test_the_first_admin_whom_a_message_reaches_is_told_and_no_other() -> None:
    chat = Places()
    bot = app(Script(anomaly()), chat, admins=("chat:U0", "chat:U1", "chat:U2"))
    await bot.tick(NOON)
    assert chat.places == ["U1"]


async def test_a_dead_channel_does_not_hold_up_a_living_one() -> None:
    chat = Gone()
    bot = app(Script(anomaly()), chat, admins=())
    bot._channels = bot._watch._channels = ("chat:ops", "chat:team")
    await bot.tick(NOON)
    assert len(chat.messages) == 1


class Waiting(Chat):
    """Holds one channel's message back until the other channel has its own."""

    def __init__(self) -> None:
        super().__init__()
        self.others = asyncio.Event()

    async def post(self, channel: str, card: Card, key: str) -> str:
        if channel == "ops":
            await self.others.wait()
        self.others.set()
        return await super().post(channel, card, key)


async def test_a_slow_channel_does_not_hold_up_a_quick_one() -> None:
    chat = Waiting()
    bot = app(Script(anomaly()), chat, admins=())
    bot._channels = bot._watch._channels = ("chat:ops", "chat:team")
    await bot.tick(NOON)
    assert len(chat.messages) == 2


class Counting(Gone):
    """Counts how often its lost channel was tried."""

    error = Unavailable("The chat is away.")
    tries = 0

    async def post(self, channel: str, card: Card, key: str) -> str:
        self.tries += channel == "ops"
        return await super().post(channel, card, key)


async def test_a_dead_channel_is_tried_three_times_a_tick() -> None:
    chat = Counting()
    bot = app(Incidents(NOON, NOON + 60 * MINUTE), chat)  # type: ignore[arg-type]
    await minutes(bot, 0, 2)
    assert (len(COSTS), chat.tries) == (5, 2 * 3)


class Full(Chat):
    """Takes no message about the dearest cluster, and any other."""

    async def post(self, channel: str, card: Card, key: str) -> str:
        if "llama" in card.title:
            raise Refused("The message is too long.")
        return await super().post(channel, card, key)


async def test_a_channel_that_took_a_message_is_not_told_to_be_gone() -> None:
    chat = Full()
    bot = app(Incidents(NOON, NOON + 60 * MINUTE), chat, admins=("chat:U1",))  # type: ignore[arg-type]
    await bot.tick(NOON)
    assert len(chat.messages) == len(COSTS) - 1
    assert Tone.ERROR not in {card.tone for card in chat.messages.values()}
    assert bot.health.undelivered == ("chat:ops: The message is too long.",)


class Mute(Chat):
    """Takes what is to stand in a thread, and never answers that it did."""

    async def reply(self, channel: str, message: str, card: Card, key: str) -> str:
        await super().reply(channel, message, card, key)
        raise Unanswered("The chat did not answer.")


async def test_a_line_of_a_thread_that_nobody_confirmed_is_not_said_again() -> None:
    chat = Mute()
    bot = app(Incidents(NOON, NOON + 40 * MINUTE), chat)  # type: ignore[arg-type]
    await minutes(bot, 0, 2)
    (first, *_) = bot.ports.stores.alerts.load(NOON).alerts
    await bot.answer(ask(f"ack {first.id}", at=NOON + 2 * MINUTE))
    await minutes(bot, 3, 6)
    assert len(chat.threads) == 1
    assert bot.health.undelivered == ()


class Pinged(Chat):
    """Notes who is pinged by which call."""

    def __init__(self) -> None:
        super().__init__()
        self.pings: list[tuple[str, tuple[str, ...]]] = []

    async def post(self, channel: str, card: Card, key: str) -> str:
        self.pings.append(("post", tuple(one.user for one in card.mentions)))
        return await super().post(channel, card, key)

    async def edit(self, channel: str, message: str, card: Card, key: str) -> str:
        self.pings.append(("edit", tuple(one.user for one in card.mentions)))
        return await super().edit(channel, message, card, key)


class Owned(Fleet):
    """A fleet whose nodes name their owner."""

    def read(self, now: datetime) -> Reading:
        return reading(now, owner="dana")


async def test_an_owner_is_pinged_by_the_first_message_and_by_no_edit() -> None:
    chat = Pinged()
    bot = app(Script(anomaly(), anomaly(at=NOON + FIVE, n=8)), chat, fleet=Owned())
    bot.ports = with_parts(bot.ports, routes=Routes(owners={"dana": ("chat:U7",)}))
    for i in range(2):
        await bot.tick(NOON + i * FIVE)
    assert chat.pings == [("post", ("chat:U7",)), ("edit", ())]
