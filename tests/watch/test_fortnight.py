"""What the watch makes of scripted anomalies, look by look, as it was last read: alerts with what mutes them, and all that is sent.

Each story is a list of looks: how many minutes after noon, what is seen, and a line that somebody types before. `make goldens`
writes them anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

from adapters.store.memory import MemoryStore
from bot.answers.all import ANSWERS
from bot.app import App
from bot.cards.card import Card
from bot.errors import Limited, Refused, Unavailable
from bot.grammar.access import Access
from bot.knowledge import load_knowledge
from bot.model.anomaly import Anomaly, Detection
from bot.model.causes import Cause, Severity
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.model.reading import Gap, Reading
from bot.model.request import Request, User
from bot.model.route import Route, Routes
from bot.model.window import Window
from bot.policy.file import applied, read_changes
from bot.policy.schema import default_policy
from tests.belonging import MEMBER
from tests.builders import NOON, anomaly, nodes, ports_over, reading, with_parts
from tests.cards.test_goldens import compare
from tests.house.fakes import Fleet

assert ANSWERS
GOLDEN = Path(__file__).with_name("goldens") / "stories.txt"


@dataclass(frozen=True)
class Look:
    """Hold one look at the fleet: what is seen, what somebody typed before, and what fails."""

    minutes: int
    seen: Sequence[Anomaly] = ()
    line: str = ""
    gap: bool = False
    fails: str = ""


class Seen(Fleet):
    """See what a story says."""

    def __init__(self) -> None:
        self.look = Look(0)

    def read(self, now: datetime) -> Reading:
        gaps = (Gap("us-west-2 did not answer", region="us-west-2"),) if self.look.gap else ()
        return reading(now, 8, gaps)

    def detect(self, _: Reading, __: Policy, ___: object) -> Detection:
        return Detection(tuple(self.look.seen))


class Noting:
    """Note what is sent, and fail as the story says."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.fails = ""
        self.keys: dict[str, str] = {}

    def _note(self, words: str, card: Card) -> None:
        self.sent.append(f"{words}: {card.title}")
        error = {"away": Unavailable("it is away"), "refused": Refused("it refuses"), "limit": Limited("it limits", 60.0)}.get(self.fails)  # fmt: skip
        if error:
            self.sent[-1] += f" ({error})"
            raise error

    async def post(self, channel: str, card: Card, key: str) -> str:
        self._note(f"post to {channel}", card)
        self.keys[key] = f"m{len(self.keys) + 1}"
        return self.keys[key]

    async def edit(self, channel: str, message: str, card: Card, key: str) -> str:
        self._note(f"edit {message} in {channel}", card)
        return message

    async def reply(self, channel: str, message: str, card: Card, key: str) -> str:
        self._note(f"say under {message} in {channel}", card)
        if self.fails == "a line":
            self.sent[-1] += " (it is not taken)"
            raise Unavailable("it is not taken")
        self.keys[key] = f"{message}.{len(self.keys)}"
        return self.keys[key]

    async def posted(self, channel: str, thread: str = "") -> dict[str, str]:
        return dict(self.keys)


def at(minutes: int, cause: Cause = Cause.STARVED, n: int = 4, *, since: int = -10, cluster: str = "llama", **more: object) -> Anomaly:  # fmt: skip
    window = Window(NOON + timedelta(minutes=since), NOON + timedelta(minutes=minutes))
    return anomaly(cause, n=n, cluster=cluster, window=window, **more)


def money(minutes: int, usd: str = "40") -> Anomaly:
    """Return a bill that has jumped."""
    return at(
        minutes,
        Cause.SPEND_JUMP,
        scope=Labels(account="1"),
        labels=Labels(account="1", service="ec2"),
        things=(),
        wasted_shares=(),
        kind="spend",
        usd_per_hour=Decimal(usd),
    )


