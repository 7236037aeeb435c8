"""Who hears what: labels choose the channel, and nobody who heard the beginning misses the end."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.errors import WrongInput
from bot.model.alert import Decision, DecisionKind
from bot.model.causes import Cause, Severity
from bot.model.notification import Notification, Reason, State
from bot.model.route import Routes
from bot.policy.schema import default_policy
from bot.settings.routes import read_owners, read_routes, route_of
from bot.watch.notify import audience, log_entry_of, route
from bot.watch.tick import Rules, notify
from tests.builders import FIVE, NOON, alert, anomaly, waste

POLICY = default_policy()
OWNERS = {"dana": ("slack:U01DANA", "teams:29:1dana")}
ROUTES = Routes(
    read_routes("cluster=llama -> slack:C1, slack:C2; cause=idle severity=critical -> slack:C2"),
    default=("slack:C0",),
    finops=("slack:CFIN",),
    escalate=("slack:CBOSS",),
    owners=OWNERS,
)


@pytest.mark.parametrize(
    ("sentence", "found", "owner", "heard"),
    [
        ("every route that fits is heard, each channel once", anomaly(Cause.IDLE, severity=Severity.CRITICAL), "dana", ("C1", "C2", "CFIN")),
        ("a route takes an alert from the default", anomaly(), "Dana", ("C1", "C2")),
        ("where the owner is unknown the default hears it too", anomaly(), "nobody", ("C0", "C1", "C2")),
        ("what no route takes goes to the default", anomaly(cluster="bert"), "dana", ("C0",)),
        ("every word of a route must fit", anomaly(Cause.IDLE, cluster="bert"), "dana", ("C0", "CFIN")),
        ("causes of money are heard by a second audience too", anomaly(Cause.SPEND_JUMP), "dana", ("C1", "C2", "CFIN")),
    ],
)  # fmt: skip
def test_where_an_alert_goes(sentence: str, found, owner: str, heard: tuple[str, ...]) -> None:
    assert route(alert(found, owner=owner), ROUTES) == tuple(f"slack:{name}" for name in heard), (
        sentence
    )


def test_a_subscription_takes_nothing_from_the_default() -> None:
    subscribed = route_of([("cluster", "llama")], ("teams:19:x@thread.v2",), by="teams:29:1x")
    routes = Routes((subscribed,), default=("slack:C0",), owners=OWNERS)
    assert route(alert(owner="dana"), routes) == ("slack:C0", "teams:19:x@thread.v2")


@pytest.mark.parametrize(
    ("minutes", "acknowledged", "told"), [(29, False, False), (30, False, True), (31, True, False)]
)
def test_a_critical_alert_that_nobody_acknowledges_goes_up(
    minutes: int, acknowledged: bool, told: bool
) -> None:
    ack = (
        Decision("d1", "a1", DecisionKind.ACKNOWLEDGE, "web:local", "dana", NOON)
        if acknowledged
        else None
    )
    found = alert(anomaly(severity=Severity.CRITICAL), acknowledged=ack)
    assert (
        "slack:CBOSS" in audience(found, ROUTES, POLICY, NOON + timedelta(minutes=minutes))
    ) is told


def test_an_alert_that_was_held_back_goes_up_no_sooner_than_others() -> None:
    sent = alert(anomaly(severity=Severity.CRITICAL), notified=NOON)
    held_for_days = replace(sent, opened=NOON - timedelta(days=3))
    for minutes in (29, 30):
        channels = audience(held_for_days, ROUTES, POLICY, NOON + timedelta(minutes=minutes))
        assert ("slack:CBOSS" in channels) is (minutes == 30)


def test_each_channel_hears_only_what_is_routed_there() -> None:
    alerts = [alert(owner="dana"), alert(anomaly(cluster="bert"), name="a2", owner="dana")]
    notices = notify(State(), alerts, Rules(POLICY, ("web:alerts",), ROUTES), NOON)
    heard = {(notice.channel, found.id) for notice in notices for found in notice.alerts}
    assert heard == {
        ("web:alerts", "a1"),
        ("web:alerts", "a2"),
        ("slack:C1", "a1"),
        ("slack:C2", "a1"),
        ("slack:C0", "a2"),
    }


def test_the_end_is_told_where_the_beginning_was_though_the_route_is_gone() -> None:
    firing = alert(owner="dana", waste=waste())
    said = log_entry_of(Notification("n1", "slack:COLD", Reason.FIRST, NOON, (firing,)), "m1")
    (over,) = notify(
        State(notification_log=(said,)),
        [replace(firing, closed=NOON + FIVE)],
        Rules(POLICY, (), Routes()),
        NOON + FIVE,
    )
    assert (over.channel, over.reason) == ("slack:COLD", Reason.OVER)


def test_an_intent_whose_route_is_gone_is_not_said_after_all() -> None:
    firing = alert(owner="dana", waste=waste())
    said = log_entry_of(Notification("n1", "slack:COLD", Reason.FIRST, NOON, (firing,)), "")
    assert (
        notify(State(notification_log=(said,)), [firing], Rules(POLICY, (), Routes()), NOON + FIVE)
        == ()
    )


def test_the_owner_is_reached_on_the_platform_that_speaks() -> None:
    assert [ROUTES.owner("Dana", name) for name in ("slack", "teams", "web")] == [
        "slack:U01DANA",
        "teams:29:1dana",
        "slack:U01DANA",
    ]
    assert ROUTES.owner("kim") == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cluster=llama", "is not a route; write LABEL=VALUE -> CHANNEL"),
        ("clutser=llama -> slack:C1", "did you mean 'cluster'"),
        ("cause=idel -> slack:C1", "did you mean 'idle'"),
        ("severity=urgent -> slack:C1", "known: critical, warning, info"),
        ("cluster=llama -> C1", "'C1' names no platform"),
    ],
)
def test_a_wrong_route_is_told_by_the_nearest_right_word(text: str, words: str) -> None:
    with pytest.raises(WrongInput, match=words):
        read_routes(text)


def test_owners_are_read_without_regard_to_case() -> None:
    assert read_owners("Dana = slack:U1, teams:29:x; kim=slack:U2") == {
        "dana": ("slack:U1", "teams:29:x"),
        "kim": ("slack:U2",),
    }


NAMES = Routes(
    default=("slack:C0",),
    owners={
        "dana": ("slack:U1", "slack:T2/U2"),
        "namespace:nlp": ("slack:U3",),
        "lee@corp": ("slack:U4",),
    },
)


@pytest.mark.parametrize(
    ("owner", "claims", "address"),
    [
        ("dana", ("namespace:nlp", "launcher:lee@corp"), "slack:U1"),
        ("stranger", ("namespace:nlp", "launcher:lee@corp"), "slack:U3"),
        ("", ("namespace:other", "launcher:Lee@corp"), "slack:U4"),
        ("", ("namespace:lee@corp",), ""),
        ("slack:U9", (), ""),
    ],
)
def test_the_owner_is_who_the_tag_names_then_who_has_the_namespace_then_who_launched_it(
    owner: str, claims: tuple[str, ...], address: str
) -> None:
    found = alert(owner=owner, claims=claims)
    assert NAMES.owner_among(found.owners) == address
    taken = replace(NAMES, routes=read_routes("cluster=llama -> slack:C1"))
    assert route(found, taken) == (("slack:C1",) if address else ("slack:C0", "slack:C1"))


def test_the_owner_is_mentioned_in_the_workspace_that_speaks() -> None:
    assert [
        NAMES.owner("dana", near) for near in ("slack:C1", "slack:T2/C1", "slack:T3/C1", "")
    ] == [
        "slack:U1",
        "slack:T2/U2",
        "slack:U1",
        "slack:U1",
    ]
