from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from bot.model.alert import Alert, Peak, Silence, Waste
from bot.model.causes import Cause, Severity
from bot.model.labels import Labels
from bot.model.window import Window
from bot.policy.schema import default_policy
from bot.watch.mute import mute
from tests.builders import NOON, alert, anomaly, nodes, waste

POLICY = default_policy()


def silence(**more: object) -> Silence:
    fields = {
        "id": "s1",
        "selector": Labels(cluster="llama"),
        "starts": NOON,
        "ends": NOON + timedelta(hours=1),
        "by": "web:local",
    }
    return Silence(**{**fields, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sentence", "made", "marked"),
    [
        ("a silence that selects the cluster mutes", silence(), "silence:s1"),
        ("one of another cluster does not", silence(selector=Labels(cluster="other")), ""),
        ("one that is over does not", silence(ends=NOON), ""),
        ("one that a person ended does not", silence(ended_at=NOON), ""),
        ("one of another cause does not", silence(cause="idle"), ""),
        ("one of another opening does not", silence(alert="a9"), ""),
        ("under its ceiling it mutes", silence(ceiling_usd=Decimal(500)), "silence:s1"),
        ("past its ceiling it wakes", silence(ceiling_usd=Decimal(50)), ""),
    ],
)
def test_silences(sentence: str, made: Silence, marked: str) -> None:
    (found,) = mute([alert(waste=waste())], [made], POLICY, NOON)
    assert found.muted_by == marked, sentence


FAULT = "inhibit:hardware_fault/cluster=llama"


@pytest.mark.parametrize(("sick", "marked"), [(4, FAULT), (2, FAULT), (1, "")])
def test_a_sick_half_mutes_the_whole_and_not_the_other_way(sick: int, marked: str) -> None:
    fault, slow = (
        alert(anomaly(Cause.HARDWARE_FAULT, n=sick)),
        alert(anomaly(Cause.STARVED, n=4), name="a2"),
    )
    assert [a.muted_by for a in mute([fault, slow], [], POLICY, NOON)] == ["", marked]


LEAST = "policy:alert.least_usd_per_hour"


def critical(wasted: Waste) -> Alert:
    return alert(anomaly(severity=Severity.CRITICAL), waste=wasted)


@pytest.mark.parametrize(
    ("sentence", "found", "marked"),
    [
        ("waste under the least an hour is muted", alert(waste=waste("0.99")), LEAST),
        ("so is what has not cost five dollars", alert(waste=waste("1.34", "4.99")), LEAST),
        ("from there on it is told", alert(waste=waste("1.34", "5")), ""),
        ("what is critical waits for no dollar", critical(waste("10", "0.83")), ""),
        (
            "what puts a run at risk is told however little it wastes",
            alert(anomaly(Cause.EXECUTION_ERRORS), waste=waste("0.00", "0.00")),
            "",
        ),
        ("an alert without dollars is not cheap", alert(anomaly(Cause.NO_DATA)), ""),
        ("an end is never muted", alert(closed=NOON, waste=waste("0.99")), ""),
    ],
)
def test_small_waste_is_muted_by_the_policy_and_says_so(
    sentence: str, found: Alert, marked: str
) -> None:
    (muted,) = mute([found], [], POLICY, NOON)
    assert muted.muted_by == marked, sentence


def test_where_nothing_is_too_small_it_need_not_have_cost_anything() -> None:
    policy = replace(POLICY, overrides=((Labels(), "alert.least_usd_per_hour", Decimal(0)),))
    (muted,) = mute([alert(waste=waste("0.10", "0.01"))], [], policy, NOON)
    assert muted.muted_by == ""


def test_the_least_and_the_quiet_hours_are_those_of_the_place() -> None:
    least = (Labels(cluster="llama"), "alert.least_usd_per_hour", Decimal(100))
    quiet = (Labels(cluster="vision"), "alert.quiet_hours", "11:00-13:00")
    found = [
        alert(anomaly(cluster=cluster), waste=waste(usd))
        for cluster, usd in (("llama", "99.99"), ("llama", "100"), ("vision", "2"), ("lab", "1"))
    ]
    muted = mute(found, [], replace(POLICY, overrides=(least, quiet)), NOON)
    assert [a.muted_by for a in muted] == [
        LEAST,
        "",
        "policy:alert.quiet_hours",
        "",
    ]


def test_the_most_particular_override_counts_and_of_two_alike_the_later() -> None:
    key = "alert.least_usd_per_hour"
    narrow, wide, later = (
        (Labels(**place), key, Decimal(usd))
        for place, usd in (
            ({"cluster": "llama", "team": "nlp"}, 3),
            ({"cluster": "llama"}, 1),
            ({"team": "nlp"}, 2),
        )
    )
    policy = replace(POLICY, overrides=(narrow, wide, later))
    assert policy.at(Labels(cluster="llama", team="nlp", instance="i-1")).usd(key) == 3
    assert (
        replace(POLICY, overrides=(wide, later)).at(Labels(cluster="llama", team="nlp")).usd(key)
        == 2
    )
    assert policy.at(Labels(cluster="llama", instance="i-1")) is policy.at(Labels(cluster="llama"))


def test_what_goes_on_explains_before_what_has_just_ended() -> None:
    ended = alert(anomaly(Cause.HARDWARE_FAULT), name="a2", closed=NOON)
    lost = alert(anomaly(Cause.NO_DATA), name="a3")
    assert mute([ended, lost, alert()], [], POLICY, NOON)[2].muted_by == lost.effect_mark


def test_where_one_of_both_names_no_things_the_scope_tells_what_is_explained() -> None:
    whole = alert(anomaly(Cause.HARDWARE_FAULT, things=()), name="whole")
    parts = [
        alert(anomaly(), name="a1"),
        alert(anomaly(things=(), wasted_shares=()), name="a2"),
        alert(anomaly(cluster="vision"), name="a3"),
    ]
    marked = [whole.effect_mark, whole.effect_mark, ""]
    assert [a.muted_by for a in mute([whole, *parts], [], POLICY, NOON)] == ["", *marked]
    named = alert(anomaly(Cause.HARDWARE_FAULT), name="named")
    other = alert(anomaly(cluster="vision", things=(), wasted_shares=()), name="a4")
    assert mute([named, other], [], POLICY, NOON)[1].muted_by == ""
    nowhere = replace(whole, anomaly=replace(whole.anomaly, scope=Labels()))
    assert {a.muted_by for a in mute([nowhere, *parts], [], POLICY, NOON)} == {""}


@pytest.mark.parametrize(("minutes", "marked"), [(14, FAULT), (15, "")])
def test_what_just_ended_still_explains_its_effects(minutes: int, marked: str) -> None:
    fault = alert(anomaly(Cause.HARDWARE_FAULT), id="a2", closed=NOON - timedelta(minutes=minutes))
    (starved,) = mute([alert()], (), POLICY, NOON, [fault])
    assert starved.muted_by == marked


def bought(cause: Cause = Cause.SPEND_JUMP, usd: str = "43", **labels: str) -> object:
    """Return an alert of the bill: more hours of a type are bought."""
    where = {"instance_type": "trn1.32xlarge", "region": "us-west-2", "account": "1"} | labels
    found = anomaly(
        cause,
        kind="spend",
        things=("USW2-BoxUsage:trn1.32xlarge",),
        wasted_shares=(),
        labels=Labels(**where),
    )
    return alert(found, name="spend", waste=waste(usd))


@pytest.mark.parametrize(
    ("spend", "nodes", "marked"),
    [
        (bought(), alert(anomaly(Cause.IDLE), waste=waste("43")), True),
        (bought(cluster="llama"), alert(anomaly(Cause.ALLOCATED_UNUSED), waste=waste("43")), True),
        (
            bought(),
            alert(anomaly(Cause.IDLE), waste=waste("43"), closed=NOON),
            True,
        ),  # its nodes are gone, the bill is late
        (bought(), alert(anomaly(Cause.IDLE), waste=waste("21.50")), True),  # half of it
        (bought(), alert(anomaly(Cause.IDLE), waste=waste("20")), False),  # less than half of it
        (bought(cluster="vision"), alert(anomaly(Cause.IDLE), waste=waste("43")), False),
        (bought(instance_type="p5.48xlarge"), alert(anomaly(Cause.IDLE), waste=waste("43")), False),
        (bought(), alert(anomaly(Cause.STARVED), waste=waste("43")), False),
        (
            bought(),
            alert(anomaly(Cause.IDLE), waste=waste("43"), closed=NOON - timedelta(days=2)),
            False,
        ),
    ],
)
def test_nodes_that_do_nothing_explain_what_was_bought_for_them(
    spend: object, nodes: object, marked: bool
) -> None:
    found = {a.cause: a.muted_by for a in mute([spend, nodes], [], POLICY, NOON)}  # type: ignore[list-item]
    assert found[spend.cause] == ("inhibit:" + nodes.key if marked else "")  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["region", "account", "cluster", "team"])