CRITICAL = {"severity": Severity.CRITICAL}
PART = {"things": nodes(1), "wasted_shares": (1.0,)}
STORIES: Mapping[str, Sequence[Look]] = {
    "it begins, grows, shrinks and ends": (
        *(Look(m, [at(m)]) for m in (0, 5)),
        Look(10, [at(10, n=8)]),
        Look(15, [at(15, n=8, wasted_shares=(1.0,) * 8)]),
        Look(20, [at(20, n=2)]),
        *(Look(m) for m in (25, 30, 35, 40)),
    ),
    "it comes again soon, and later": (
        Look(0, [at(0)]),
        *(Look(m) for m in (10, 20, 25)),
        Look(40, [at(40, since=35)]),
        *(Look(m) for m in (50, 60)),
        Look(200, [at(200, since=190)]),
    ),
    "what is not seen is not over": (
        Look(0, [at(0)]),
        *(Look(m, gap=True) for m in (10, 20, 40)),
        Look(45, [at(45)]),
        *(Look(m) for m in (50, 70)),
    ),
    "it goes on for hours": tuple(Look(m, [at(m)]) for m in (0, 30, 61, 120, 181, 300, 600, 1300, 2900)),
    "it is critical, and nobody answers": tuple(
        Look(m, [at(m, **CRITICAL)]) for m in (0, 25, 35, 200, 245, 485)
    ),
    "it is critical, and somebody answers": (
        Look(0, [at(0, **CRITICAL)]),
        Look(10, [at(10, **CRITICAL)], line="ack llama"),
        *(Look(m, [at(m, **CRITICAL)]) for m in (35, 245)),
        Look(250, [at(250, **CRITICAL)], line="unack llama"),
        Look(490, [at(490, **CRITICAL)]),
    ),
    "it is snoozed": (
        Look(0, [at(0)]),
        Look(5, [at(5)], line="snooze llama 1h reason=known"),
        *(Look(m, [at(m)]) for m in (30, 64, 66)),
        Look(70, line="snooze llama 1h ceiling=1"),
        *(Look(m) for m in (80, 90)),
    ),
    "it is snoozed until it costs": (
        Look(0, [at(0)]),
        Look(5, [at(5)], line="snooze llama 1d ceiling=60"),
        *(Look(m, [at(m)]) for m in (20, 40, 80)),
    ),
    "it is no anomaly": (
        Look(0, [at(0)]),
        Look(5, [at(5)], line="not-an-anomaly llama 30d"),
        *(Look(m) for m in (20, 30)),
        Look(100, [at(100, since=90)]),
        Look(105, [at(105, since=90, value=0.9)]),
    ),
    "it is assigned": (
        Look(0, [at(0)]),
        Look(5, [at(5)], line="assign llama me"),
        Look(10, [at(10)], line="unassign llama"),
    ),
    "one explains another": (
        Look(0, [at(0, Cause.EXECUTION_ERRORS, n=1)]),
        Look(5, [at(5, Cause.EXECUTION_ERRORS, n=1), at(5, Cause.HARDWARE_FAULT, n=1)]),
        Look(10, [at(10, Cause.EXECUTION_ERRORS, n=1)]),
        *(Look(m, [at(m, Cause.EXECUTION_ERRORS, n=1)]) for m in (30, 60, 90)),
    ),
    "a wide one explains its parts": (
        Look(0, [at(0, n=8, wide=True)]),
        Look(5, [at(5, n=8, wide=True), at(5, Cause.HUNG, **PART), at(5, Cause.NO_DATA, **PART)]),
        Look(10, [at(10, Cause.HUNG, **PART)]),
        Look(25, [at(25, Cause.HUNG, **PART)]),
        Look(60, [at(60, Cause.HUNG, **PART)]),
    ),
    "two clusters, two causes": (
        Look(0, [at(0), at(0, Cause.IDLE, cluster="vision"), at(0, Cause.IDLE)]),
        Look(5, [at(5), at(5, Cause.IDLE, cluster="vision")]),
        *(Look(m, [at(m)]) for m in (20, 25)),
    ),
    "the bill jumps": (
        Look(0, [money(0)]),
        Look(60, [money(60), at(60, Cause.UNUSED_CAPACITY, cluster="")]),
        Look(120, [money(120, "400")]),
        *(Look(m) for m in (140, 160)),
    ),
    "a channel is away": (
        Look(0, [at(0)], fails="away"),
        Look(5, [at(5)], fails="away"),
        Look(10, [at(10)]),
        Look(15, [at(15, n=8)], fails="refused"),
        Look(20, [at(20, n=8)]),
        Look(25, [at(25, n=2)], fails="limit"),
    ),
    "a line is not taken": (
        Look(0, [at(0, **CRITICAL)]),
        Look(1, [at(1, **CRITICAL)], line="ack llama", fails="a line"),
        Look(2, [at(2, **CRITICAL)], fails="a line"),
        *(Look(m, [at(m, **CRITICAL)]) for m in (3, 4)),
    ),
    "it ends before it could be said": (
        Look(0, [at(0)], fails="away"),
        *(Look(m, fails="away") for m in (10, 20)),
        Look(1500),
        Look(1600),
    ),
}  # fmt: skip
SETTINGS: Mapping[str, Sequence[tuple[str, str]]] = {
    "quiet hours": [("alert.quiet_hours", "11:00-12:30 UTC")],
    "a high floor": [("alert.least_usd_per_hour", "$70")],
    "one message a week": [("alert.most_per_week", "1")],
    "soon critical": [("alert.critical_usd_per_hour", "$50")],
    "worse at little": [("alert.worse_factor", "1.1"), ("alert.resolve_after", "0m")],
}
UNDER = (
    "it begins, grows, shrinks and ends",
    "two clusters, two causes",
    "it is critical, and nobody answers",
)
ROUTES = Routes(
    (Route(("chat:vision",), Labels(cluster="vision")), Route(("chat:money",), cause="spend_jump")),
    default=("chat:rest",),
    finops=("chat:finops",),
    escalate=("chat:leads",),
)  # fmt: skip


