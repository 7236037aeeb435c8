"""What a judgement mutes, for how long, and what it suggests."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from bot.model.alert import Decision, DecisionKind, Silence
from bot.model.causes import Cause
from bot.model.labels import Labels
from bot.policy.schema import SETTINGS, default_policy
from bot.watch.feedback import pattern_of, patterns, scores
from bot.watch.mute import mute
from bot.watch.preview import held_since
from tests.builders import NOON, alert, anomaly, waste

DAY = timedelta(days=1)


def judged(found=None, **more):
    return replace(alert(found or anomaly()), waste=waste("100"), **more)


def pattern(about=None):
    return Silence(
        "m1", Labels(), NOON, NOON + 30 * DAY, "chat:U1", pattern=pattern_of(about or judged())
    )


def muted(later, at=NOON + DAY, silence=None):
    return mute([later], [silence or pattern()], default_policy(), at)[0].muted_by


def test_a_later_opening_of_the_same_kind_is_muted():
    assert muted(replace(judged(), id="a2", opened=NOON + DAY)) == "silence:m1"


@pytest.mark.parametrize(
    "later",
    [
        judged(anomaly(cluster="vision")),  # elsewhere
        judged(anomaly(Cause.IDLE)),  # another rule
        judged(anomaly(value=0.05)),  # deeper than half of what was judged
        replace(judged(), waste=waste("151")),  # dearer by more than half
    ],
)
def test_what_is_elsewhere_else_or_worse_speaks(later):
    assert muted(later) == ""


def test_what_is_dearer_by_half_is_still_the_same():
    assert muted(replace(judged(), waste=waste("150"))) == "silence:m1"


@pytest.mark.parametrize(
    ("at", "by"), [(NOON, "silence:m1"), (NOON + 29 * DAY, "silence:m1"), (NOON + 30 * DAY, "")]
)
def test_a_judgement_expires(at, by):
    assert muted(judged(), at) == by


def test_a_dropped_judgement_mutes_nothing():
    assert muted(judged(), silence=replace(pattern(), ended_at=NOON)) == ""


def test_storage_that_stays_unused_longer_is_no_worse():
    unused = anomaly(Cause.ORPHANED_STORAGE, unit="seconds", value=3 * 86400.0, kind="volume")
    assert (
        muted(judged(replace(unused, value=9 * 86400.0)), silence=pattern(judged(unused)))
        == "silence:m1"
    )


def test_a_preview_holds_a_judgement_from_its_beginning_and_a_snooze_from_its_own():
    start = NOON - 14 * DAY
    assert held_since(pattern(), start).starts == start
    snooze = Silence("s1", Labels(), NOON, NOON + DAY, "chat:U1", alert="a1")
    assert held_since(snooze, start) is snooze


def test_a_level_is_one_of_its_unit_with_both_ends_and_money_has_none():
    seen = pattern_of(judged())
    for value, unit, marked in (
        (seen.low, "ratio", "silence:m1"),
        (seen.high, "ratio", "silence:m1"),
        (seen.low, "count", ""),
    ):
        assert muted(judged(anomaly(value=value, unit=unit))) == marked
    assert (pattern_of(judged(anomaly(value=0.02))).low) == pytest.approx(-0.03)
    assert (pattern_of(judged(anomaly(value=0.02, unit="count"))).low) == pytest.approx(0.01)
    grown = judged(anomaly(Cause.SPEND_JUMP, kind="spend", unit="usd"))
    assert (pattern_of(grown).low, pattern_of(grown).high) == (None, None)


@pytest.mark.parametrize(("cause", "marked"), [(Cause.HUNG, "silence:m1"), (Cause.IDLE, "")])
def test_the_job_is_no_place_where_a_cause_befalls_jobs(cause, marked):
    first, later = (
        judged(anomaly(cause, scope=Labels(cluster="llama", job=job))) for job in ("a", "b")
    )
    assert muted(later, silence=pattern(first)) == marked


def test_the_patterns_that_hold_are_those_of_their_time_that_nobody_dropped():
    kept = pattern()
    snooze, dropped = replace(kept, pattern=None), replace(kept, ended_at=NOON)
    other = pattern(judged(anomaly(Cause.IDLE)))
    seconds = (-1, 0, 30 * 86400 - 1, 30 * 86400)
    held = [
        patterns([snooze, dropped, other, kept], judged(), NOON + timedelta(seconds=n))
        for n in seconds
    ]
    assert held == [[], [kept], [kept], []]


def test_rules_stand_with_the_worst_first_and_what_was_taken_back_counts_nowhere():
    wrong, useful = DecisionKind.NOT_AN_ANOMALY, DecisionKind.USEFUL
    judgements = [
        decided(doing, judged(anomaly(cause), id=f"a{i}"))
        for i, (cause, doing) in enumerate(
            [
                (Cause.STARVED, useful),
                (Cause.NO_DATA, wrong),
                (Cause.HUNG, wrong),
                (Cause.ODD, wrong),
                (Cause.ODD, wrong),
                (Cause.IDLE, DecisionKind.UNJUDGED),
            ]
        )
    ]
    found = [(x.rule, x.useful, x.wrong) for x in scores(judgements, default_policy().values)]
    assert found == [("odd", 0, 2), ("hung", 0, 1), ("no_data", 0, 1), ("starved", 1, 0)]


def test_a_line_to_try_names_one_cluster_and_doubles_up_to_the_most():
    def line(cause, clusters, **values):
        wrong = [
            decided(DecisionKind.NOT_AN_ANOMALY, judged(anomaly(cause, cluster=x), id=f"a{i}"))
            for i, x in enumerate(clusters)
        ]
        return scores(wrong, default_policy().values | values)[0].suggestion

    assert line(Cause.IDLE, ("", "", "")) == "config set idle.for 1h"
    assert not SETTINGS["odd.for"].scoped
    assert line(Cause.ODD, ("lab",) * 3).split(" ")[4:] == []
    most = SETTINGS["checkpoint_at_risk.factor"].high
    factor = {"checkpoint_at_risk.factor": most * 0.75}
    assert line(Cause.CHECKPOINT_AT_RISK, "abc", **factor).endswith(f" {most:g}")
    assert line(Cause.SPEND_JUMP, "abc", **{"spend_jump.above": 0.5}).endswith(" 75%")


def decided(doing, about, n=0):
    made = Decision(
        f"d{about.id}{n}", about.id, doing, "chat:U1", "dana", NOON + timedelta(minutes=n)
    )
    return about, made


def test_rules_are_scored_by_the_last_judgement_of_each_opening():
    idle = [
        judged(anomaly(Cause.IDLE, cluster=c), id=f"a{i}")
        for i, c in enumerate(("lab", "lab", "lab", "lab"))
    ]
    wrong = [decided(DecisionKind.NOT_AN_ANOMALY, one) for one in idle]
    found = scores(
        [
            *wrong,
            decided(DecisionKind.USEFUL, idle[0], 1),
            decided(DecisionKind.USEFUL, judged(id="b")),
        ],
        default_policy().values,
    )
    assert [(one.rule, one.useful, one.wrong, one.precision) for one in found] == [
        ("idle", 1, 3, 0.25),
        ("starved", 1, 0, 1.0),
    ]
    assert [one.suggestion for one in found] == ["config set idle.for 1h cluster=lab", ""]


@pytest.mark.parametrize(
    ("cause", "line"),
    [
        (Cause.SPEND_JUMP, "config set spend_jump.above 60%"),
        (Cause.SPEND_NEW, "config set spend_new.least 40"),
        (Cause.MEMORY_PRESSURE, "config set memory_pressure.for 30m"),
        (Cause.CHECKPOINT_AT_RISK, "config set checkpoint_at_risk.factor 4"),
        (Cause.TRANSFER_ROUTE, "config transfer_route"),
    ],
)
def test_a_rule_that_is_mostly_wrong_gets_a_line_to_try(cause, line):
    wrong = [
        decided(DecisionKind.NOT_AN_ANOMALY, judged(anomaly(cause, cluster=f"c{i}"), id=f"a{i}"))
        for i in range(3)
    ]
    assert scores(wrong, default_policy().values)[0].suggestion == line


def test_a_rule_as_often_right_as_wrong_gets_no_line():
    about = [
        decided(DecisionKind.USEFUL if i % 2 else DecisionKind.NOT_AN_ANOMALY, judged(id=f"a{i}"))
        for i in range(4)
    ]
    assert scores(about, default_policy().values)[0].suggestion == ""


def test_a_line_to_try_is_one_that_can_be_set():
    highest = SETTINGS["idle.for"].high
    values = {
        **default_policy().values,
        "idle.for": timedelta(seconds=highest * 0.75),
        "spend_jump.above": 0.75,
    }
    for cause, key in ((Cause.IDLE, "idle.for"), (Cause.SPEND_JUMP, "spend_jump.above")):
        wrong = [
            decided(
                DecisionKind.NOT_AN_ANOMALY, judged(anomaly(cause, cluster=f"c{i}"), id=f"a{i}")
            )
            for i in range(3)
        ]
        (score,) = scores(wrong, values)
        words = score.suggestion.split(" ")
        assert words[:3] == ["config", "set", key]
        assert SETTINGS[key].parse(words[3]) > values[key]


def test_two_judgements_suggest_nothing():
    wrong = [decided(DecisionKind.NOT_AN_ANOMALY, judged(id=f"a{i}")) for i in range(2)]
    assert scores(wrong, default_policy().values)[0].suggestion == ""


def test_a_level_holds_half_above_and_below():
    seen = pattern_of(judged(anomaly(value=0.2)))
    assert (seen.low, seen.high) == (pytest.approx(0.1), pytest.approx(0.3))
    assert seen.usd_per_hour == Decimal("150.00")
