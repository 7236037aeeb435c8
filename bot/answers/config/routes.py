"""Answer who hears which alerts, and let a channel subscribe."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from bot.cards.card import Button, Buttons, Card, Heading, Table, Tone, compose, quiet, text
from bot.cards.words import few
from bot.errors import WrongInput
from bot.grammar.names import noting_unseen
from bot.grammar.registry import Needs, arg, command
from bot.model.alert import Alert
from bot.model.anomaly import Anomaly
from bot.model.causes import Cause, Severity
from bot.model.request import Request, Role
from bot.model.route import NODE_GROUP, Route, Routes, distinct
from bot.model.spend import Filter
from bot.model.window import Window
from bot.ports import Ports
from bot.settings.routes import route_of, routes_now, subscribe, subscriptions
from bot.watch.notify import route

_MOST, _FEW = 20, 6


def routes_card(routes: Routes, always: Sequence[str]) -> Card:
    """List every route in the order in which a person asks: mine, the rest, and the second ones."""
    rows = [
        (str(entry), entry.to, f"{entry.by} subscribed" if entry.by else "settings")
        for entry in routes.routes
    ]
    rows += [
        (f"alerts of {name}", to, "mapping file")
        for name, to in sorted(routes.mapping.channels.items())
    ]
    hidden = f"and {len(rows) - _MOST} more routes" if len(rows) > _MOST else ""
    causes = ", ".join(cause.facts.words for cause in routes.finops_causes)
    beside = (
        ("alerts that match no route or have no known owner", routes.default, "TRNBOT_ROUTE"),
        (
            f"{causes or 'spending, and what is paid for and unused'}, in addition",
            routes.finops,
            "TRNBOT_FINOPS",
        ),
        ("critical alerts not acknowledged in time", routes.escalate, "TRNBOT_ESCALATE"),
        ("every alert", always, "the console"),
    )
    listed = [*rows[:_MOST], *(row for row in beside if row[1])]
    cells = tuple((alerts, ", ".join(to), why) for alerts, to, why in listed)

    rules = routes.mapping.rules
    mapped = [
        f"{rule.owner} has "
        + " ".join(f"{name}={','.join(patterns)}" for name, patterns in rule.where)
        for rule in rules
    ]
    owners = ", ".join(sorted({*routes.owners, *routes.mapping.people}))

    return Card(
        "Who is notified of which alerts",
        Tone.INFO,
        compose(
            Table((Heading("alerts"), Heading("go to"), Heading("because")), cells, rest=hidden),
            owners and quiet("Owners with an address: ", owners),
            bool(mapped)
            and quiet(
                f"By the mapping file, the first that fits: {'; '.join(few(mapped, _FEW, 'rule'))}."
            ),
            quiet(
                "To subscribe a channel, type in it: subscribe cluster=llama. To test a route:"
                " routes test cluster=llama cause=idle"
            ),
        ),
        {
            "routes": [
                {"alerts": str(entry), "to": list(entry.to), "by": entry.by}
                for entry in routes.routes
            ],
            "default": list(routes.default),
            "finops": list(routes.finops),
            "escalate": list(routes.escalate),
            "always": list(always),
            "owners": [
                {
                    "owner": rule.owner,
                    "where": {name: list(patterns) for name, patterns in rule.where},
                }
                for rule in rules
            ],
        },
    )


def tried_card(
    conditions: str,
    heard: Sequence[str],
    escalated: Sequence[str],
    owner: tuple[str, str, bool],
    *,
    money: bool,
) -> Card:
    """Tell where an alert would go.

    The owner is a name and an address, and whether the mapping file names it.
    """
    name, address, by_file = owner
    who = "Without an owner it also goes to the default channel; test one with owner=NAME."
    if name and address:
        who = f"{name} is {address} and is mentioned."
    elif name:
        who = f"'{name}' has no known address, so nobody is mentioned."

    return Card(
        f"Where it would go: {conditions}",
        Tone.INFO,
        compose(
            text("It goes to ", ", ".join(heard), "."),
            bool(escalated)
            and text(f"If nobody acknowledges it in time, it also goes to {', '.join(escalated)}."),
            by_file and text(f"{name} owns it by the mapping file."),
            text(who),
            money and quiet("It is about spending, or about something paid for and unused."),
            Buttons((Button("All routes", "routes"),)),
        ),
        {
            "alerts": conditions,
            "to": list(heard),
            "escalate": list(escalated),
            "owner": address,
            "owner_name": name,
        },
    )


def trial_card(conditions: str) -> Card:
    """Say in a channel that an alert would come here, and ask whoever sees it for a press."""
    return Card(
        "Test of trnbot's alerts",
        Tone.INFO,
        compose(
            text("This is a test: nothing is wrong, and there is nothing to do."),
            text(
                f"An alert of {conditions} would come here." if conditions else "Alerts come here."
            ),
            Buttons((Button("I see it", SEEN),)),
        ),
        {"test": True},
        public=True,
    )


def seen_card(name: str) -> Card:
    """Say who has seen the test."""
    who = name or "Somebody"
    return Card(
        f"{who} has seen the test", Tone.GOOD, (), {"test": True, "seen_by": who}, public=True
    )


def subscribed_card(channel: str, routes: Sequence[Route]) -> Card:
    """Confirm which alerts a channel hears from the next look at the fleet on."""
    listed = [str(route) for route in routes]
    title = "This channel has no subscriptions"
    note = "Alerts that were already sent here are still updated until they end. "
    if routes:
        title, note = (
            f"This channel is notified of {'; '.join(listed)}",
            "It begins with the next tick, and 'unsubscribe' ends it. ",
        )

    return Card(
        title,
        Tone.GOOD,
        (quiet(note, "This channel is ", channel, "."),),
        {"channel": channel, "routes": listed},
    )


SEEN = "routes seen"
_ASKED = "labels of the alert: cluster=llama cause=idle severity=critical"


@command(
    "routes",
    "Which channels are notified of which alerts.",
    needs=Needs.STATE,
    examples=("routes",),
)
def routes(ports: Ports, request: Request) -> Card:
    """List every route, the default, the second audience and the escalation."""
    return routes_card(
        routes_now(ports.site.current_routes(), ports.stores.documents), ports.site.channels
    )


@command(
    "routes test",
    "Where an alert with given labels would go.",
    needs=Needs.STATE,
    may=Needs.METRICS,
    examples=("routes test cluster=llama cause=idle severity=critical",),
)
async def routes_test(
    ports: Ports,
    request: Request,
    owner: str = arg("", "the owner's name as in the tags", keyword=True),
    launcher: str = arg("", "who launched it, as CloudTrail names them", keyword=True),
    node_group: str = arg("", "the node group, as the mapping file may name it", keyword=True),
    where: tuple[Filter, ...] = arg("", _ASKED),
) -> Card:
    """Route an alert that does not exist, by the very function of the watch."""
    table = await asyncio.to_thread(routes_now, ports.site.current_routes(), ports.stores.documents)
    tried = _wanted_route(where)
    mapped = "" if owner else table.mapping.owner([dict(tried.selector) | {NODE_GROUP: node_group}])
    cause, severity = Cause(tried.cause or Cause.IDLE), Severity(tried.severity or Severity.WARNING)
    labels, moment = tried.selector, Window(request.at, request.at)
    # An alert that never was, with no more than what routes ask for.
    anomaly = Anomaly(
        cause.value, cause, labels, labels, (), moment, 1.0, 0.0, "ratio", severity=severity
    )
    claims = {"namespace": labels.namespace, "launcher": launcher}
    alert = Alert(
        "",
        anomaly,
        request.at,
        request.at,
        owner=owner or mapped,
        claims=tuple(f"{kind}:{claim}" for kind, claim in claims.items() if claim),
    )
    name = next((candidate for candidate in alert.owners if table.owner(candidate)), alert.owner)

    return await noting_unseen(
        tried_card(
            str(tried),
            distinct([*ports.site.channels, *route(alert, table)]),
            table.escalate if alert.severity is Severity.CRITICAL else (),
            (name, table.owner(name), bool(mapped)),
            money=bool(table.finops_of(alert.cause)),
        ),
        ports,
        request,
        tried.selector,
    )


@command(
    SEEN,
    "Confirm that a test alert has arrived.",
    needs=Needs.NOTHING,
    examples=(SEEN,),
    hidden=True,
    changes=True,
)
async def routes_seen(ports: Ports, request: Request) -> Card:
    """Tell the channel who has seen a test."""
    return seen_card(request.user.name)


@command(
    "subscribe",
    "Notify this channel of alerts: all, or those with some labels.",
    needs=Needs.STATE,
    may=Needs.METRICS,
    examples=("subscribe", "subscribe cluster=llama severity=critical"),
    who=Role.ADMIN,
    changes=True,
)
async def subscribe_(
    ports: Ports, request: Request, where: tuple[Filter, ...] = arg("", _ASKED)
) -> Card:
    """Add a subscription of the channel where it is typed.

    It holds from the next look at the fleet on.
    """
    channel = _here(request)
    subscription = replace(_wanted_route(where), to=(channel,), by=request.user.id)
    standing = await asyncio.to_thread(subscriptions, ports.stores.documents, channel)
    if str(subscription) in map(str, standing):
        raise WrongInput(f"This channel is already notified of {subscription}.")
    await asyncio.to_thread(subscribe, ports.stores.documents, channel, (*standing, subscription))

    return await noting_unseen(
        subscribed_card(channel, (*standing, subscription)), ports, request, subscription.selector
    )


@command(
    "unsubscribe",
    "End this channel's subscriptions: all, or one of them.",
    needs=Needs.STATE,
    examples=("unsubscribe", "unsubscribe cluster=llama severity=critical"),
    who=Role.ADMIN,
    changes=True,
)
def unsubscribe(
    ports: Ports, request: Request, where: tuple[Filter, ...] = arg("", _ASKED)
) -> Card:
    """Drop subscriptions; an alert that was told here already is still told to its end."""
    channel = _here(request)
    standing = subscriptions(ports.stores.documents, channel)
    unwanted = str(_wanted_route(where))
    # Without conditions all of them end.
    remaining = tuple(entry for entry in standing if where and str(entry) != unwanted)
    if len(remaining) == len(standing):
        current = ", ".join(map(str, standing)) or "nothing"
        raise WrongInput(
            f"This channel's subscriptions: {current}; routes from the settings can only be"
            " changed there."
        )

    subscribe(ports.stores.documents, channel, remaining)

    return subscribed_card(channel, remaining)


def _here(request: Request) -> str:
    if not request.channel:
        raise WrongInput("To subscribe a channel, type this line in it.")
    return request.channel


def _wanted_route(where: tuple[Filter, ...]) -> Route:
    if odd := next((pair for pair in where if pair.negated or len(pair.values) != 1), None):
        raise WrongInput(f"'{odd}' has more than one value; write {odd.dimension}=VALUE.")
    return route_of([(pair.dimension, pair.values[0]) for pair in where], ())
