"""Whatever it is asked, and after whatever was written, a database answers as plain dicts do."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from adapters.store.memory import KEEP_CLOSED, KEEP_OVER, KEEP_SAID, KEEP_SLEPT, MemoryStore
from adapters.store.open import open_store
from bot.errors import WrongInput
from bot.model.alert import Decision, DecisionKind, Silence
from bot.model.labels import Labels
from bot.model.notification import Coverage, Known, Line, NotificationLogEntry, Reason, Receipt
from bot.model.policy import Attempt, Version, VersionKind
from bot.model.window import Window
from bot.ports import StateUpdate
from tests.builders import alert, anomaly

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)
SECOND = timedelta(seconds=1)
AGES = sorted(
    {timedelta(0), timedelta(hours=2), timedelta(days=40)}
    | {
        bound + beside
        for bound in (KEEP_CLOSED, KEEP_OVER, KEEP_SAID, KEEP_SLEPT)
        for beside in (-SECOND, timedelta(0), SECOND)
    }
)
"""Ages on, and a second beside, every bound of what is remembered."""
CHANNELS, SHELVES, KEYS = ("slack:C1", "teams:19:x"), ("messages", "seen"), "abcd"
SCOPES = [Labels(cluster="x", team="t"), Labels(cluster="x"), Labels(cluster="y", team="t")]
STEPS = 60


class Walk:
    """Write the same at random to every store."""

    def __init__(self, seed, stores):
        self.random, self.stores, self.count = random.Random(seed), stores, 0
        self.versions = 1

    def step(self):
        """Do one thing to every store, which all take or all refuse."""
        act = self.random.choice(
            [self.save] * 8 + [self.put, self.drop, self.first, self.add, self.note]
        )
        name, arguments = act()
        outcomes = []
        for store in self.stores:
            try:
                outcomes.append(getattr(store, name)(*arguments))
            except WrongInput as error:
                outcomes.append(str(error))
        assert outcomes.count(outcomes[0]) == len(outcomes), (name, arguments, outcomes)

    def save_each_age(self):
        """Save one of all that has an age, of every age."""
        nouns = [
            (
                replace(self.alert(), id=f"a{n}", opened=NOW - AGES[-1], closed=NOW - age),
                replace(self.entry(), id=f"n{n}", at=NOW - age, over=True, pending=False),
                replace(self.line(), id=f"l of {n}", at=NOW - age, sent=""),
                replace(self.silence(), id=f"s{n}", ends=NOW - age, ended_at=None),
            )
            for n, age in enumerate(AGES, 100)
        ]
        alerts, entries, lines, silences = map(list, zip(*nouns, strict=True))
        for store in self.stores:
            store.save(StateUpdate(alerts, entries, silences, lines=lines))

    def at(self):
        return NOW - self.random.choice(AGES)

    def flag(self):
        return self.random.random() < 0.5

    def save(self):
        kinds = {
            "alerts": self.alert,
            "notification_log": self.entry,
            "lines": self.line,
            "receipts": self.receipt,
            "silences": self.silence,
            "decisions": self.decision,
        }
        changes = {
            kind: [make() for _ in range(self.random.randint(1, 2))]
            for kind, make in kinds.items()
            if self.random.random() < 0.4
        }
        # What is written twice in one transaction has no order that anybody relies on.
        for kind, nouns in changes.items():
            of = {(x.id, getattr(x, "channel", "")): x for x in nouns}
            changes[kind] = list(of.values())
        seen = self.random.choice([None, Coverage(Known.PARTLY, "half of it is silent")])
        if self.flag():
            changes |= {"ticked_at": self.at(), "seen": seen}
        return "save", (StateUpdate(**changes),)

    def alert(self):
        opened, scope = self.at(), self.random.choice(SCOPES)
        return replace(
            alert(anomaly(scope=scope, labels=scope), opened=opened),
            id=f"a{self.random.randint(1, 6)}",
            closed=self.random.choice([None, opened, min(NOW, opened + timedelta(hours=30))]),
        )

    def entry(self):
        return NotificationLogEntry(
            f"n{self.random.randint(1, 3)}",
            self.random.choice(CHANNELS),
            Reason.FIRST,
            self.at(),
            ("a1",),
            1,
            Decimal("21.50"),
            "digest",
            self.random.choice(["", "m1", "m2"]),
            over=self.flag(),
            pending=self.flag(),
            version=self.random.randint(1, 3),
        )

    def line(self):
        number = self.random.randint(1, 8)
        return Line(
            f"l{number}",
            f"n{number % 3 + 1}",
            CHANNELS[number % 2],
            NOW - AGES[number],
            {"title": f"{number}"},
            sent=self.random.choice(["", "", "m9"]),
        )

    def receipt(self):
        channel, message = self.random.choice(CHANNELS), f"m{self.random.randint(3, 5)}"
        number, version = self.random.randint(1, 3), self.random.randint(1, 3)
        return Receipt(f"n{number}", channel, message, version)

    def silence(self):
        return Silence(
            f"s{self.random.randint(1, 6)}",
            self.random.choice(SCOPES),
            NOW - timedelta(days=50),
            self.random.choice([self.at(), NOW + timedelta(days=1)]),
            "slack:U1",
            ended_at=self.random.choice([None, None, self.at()]),
        )

    def decision(self):
        self.count += 1
        number = self.random.choice([self.count, 1])
        doing = self.random.choice(list(DecisionKind))
        about = f"a{self.random.randint(1, 6) if number > 1 else 1}"
        at = NOW - timedelta(days=1) + self.random.randint(0, 3) * SECOND
        return Decision(f"d{number}", about, doing, "slack:U1", "dana", at)

    def put(self):
        self.count += 1
        place = self.random.choice(SHELVES), self.random.choice(KEYS)
        return "put", (*place, {"count": self.count})

    def drop(self):
        return "drop", (self.random.choice(SHELVES), self.random.choice(KEYS))

    def first(self):
        return "first", (self.random.choice(SHELVES), self.random.choice(KEYS))

    def add(self):
        # The next number, or the one that somebody else took just now.
        self.versions += self.random.choice([0, 1])
        return "add", (version(self.versions),)

    def note(self):
        self.count += 1
        return "note", (Attempt(self.at(), "slack:U1", "dana", f"config undo {self.count}"),)


def version(number):
    return Version(number, NOW, "slack:U1", "dana", VersionKind.SET, (), ())


def answers(store, now):
    """Return all that a store tells at a time; what comes in no order of meaning by its id."""
    state = store.load(now)
    ids = [f"a{n}" for n in range(1, 7)]
    return {
        "state": replace(
            state,
            notification_log=sorted(state.notification_log, key=lambda x: (x.id, x.channel)),
            silences=sorted(state.silences, key=lambda x: x.id),
            slept=sorted(state.slept, key=lambda x: x.id),
        ),
        "owed": [
            (entry, list(lines))
            for n in range(1, 4)
            for channel in CHANNELS
            for entry, lines in [store.owed(f"n{n}", channel)]
        ],
        "history": [
            list(store.history(Window(now - start, now - end), selector))
            for start, end in ((AGES[-1], AGES[0]), (AGES[4], AGES[2]))
            for selector in (Labels(), *SCOPES)
        ],
        "decisions": [list(store.decisions(id_)) for id_ in ids],
        "versions": [list(store.versions(most)) for most in (1, 99)],
        "attempts": [list(store.attempts(most)) for most in (1, 99)],
        "newest": [list(store.newest(shelf, most)) for shelf in SHELVES for most in (1, 9)],
        "got": [store.get(shelf, key) for shelf in SHELVES for key in KEYS],
    }


def test_a_database_answers_as_plain_dicts_do(url):
    stores = [MemoryStore(), open_store(url)]
    walk = Walk(1, stores)
    walk.save_each_age()
    for number in range(1, STEPS + 1):
        walk.step()
        if number % 20 == 0:
            plain, stored = (answers(store, NOW) for store in stores)
            for question, answer in plain.items():
                assert stored[question] == answer, (number, question)

    # What goes by its age is nothing that the watch goes on by, however short the retention.
    stored = stores[1]
    last = stored.ticked_at()
    before = stored.load(last)
    tables = dict.fromkeys(("alerts", "silences", "attempts"), SECOND)
    stored.prune({}, SECOND, tables)
    assert stored.load(last) == before
    stored.close()