def test_idle_nodes_elsewhere_are_not_what_was_bought(name: str) -> None:
    place = dict.fromkeys(("region", "account", "cluster", "team"), "here")
    bill = bought(**place)
    marks = []
    for where in (place, place | {name: ""}, place | {name: "elsewhere"}):
        labels = anomaly().labels.merge(Labels(**where))
        labels = replace(labels, **{name: where[name]})  # type: ignore[arg-type]
        idle = alert(anomaly(Cause.IDLE, labels=labels), waste=waste("43"))
        marks.append(mute([bill, idle], [], POLICY, NOON)[0].muted_by == idle.effect_mark)  # type: ignore[list-item]
    assert marks == [True, True, False]


def test_the_dearest_idle_nodes_explain_what_was_bought() -> None:
    for usd in (("40", "30"), ("30", "40")):
        idle = [
            alert(anomaly(Cause.IDLE, cluster=cluster), name=cluster, waste=waste(each))
            for cluster, each in zip("ab", usd, strict=True)
        ]
        dearest = max(idle, key=lambda a: a.usd_per_hour)
        assert mute([bought(), *idle], [], POLICY, NOON)[0].muted_by == dearest.effect_mark  # type: ignore[list-item]


def test_a_bill_that_grew_by_nothing_is_explained_by_no_idle_nodes() -> None:
    marked = mute([bought(usd="0"), alert(waste=waste())], [], POLICY, NOON)[0].muted_by  # type: ignore[list-item]
    assert marked == LEAST