def told(bot: App, store: MemoryStore, now: datetime) -> str:
    """Return the alerts that the store knows, in words."""
    words = []
    for alert in store.load(now).alerts:
        name = f"{alert.cause}@{alert.anomaly.scope.cluster or alert.anomaly.scope.account}"
        state = "over" if alert.closed else "acknowledged" if alert.acknowledged else "firing"
        waste = alert.waste
        usd = f"${waste.per_hour:.2f}/h ${waste.so_far:.2f} so far ${waste.month_end_low:.2f}-{waste.month_end_high:.2f}" if waste else "no dollars"  # fmt: skip
        marks = [
            f"muted by {alert.muted_by.replace(alert.id, 'ID')[:46]}" if alert.muted_by else ""
        ]
        marks += [f"assigned to {alert.assignment.assignee_name}" if alert.assignment else ""]
        marks += [f"peak {alert.things_at_peak}", "costly" if alert.costly else ""]
        marks += [f"notified {alert.notified:%H:%M}" if alert.notified else "", alert.severity]
        words.append(
            f"{name} x{len(alert.anomaly.things)} {state}, {usd}, {', '.join(filter(None, marks))}"
        )
    return " | ".join(words)


async def lived(
    looks: Sequence[Look], pairs: Sequence[tuple[str, str]], routes: Routes
) -> list[str]:
    fleet, chat, store = Seen(), Noting(), MemoryStore()
    policy = applied(default_policy(), read_changes(pairs, Labels()))
    ports = ports_over(fleet, store, detect=fleet.detect, surfaces={"chat": chat}, base=policy)
    ports = with_parts(ports, knowledge=load_knowledge(), routes=routes)
    channels = () if routes.routes else ("chat:ops",)
    bot = App(ports, channels, Access(("chat:U1",)), stopwatch=lambda: 0.0)
    lines = []
    for look in looks:
        now = NOON + timedelta(minutes=look.minutes)
        fleet.look, chat.fails = look, look.fails
        if look.line:
            request = Request(look.line, User("chat:U1", "dana"), now, "chat", MEMBER, "chat:ops")
            answer = await bot.answer(request)
            lines.append(f"  > {look.line}: {answer.title}")
        await bot.tick(now)
        await bot.settle()
        lines.append(f"{look.minutes:4} min {told(bot, store, now)}")
        lines += [f"    {words}" for words in chat.sent]
        chat.sent.clear()
    health = bot.health.facts()
    kept = ("ok", "problem", "ticks", "failures", "undelivered", "open_alerts", "usd_per_hour")
    lines.append("  " + " ".join(f"{name}={health[name]}" for name in kept))
    return lines


async def test_each_story_goes_as_it_was_last_read() -> None:
    written = []
    for name, looks in STORIES.items():
        written += [f"## {name}", *await lived(looks, (), Routes())]
    for name in UNDER:
        for setting, pairs in SETTINGS.items():
            written += [f"## {name}, {setting}", *await lived(STORIES[name], pairs, Routes())]
    for name in (*UNDER, "the bill jumps"):
        written += [f"## {name}, with routes", *await lived(STORIES[name], (), ROUTES)]
    compare("\n".join(written) + "\n", GOLDEN)
