"""What a detector remembers is a function of its key: whatever changed since, it finds what a new one finds."""

from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from itertools import compress

import numpy as np
import pytest
from builder import Fleet, World, hours

from bot.model.alert import Alert
from bot.model.fleet import Market, Reservation
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import SPEND_METRICS
from bot.policy.file import applied
from bot.policy.schema import default_policy
from detectors import Detector, SharedDetector
from detectors.nodes import drop
from detectors.nodes.faults import find_memory
from detectors.nodes.idle import amid_work
from detectors.progress import pace_of_nodes
from detectors.usual import Memo
from tests.builders import alert

NOW = hours(10 * 24 + 7)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def bill(step, n_steps, end):
    """Return a bill of hours, bytes and a fee whose newest two days cost twice as much."""
    place = {"account": "1", "region": "us-west-2", "service": "AmazonEC2"}
    usages = ("USW2-BoxUsage:trn1.32xlarge", "NatGateway-Bytes", "EC2SP:trn1.1yrNoUpfront")
    things = tuple(Labels(**place, usage_type=usage, cluster="llama") for usage in usages)
    values = np.zeros((len(things), n_steps, len(SPEND_METRICS)), np.float32)
    values[:, :, 0] = np.array([[80.0], [9.0], [30.0]]) * (step / HOUR)
    values[:2, -2 * DAY // step :, 0] *= 2.0
    name = "spend" if step == DAY else "spend_hour"
    return Frame(name, things, end - n_steps * step, step, tuple(SPEND_METRICS), values)


BLOCK = Reservation(
    Labels(resource="cb-1", instance_type="trn1.32xlarge", region="us-west-2"),
    8,
    0,
    NOW - 9 * DAY,
    NOW + 9 * DAY,
    Market.CAPACITY_BLOCK,
)


def reading_of(fleets, **more):
    days, by_hour = bill(DAY, 20, hours(10 * 24)), bill(HOUR, 20 * 24, NOW - 8 * HOUR)
    world = World(*fleets, frames={"spend": days, "spend_hour": by_hour}, **more)
    return world.reading(NOW)


@pytest.fixture(scope="module")
def before():
    """Return a reading in whose newest hour four nodes starve, of a fleet that others serve beside."""
    starving = Fleet(4, days=11).starve(NOW - HOUR, NOW)
    for day in range(2, 10):
        starving.scale(hours(24 * day), hours(24 * day + 0.4), neuroncore_utilization=0.3)
    idle = Fleet(2, days=11, cluster="sweep", seed=2).stop(NOW - 2 * HOUR, NOW)
    reading = reading_of([starving, idle], inventory={"reservations": (BLOCK,)})
    return with_nodes(reading, lambda i: replace(i, market=Market.CAPACITY_BLOCK), 4)


def with_frame(reading, kind, change):
    return replace(reading, frames={**reading.frames, kind: change(reading.frames[kind])})


def restated(frame):
    """Return a frame whose things, steps and sums are the same, and one past reading is not."""
    values = frame.values.copy()
    values[:, frame.n_steps // 2] *= np.float32(1.7)
    return replace(frame, values=values)


def with_inventory(reading, **changes):
    return replace(reading, inventory=replace(reading.inventory, **changes))


def with_nodes(reading, change, first=0):
    """Return a reading with some of whose nodes something is changed in the inventory."""
    instances = dict(reading.inventory.instances)
    for name in sorted(instances)[first:][:2]:
        instances[name] = change(instances[name])
    return with_inventory(reading, instances=instances)


ENDING = replace(BLOCK, ends_at=NOW + HOUR / 4)
READINGS = {
    "history that has arrived": lambda r: with_frame(r, "node", lambda f: f.since(hours(24))),
    "history still being read": lambda r: replace(
        with_frame(r, "node", restated), learning="4 of 9 series are read"
    ),
    "older days of the bill": lambda r: with_frame(r, "spend", lambda f: f.since(NOW - 12 * DAY)),
    "older hours of the bill": lambda r: with_frame(
        r, "spend_hour", lambda f: f.since(NOW - 12 * DAY)
    ),
    "days that are restated": lambda r: with_frame(r, "spend", restated),
    "hours that are restated": lambda r: with_frame(r, "spend_hour", restated),
    "no hours": lambda r: replace(r, frames={k: r.frames[k] for k in ("node", "spend")}),
    "a node that ended": lambda r: with_nodes(r, lambda i: replace(i, state="terminated")),
    "a node that serves": lambda r: with_nodes(r, lambda i: replace(i, tags={"role": "inference"})),
    "a node of another place": lambda r: with_nodes(
        r, lambda i: replace(i, labels=i.labels.merge(Labels(team="search", account="2")))
    ),
    "a node that never reported": lambda r: with_inventory(
        r,
        instances=r.inventory.instances
        | {"i-mute": replace(next(iter(r.inventory.instances.values())), labels=MUTE)},
    ),
    "a reservation that is gone": lambda r: with_inventory(r, reservations=()),
    "a block that ends soon": lambda r: with_inventory(r, reservations=(ENDING,)),
}
MUTE = Labels(cluster="llama", instance="i-mute", instance_type="trn1.32xlarge", region="us-west-2")
POLICIES = {
    "alert.usual_days": "3",
    "alert.rare_weeks": "1",
    "idle.below": "0.4",
    "spend_jump.above": "0.1",
    "spend_jump.along": "0.9",
    "budget_burn.month_usd": "900",
    "starved.over": "0.5",
}


RULES = {
    "hung.for": "1h",
    "idle.for": "3h",
    "starved.for": "2h",
    "starved.below": "0.4",
    "no_data.for": "1h",
}


def memos_of(judge):
    """Return the memos of a detector and of its judge of the bill by their names."""
    memos = {name: x for name, x in vars(judge).items() if isinstance(x, Memo)}
    bill = vars(judge).get("_bill")
    return memos | (memos_of(bill) if bill else {})


def plain(value):
    """Return a value as numpy can compare it."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [plain(x) for x in value]
    return value if isinstance(value, np.ndarray | float | int) else type(value).__name__


def assert_forgets(first, then):
    """Assert that a detector which judged `first` judges `then` as a new one does, in all that it learnt."""
    kept, new = Detector(), Detector()
    kept(*first, ())
    found, expected = kept(*then, ()), new(*then, ())
    learnt = memos_of(new)
    for name, memo in memos_of(kept).items():
        entries = zip(memo._newest, learnt[name]._newest, strict=False)
        for (key, _, value), (new_key, _, new_value) in entries:
            if key == new_key:
                np.testing.assert_equal(plain(value), plain(new_value), err_msg=name)
    assert found == expected


@pytest.mark.parametrize("change", READINGS.values(), ids=READINGS)
def test_what_is_remembered_follows_the_reading(before, change):
    policy = applied(default_policy(), [(Labels(), "budget_burn.month_usd", "1000")])
    assert_forgets((before, policy), (change(before), policy))


@pytest.mark.parametrize(("key", "value"), POLICIES.items())
def test_what_is_remembered_follows_the_policy(before, key, value):
    policy = default_policy()
    assert_forgets((before, policy), (before, applied(policy, [(Labels(), key, value)])))


@pytest.mark.parametrize(("key", "value"), (RULES | POLICIES).items())
def test_policies_side_by_side_find_what_each_finds_alone(before, key, value):
    policies = default_policy(), applied(default_policy(), [(Labels(), key, value)])
    shared, known = SharedDetector(len(policies)), [(), ()]
    earlier = replace(with_frame(before, "node", lambda f: f.until(NOW - HOUR)), now=NOW - HOUR)
    for reading in (earlier, before):
        pairs = list(zip(policies, known, strict=True))
        found = [shared(reading, policy, alerts) for policy, alerts in pairs]
        assert found == [Detector()(reading, policy, alerts) for policy, alerts in pairs]
        known = [opened(detection, reading.now) for detection in found]


def opened(detection, now):
    """Return the anomalies of a detection as alerts that were just opened."""
    return tuple(Alert(f"{x.key}@{now:%d%H%M}", x, now, now) for x in detection.anomalies)


def test_what_asks_no_changed_setting_is_derived_once(before):
    detector, policy = Detector(policies=2), default_policy()
    policies = policy, applied(policy, [(Labels(), "hung.for", "1h")])
    first, second = (detector.view(before, policy, ()) for policy in policies)
    assert first.derive(find_memory) is second.derive(find_memory)
    assert amid_work(first) is not amid_work(second)


KNOWN = {"policy": (), "open": (alert(),), "alerts": (alert(closed=NOW),)}


@pytest.mark.parametrize("fact", KNOWN)
def test_what_asks_for_a_policy_or_its_alerts_is_derived_for_each(before, fact):
    detector, policy = Detector(policies=2), default_policy()
    rarer = applied(policy, [(Labels(), "alert.rare_weeks", "1")])
    first = detector.view(before, policy, ())
    second = detector.view(before, rarer, KNOWN[fact])

    def asked(view):
        return getattr(view, fact)

    first.derive(asked)
    assert second.derive(asked) is getattr(second, fact)


def test_what_asks_for_alerts_of_a_rule_is_derived_once_beside_alerts_of_others(before):
    detector, policy = Detector(policies=2), default_policy()
    first, second = (detector.view(before, policy, known) for known in ((), (alert(),)))

    def asked(view):
        return view.opened("hung")

    assert first.derive(asked) is second.derive(asked)


def test_a_drop_is_found_in_its_scope_as_in_the_whole_fleet():
    calm = Fleet(2, days=11, cluster="calm", seed=2)
    reading = reading_of([Fleet(4, days=11).starve(NOW - HOUR, NOW), calm])
    view = Detector().view(reading, default_policy(), ())
    with np.errstate(invalid="ignore", divide="ignore"):
        whole = drop.find_around(view, pace_of_nodes(view))
        part, rows = view.around(whole.hit, least_spared=1)
        found = drop.find_around(part, pace_of_nodes(view).pick(rows)).spread(rows, view.n)
    assert part.roster.scopes == view.roster.scopes
    assert part.roster.ids == view.roster.ids[:4] == tuple(compress(view.roster.ids, whole.hit))
    assert rows.tolist() == [0, 1, 2, 3]
    for of_part, of_whole in zip(plain(found).values(), plain(whole).values(), strict=True):
        assert np.array_equal(of_part, of_whole) or np.array_equal(
            of_part[whole.hit], of_whole[whole.hit]
        )


@pytest.mark.parametrize("scope", [Labels(), Labels(cluster="llama")])
def test_a_policy_that_says_only_what_is_told_judges_nothing_anew(before, scope):
    policy, shared = default_policy(), SharedDetector(2)
    quieter = applied(policy, [(scope, "alert.least_usd_per_hour", "70")])
    assert shared(before, policy, ()) is shared(before, quieter, ())
