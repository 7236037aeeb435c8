"""The story of the demonstration: its recording holds it, and no chapter says what the watch did not see."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pytest

from adapters.simulator.scenario import SCENARIOS
from adapters.store.memory import MemoryStore
from bot.answers.all import ANSWERS
from bot.grammar.line import read_line
from bot.model.alert import Decision, DecisionKind
from bot.model.anomaly import Detection
from bot.model.causes import Cause
from bot.model.notification import StateUpdate
from bot.model.reading import Reading
from bot.ports import Stores
from bot.settings.settings import read_settings
from bot.watch.story import DANA, MEI, NOTHING_SEEN, PATIENCE, TRIED, Compiling, Line, Seen
from bot.watch.tick import Watch, grid
from bot.wiring.serve import DEMO_SPEED
from bot.wiring.source import CONSOLE, OpenedSource
from bot.wiring.surfaces import SOURCE, STORY_SHOWN, tells
from tests.e2e.product import recording

assert ANSWERS
BEFORE = timedelta(hours=1)
TOUR = Path(__file__).parents[2] / "docs" / "tour.md"


@pytest.fixture(scope="module")
def seen() -> list[Seen]:
    """Return what is seen tick by tick; Dana acknowledges as she would, and the preview answers at once."""
    settings = read_settings({"TRNBOT_SOURCE": f"recording:{recording('story')}"})
    store = MemoryStore()
    ports = OpenedSource(settings.source, settings).ports(
        Stores(store, store, store, store), settings.policy
    )
    extent, watch, found = ports.world.source.extent(), Watch(ports, CONSOLE), list[Seen]()
    assert extent
    # What opened before the story began, and is over by then, is none of it.
    for now in grid(extent.end - STORY_SHOWN - BEFORE, extent.end, ports.site.interval):
        result = watch.tick(now)
        store.save(replace(result.changes(), ticked_at=now))
        if now < extent.end - STORY_SHOWN:
            continue
        before = found[-1] if found else Seen(now, now, timedelta(hours=1))
        after = before.after(result)
        line = after.next_line()
        if line and line.by is DANA:
            assert after.starved
            decision = Decision(
                "d1", after.starved.id, DecisionKind.ACKNOWLEDGE, line.by.id, line.by.name, now
            )
            store.save(StateUpdate(decisions=[decision]))
        found.append(replace(after, preview="Preview") if line and line.by is MEI else after)
    return found


def when(seen: list[Seen], chapter: int) -> float:
    """Return the real seconds, at the speed of a demonstration, until a chapter is seen."""
    begun = seen[0].now
    at = next(one.now for one in seen if one.chapters()[chapter].words)
    return (at - begun).total_seconds() / DEMO_SPEED


def test_the_starvation_of_64_nodes_is_told_within_a_few_seconds_of_playing(seen):
    assert when(seen, 0) <= 15
    assert seen[-1].starved.things_at_peak == 64
    assert seen[-1].starved.cause is Cause.STARVED


def test_every_chapter_is_seen_in_its_order_within_80_seconds(seen):
    times = [when(seen, n) for n in range(6)]
    assert times == sorted(times)
    assert times[-1] <= 80
    assert all(one.words for one in seen[-1].chapters())


def test_nothing_is_said_before_it_is_seen(seen):
    assert not any(chapter.words for chapter in NOTHING_SEEN.chapters())
    assert not any(chapter.words for chapter in seen[0].chapters())


def test_who_acts_is_called_simulated(seen):
    taken = seen[-1].chapters()[1].words
    assert taken.startswith("Dana (simulated) acknowledged it")
    assert all(person.name.endswith("(simulated)") for person in (DANA, MEI))


def test_dollars_are_saved_only_where_somebody_acted(seen):
    last = seen[-1]
    assert "an hour stopped" in last.chapters()[2].words
    unasked = replace(last, starved=replace(last.starved, acknowledged=None))
    assert "stopped" not in unasked.chapters()[2].words
    assert last.starved.waste.per_hour > Decimal(100)


def test_the_compile_is_not_told_and_the_page_says_so(seen):
    last = seen[-1]
    assert "no alert was sent" in last.chapters()[3].words
    assert last.compiling.cluster == "frontier"
    assert not last.compiling.raised


def test_a_compile_that_was_told_is_not_called_untold(seen):
    told = replace(seen[-1], compiling=Compiling("frontier", 8, seen[0].now, raised=True))
    assert "no alert" not in told.chapters()[3].words
    assert "an alert was raised" in told.chapters()[3].words


def test_simulated_people_type_lines_that_a_person_could_type(seen):
    lines = [line.text for one in seen if (line := replace(one, preview="").next_line())]
    assert lines
    assert {read_line(line).command.name for line in lines} == {"ack", "config set"}


def test_the_alert_that_is_followed_is_the_first_of_its_cause_since_the_story_began(seen):
    alert, minute = seen[-1].starved, timedelta(minutes=1)

    def shown(story, *alerts):
        outcome, detection = SimpleNamespace(alerts=alerts), Detection(())
        return story.after(SimpleNamespace(outcome=outcome, reading=Reading(alert.opened), detection=detection)).starved  # fmt: skip

    story = Seen(alert.opened, alert.opened)
    others = (
        replace(alert, id="early", opened=alert.opened - minute),
        replace(alert, id="muted", muted_by="snooze"),
        replace(alert, id="jump", anomaly=replace(alert.anomaly, cause=Cause.SPEND_JUMP)),
    )
    assert shown(story, *others) is None
    assert shown(story, *others, alert, replace(alert, id="second")) == alert
    followed, now = replace(story, starved=alert), replace(alert, closed=alert.opened)
    assert shown(followed, replace(alert, id="second"), now) == now
    assert shown(followed) == alert


def test_simulated_people_read_for_a_while_before_they_act(seen):
    starved = replace(seen[-1].starved, closed=None, acknowledged=None)
    story = replace(seen[-1], starved=starved, jump=None, now=starved.opened + PATIENCE)
    assert story.next_line() == Line(DANA, f"ack {starved.id} the data loader; on it")
    assert replace(story, now=story.now - timedelta(seconds=1)).next_line() is None
    assert replace(story, starved=replace(starved, closed=story.now)).next_line() is None
    jump = replace(story, starved=None, jump=starved, preview="")
    assert jump.next_line() == Line(MEI, f"share {TRIED}")
    assert replace(jump, now=jump.now - timedelta(seconds=1)).next_line() is None
    assert replace(jump, preview="done").next_line() is None


def test_every_chapter_stands_in_the_tour(seen):
    tour = TOUR.read_text(encoding="utf-8")
    assert [
        chapter.title for chapter in NOTHING_SEEN.chapters() if f"**{chapter.title}**" not in tour
    ] == []


@pytest.mark.parametrize(
    ("source", "told"),
    [(SOURCE, True), ("simulator:9/story", True), ("simulator:7", False), ("aws", False)],
)
def test_only_the_story_is_told_as_one(source, told):
    assert tells(source) is told


def test_the_story_is_what_the_recording_ends_with():
    told = [
        one.at
        for one in SCENARIOS["story"].incidents
        if one.cause in {Cause.STARVED, Cause.COMPILING}
    ]
    assert min(told) >= 24 * SCENARIOS["story"].days - STORY_SHOWN.total_seconds() / 3600 - 0.1