def test_idle_nodes_that_ended_as_the_bill_began_to_grow_still_explain_it() -> None:
    bill = bought()
    grown_at = bill.anomaly.window.start  # type: ignore[attr-defined]
    marks = []
    for closed in (grown_at, grown_at - timedelta(microseconds=1)):
        idle = alert(anomaly(Cause.IDLE), waste=waste("43"), closed=closed)
        marks.append(mute([bill, idle], [], POLICY, NOON)[0].muted_by)  # type: ignore[list-item]
    assert marks == [idle.effect_mark, ""]


def volume(
    name: str,
    usd: str = "0.44",
    cluster: str = "llama",
    account: str = "1",
    so_far: str = "50",
) -> object:
    scope = Labels(resource=name)
    found = anomaly(
        Cause.ORPHANED_STORAGE,
        things=(name,),
        kind="volume",
        scope=scope,
        labels=Labels(cluster=cluster, resource=name, account=account),
    )
    return alert(found, name=name, waste=waste(usd, so_far))


@pytest.mark.parametrize(("so_far", "marked"), [("1.66", LEAST), ("1.67", "")])
def test_small_volumes_of_a_cluster_have_cost_five_dollars_together(
    so_far: str, marked: str
) -> None:
    alerts = [volume(f"vol-{i}", so_far=so_far) for i in range(3)]
    found = mute(alerts, [], POLICY, NOON)  # type: ignore[arg-type]
    assert {a.muted_by for a in found} == {marked}


