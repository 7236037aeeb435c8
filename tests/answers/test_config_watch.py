"""The preview is the watch itself: what is applied gives what was shown, and no line breaks it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.store.memory import MemoryStore
from bot.app import App
from bot.model.alert import Alert
from bot.model.anomaly import Detection
from bot.model.notification import ReplayResult
from bot.model.policy import Policy
from bot.model.reading import Reading
from bot.model.window import Window
from bot.ports import Ports
from bot.watch.preview import digest, ticking
from bot.watch.tick import grid
from bot.wiring.source import OpenedSource
from tests.answers.configuring import SET, TINY, app, ask, changed, end, refused


class Spy:
    """Remembers the policy of each tick."""

    def __init__(self) -> None:
        self.below: list[float] = []

    def __call__(self, reading: Reading, policy: Policy, known: Sequence[Alert]) -> Detection:
        self.below.append(policy.at(TINY).number("idle.below"))
        return Detection(())


async def test_the_running_watch_takes_the_newest_policy_at_its_next_tick(
    opened: OpenedSource,
) -> None:
    spy = Spy()
    bot = app(opened, MemoryStore(), detect=spy)
    await bot.tick(end(bot) - timedelta(minutes=10))
    await changed(bot)
    await bot.tick(end(bot))
    assert spy.below == [0.05, 0.15]


async def test_a_preview_sees_nothing_past_the_time_it_was_asked_at(bot: App) -> None:
    at = end(bot) - timedelta(hours=3)
    card = await ask(bot, SET, at=at)
    assert (card.data["alerts"], card.data["end"]) == ([0, 0], at.isoformat())
    early = await ask(bot, SET, at=at - timedelta(days=1))
    assert "Nothing is recorded in the 14 days before" in refused(early)


def rerun(ports: Ports, window: Window) -> Iterator[ReplayResult]:
    """Replay the policy in force anew, as the running watch would have run it."""
    (fresh,) = ports.world.replays.again([ports.policy])
    seen = ReplayResult(window)
    times = [
        now for now in grid(window.start, window.end, ports.site.interval) if now <= window.end
    ]
    for _ in ticking(fresh, ports.site.channels, times, seen):
        pass
    yield seen


SHARES, TIMES = st.integers(0, 50).map(lambda n: f"{n}%"), st.integers(2, 90).map(lambda n: f"{n}m")
PAIRS = st.fixed_dictionaries(
    {},
    optional={
        "idle.below": SHARES,
        "idle.for": TIMES,
        "idle.on": st.sampled_from(["on", "off"]),
        "allocated_unused.for": TIMES,
        "hung.for": TIMES,
        "compiling.grace": TIMES,
        "alert.least_usd_per_hour": st.integers(0, 60).map(str),
    },
).filter(bool)


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(pairs=PAIRS, scope=st.sampled_from(["", " cluster=tiny", " cluster=other", " team=search"]))
async def test_applying_gives_exactly_what_was_previewed(
    opened: OpenedSource, pairs: dict[str, str], scope: str
) -> None:
    bot = app(opened, MemoryStore())
    seen = await ask(bot, "config set " + " ".join(f"{k}={v}" for k, v in pairs.items()) + scope)
    if "Nothing would change" in str(seen.data.get("error")):
        return
    await ask(bot, f"config apply {seen.data['preview']}")
    extent = bot.ports.world.source.extent()
    assert extent
    (again,) = rerun(bot.ports, extent)
    assert digest(again) == seen.data["digest"]
    assert len({a.id for n in again.notifications for a in n.alerts}) == seen.data["alerts"][1]


VOCABULARY = """set apply IMPORT undo change cancel history show export for 30m idle idle.below 15% idle.below=15% cluster=
cluster=tiny = to=-1 to=0 default [idle] p1 999999999999 != ``` \u201c \u202e"""
WORDS = st.sampled_from(VOCABULARY.split())


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(words=st.lists(WORDS | st.text(max_size=6), max_size=6))
async def test_no_line_breaks_it_or_changes_the_policy(
    opened: OpenedSource, words: list[str]
) -> None:
    bot = app(opened, MemoryStore())
    card = await ask(bot, " ".join(["config", *words]), at=end(bot) - timedelta(days=2))
    assert "Something went wrong" not in str(card.data.get("error"))
    assert (bot.ports.policy, bot.ports.stores.versions.versions(1)) == (bot.ports.site.base, [])