@pytest.mark.parametrize(("least", "marked"), [("0", ""), ("0.5", ""), ("0.51", LEAST)])
def test_under_a_floor_of_less_than_a_dollar_less_is_told(least: str, marked: str) -> None:
    values = {**POLICY.values, "alert.least_usd_per_hour": Decimal(least)}
    (found,) = mute([alert(waste=waste("2", "2.50"))], [], replace(POLICY, values=values), NOON)
    assert found.muted_by == marked


@pytest.mark.parametrize(("n", "marked"), [(2, LEAST), (3, "")])
def test_small_volumes_of_a_cluster_count_together(n: int, marked: str) -> None:
    alerts = [volume(f"vol-{i}") for i in range(n)] + [
        volume("vol-x", cluster="vision"),
        volume("vol-y", account="2"),
    ]
    found = mute(alerts, [], POLICY, NOON)  # type: ignore[arg-type]
    assert [a.muted_by for a in found] == [marked] * n + [LEAST] * 2


def test_small_volumes_that_are_gone_count_no_more() -> None:
    gone = replace(volume("vol-9"), closed=NOON)  # type: ignore[type-var]
    firing = [volume(f"vol-{i}") for i in range(2)]
    found = mute([*firing, gone], [], POLICY, NOON)  # type: ignore[list-item]
    assert [a.muted_by for a in found] == [LEAST] * 2 + [""]


@pytest.mark.parametrize(("so_far", "marked"), [("40", ""), ("0.99", LEAST)])
def test_what_is_lost_already_counts_whole_against_the_least(so_far: str, marked: str) -> None:
    killed = anomaly(Cause.KILLED_COMPILE, wasted_shares=(0.0,) * 4, lost_hours=(0.5,) * 4)
    (found,) = mute([alert(killed, waste=waste("0", so_far))], [], POLICY, NOON)
    assert found.muted_by == marked


def wide(cause: Cause = Cause.NETWORK_BOUND, **more: object) -> object:
    return alert(anomaly(cause, n=16, wide=True), name="wide", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sentence", "whole", "part", "marked"),
    [
        ("errors on a few of its nodes", wide(), anomaly(Cause.EXECUTION_ERRORS, n=4), True),
        ("agents lost on a few of its nodes", wide(), anomaly(Cause.NO_DATA, n=4), True),
        ("a device of one of its nodes", wide(), anomaly(Cause.HARDWARE_FAULT, n=1), True),
        ("its run's checkpoint", wide(), anomaly(Cause.CHECKPOINT_AT_RISK, n=16), True),
        (
            "nodes that stopped in a job that hangs",
            wide(Cause.HUNG),
            anomaly(Cause.NO_DATA, n=4),
            True,
        ),
        ("half of its nodes are a symptom", wide(), anomaly(Cause.HUNG, n=8), True),
        ("most of its nodes are more than a symptom", wide(), anomaly(Cause.HUNG, n=9), False),
        (
            "nodes of which half are its own",
            wide(),
            anomaly(Cause.NO_DATA, things=(*nodes(2), *nodes(2, "vision"))),
            True,
        ),
        (
            "nodes of which fewer are its own",
            wide(),
            anomaly(Cause.NO_DATA, things=(*nodes(1), *nodes(3, "vision"))),
            False,
        ),
        ("other nodes", wide(), anomaly(Cause.EXECUTION_ERRORS, n=4, cluster="vision"), False),
        (
            "what began an hour before it",
            wide(),
            anomaly(Cause.NO_DATA, n=4, at=NOON - timedelta(hours=1)),
            False,
        ),
        (
            "a few slow nodes are not wide",
            alert(anomaly(n=16), name="wide"),
            anomaly(Cause.HARDWARE_FAULT, n=1),
            False,
        ),
        (
            "what nobody is told of tells nothing",
            wide(waste=waste("0.10")),
            anomaly(Cause.HARDWARE_FAULT, n=1),
            False,
        ),
    ],
)
def test_a_wide_incident_mutes_its_symptoms(
    sentence: str, whole: object, part: object, marked: bool
) -> None:
    opened = part.window.end - timedelta(minutes=5)  # type: ignore[attr-defined]
    symptom = alert(part, opened=opened)  # type: ignore[arg-type]
    found = {a.id: a.muted_by for a in mute([whole, symptom], [], POLICY, NOON)}  # type: ignore[list-item]
    assert found["a1"] == (f"inhibit:{whole.key}" if marked else ""), sentence  # type: ignore[attr-defined]


def test_a_wide_incident_came_first_or_a_quarter_of_an_hour_after() -> None:
    """It is seen to begin ten minutes before noon; checkpoints were late once one was due."""
    hour, quarter, second = timedelta(hours=1), timedelta(minutes=15), timedelta(seconds=1)
    late = anomaly(Cause.CHECKPOINT_AT_RISK, n=16, unit="seconds", usual=(600.0, 3600.0))
    whole, lost = wide(), anomaly(Cause.NO_DATA, n=4)
    for found, ago, opened, marked in (
        (lost, hour, NOON, True),
        (lost, hour, NOON - second, False),
        (lost, quarter, NOON - quarter, True),
        (lost, quarter + second, NOON - quarter, False),
        (late, quarter + hour, NOON - quarter, True),
        (late, quarter + hour + second, NOON - quarter, False),
    ):
        window = Window(found.window.start - ago, NOON)
        part = alert(replace(found, window=window), opened=opened)
        assert bool(mute([whole, part], [], POLICY, NOON)[1].muted_by) is marked, (ago, opened)  # type: ignore[list-item]


def test_of_two_that_may_explain_each_other_the_wider_one_speaks() -> None:
    """A hang that few nodes are left of, and the silence of those: the hang had all of them."""
    few = anomaly(Cause.HUNG, n=4, wide=True)
    hung = alert(
        few, name="wide", peak=Peak(replace(few, things=nodes(16)), Decimal(1), Decimal(1))
    )
    found = {
        a.id: a.muted_by for a in mute([hung, alert(anomaly(Cause.NO_DATA))], [], POLICY, NOON)
    }
    assert found == {"wide": "", "a1": f"inhibit:{hung.key}"}


@pytest.mark.parametrize(("minutes", "marked"), [(44, True), (45, False)])
def test_events_that_are_counted_over_a_span_stay_explained_for_it(
    minutes: int, marked: bool
) -> None:
    over = wide(closed=NOON - timedelta(minutes=minutes), seen=NOON)
    symptom = alert(anomaly(Cause.EXECUTION_ERRORS, n=4))
    assert bool(mute([symptom], [], POLICY, NOON, [over])[0].muted_by) is marked  # type: ignore[list-item]


@pytest.mark.parametrize(("after", "marked"), [(0, True), (1, False)])
def test_events_that_began_after_the_last_sight_of_a_source_are_none_of_its_span(
    after: int, marked: bool
) -> None:
    seen = NOON - timedelta(minutes=10 + after)
    over = wide(closed=NOON - timedelta(minutes=20), seen=seen, opened=seen)
    symptom = alert(anomaly(Cause.EXECUTION_ERRORS, n=4))
    assert bool(mute([symptom], [], POLICY, NOON, [over])[0].muted_by) is marked  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("cause", "by"),
    [
        (Cause.COLLECTIVE_PATH, Cause.HUNG),
        (Cause.HUNG, Cause.NO_DATA),
        (Cause.MEMORY_PRESSURE, Cause.HARDWARE_FAULT),
        (Cause.EXECUTION_ERRORS, Cause.MEMORY_PRESSURE),
    ],
)
def test_the_gaps_of_the_table_are_closed(cause: Cause, by: Cause) -> None:
    found = mute([alert(anomaly(by)), alert(anomaly(cause), name="a2")], [], POLICY, NOON)
    assert found[1].muted_by == f"inhibit:{by}/cluster=llama"
