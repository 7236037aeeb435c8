"""Answer who hears which alerts, and let a channel subscribe."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from bot.cards.card import Block, Button, Buttons, Card, Heading, Table, Text, Tone, quiet, text
from bot.errors import WrongInput
from bot.grammar.names import noting_unseen
from bot.grammar.registry import Needs, arg, command
from bot.model.alert import Alert
from bot.model.anomaly import Anomaly
from bot.model.causes import Cause, Severity
from bot.model.money import counted
from bot.model.request import Request, Role
from bot.model.route import NODE_GROUP, OwnerRule, Route, Routes, distinct
from bot.model.spend import Filter
from bot.model.window import Window
from bot.ports import Ports
from bot.settings.routes import route_of, routes_now, subscribe, subscriptions
from bot.watch.route import route

_COLUMNS = (Heading("alerts"), Heading("go to"), Heading("because"))
_MOST, _FEW = 20, 6


def routes_card(routes: Routes, always: Sequence[str]) -> Card:
    """List every route in the order in which a person asks: mine, the rest, and the second ones."""
    rows = [
        (str(entry), ", ".join(entry.to), f"{entry.by} subscribed" if entry.by else "settings")
        for entry in routes.routes
    ]
    beside = (
        ("alerts that match no route or have no known owner", routes.default, "TRNBOT_ROUTE"),
        (_finops_words(routes), routes.finops, "TRNBOT_FINOPS"),
        ("critical alerts not acknowledged in time", routes.escalate, "TRNBOT_ESCALATE"),
        ("every alert", always, "the console"),
    )
    mapped = [(f"alerts of {name}", to) for name, to in sorted(routes.mapping.channels.items())]
    rows += [(what, ", ".join(to), "mapping file") for what, to in mapped]
    shown = [*rows[:_MOST], *((what, ", ".join(to), why) for what, to, why in beside if to)]
    rest = f"and {len(rows) - _MOST} more routes" if len(rows) > _MOST else ""
    known = sorted({*routes.owners, *routes.mapping.people})
    owners = [quiet("Owners with an address: ", ", ".join(known))] if known else []
    owners += [_mapped_text(routes.mapping.rules)] if routes.mapping.rules else []
    hint = quiet(
        "To subscribe a channel, type in it: subscribe cluster=llama. To test a route: routes test cluster=llama cause=idle"
    )
    blocks: tuple[Block, ...] = (Table(_COLUMNS, tuple(shown), rest=rest), *owners, hint)
    data = {
        "routes": [
            {"alerts": str(entry), "to": list(entry.to), "by": entry.by} for entry in routes.routes
        ],
        "default": list(routes.default),
        "finops": list(routes.finops),
        "escalate": list(routes.escalate),
        "always": list(always),
        "owners": [
            {"owner": rule.owner, "where": {name: list(patterns) for name, patterns in rule.where}}
            for rule in routes.mapping.rules
        ],
    }
    return Card("Who is notified of which alerts", Tone.INFO, blocks, data)


def _mapped_text(rules: Sequence[OwnerRule]) -> Text:
    """List the first rules of the mapping file in their order."""
    listed = "; ".join(f"{rule.owner} has {_patterns(rule)}" for rule in rules[:_FEW])
    more = f"; and {counted(len(rules) - _FEW, 'more rule')}" if len(rules) > _FEW else ""
    return quiet(f"By the mapping file, the first that fits: {listed}{more}.")


def _patterns(rule: OwnerRule) -> str:
    return " ".join(f"{name}={','.join(patterns)}" for name, patterns in rule.where)


def _finops_words(routes: Routes) -> str:
    """Say which causes the second audience hears of."""
    if routes.finops_causes:
        return f"{', '.join(cause.facts.words for cause in routes.finops_causes)}, in addition"
    return "money, and what is bought or kept for nothing, in addition"


def tried_card(
    conditions: str,
    heard: Sequence[str],
    escalated: Sequence[str],
    owner: tuple[str, str],
    *,
    by_file: bool,
    money: bool,
) -> Card:
    """Tell where an alert would go.

    The owner is a name and an address, found `by_file` where the mapping file names it.
    """
    name, address = owner
    who = (
        f"{name} is {address} and is mentioned."
        if address
        else f"'{name}' has no known address, so nobody is mentioned."
    )
    blocks = [text("It goes to ", ", ".join(heard), ".")]
    blocks += (
        [text(f"If nobody acknowledges it in time, it also goes to {', '.join(escalated)}.")]
        if escalated
        else []
    )
    blocks += [text(f"{name} owns it by the mapping file.")] if by_file else []
    blocks += [
        text(
            who
            if name
            else "Without an owner it also goes to the default channel; test one with owner=NAME."
        )
    ]
    blocks += (
        [quiet("It is about money, or about what is bought or kept for nothing.")] if money else []
    )
    data = {
        "alerts": conditions,
        "to": list(heard),
        "escalate": list(escalated),
        "owner": address,
        "owner_name": name,
    }
    return Card(
        f"Where it would go: {conditions}",
        Tone.INFO,
        (*blocks, Buttons((Button("All routes", "routes"),))),
        data,
    )


def subscribed_card(channel: str, routes: Sequence[Route]) -> Card:
    """Confirm which alerts a channel hears from the next look at the fleet on."""
    words = "; ".join(map(str, routes))
    title = (
        f"This channel is notified of {words}" if routes else "This channel has no subscriptions"
    )
    note = (
        "From the next tick on. "
        if routes
        else "Alerts that were already sent here are still updated until they end. "
    )
    return Card(
        title,
        Tone.GOOD,
        (quiet(note, channel),),
        {"channel": channel, "routes": [str(each) for each in routes]},
    )


_ASKED = "labels of the alert: cluster=llama cause=idle severity=critical"


@command(
    "routes",
    "Which channels are notified of which alerts.",
    needs=Needs.STATE,
    examples=("routes",),
)
async def routes(ports: Ports, request: Request) -> Card:
    """List every route, the default, the second audience and the escalation."""
    table = await asyncio.to_thread(routes_now, ports.site.current_routes(), ports.stores.documents)
    return routes_card(table, ports.site.channels)


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
    alert = _imagined(tried, owner or mapped, launcher, request)
    heard = distinct([*ports.site.channels, *route(alert, table)])
    escalated = table.escalate if alert.severity is Severity.CRITICAL else ()
    name = next((candidate for candidate in alert.owners if table.owner(candidate)), alert.owner)
    money = bool(table.finops_of(alert.cause))
    card = tried_card(
        str(tried), heard, escalated, (name, table.owner(name)), by_file=bool(mapped), money=money
    )
    return await noting_unseen(card, ports, request, tried.selector)


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
    wanted = replace(_wanted_route(where), to=(channel,), by=request.user.id)
    standing = await asyncio.to_thread(subscriptions, ports.stores.documents, channel)
    if any(str(each) == str(wanted) for each in standing):
        raise WrongInput(f"This channel is already notified of {wanted}.")
    await asyncio.to_thread(subscribe, ports.stores.documents, channel, (*standing, wanted))
    return await noting_unseen(
        subscribed_card(channel, (*standing, wanted)), ports, request, wanted.selector
    )


@command(
    "unsubscribe",
    "End this channel's subscriptions: all, or one of them.",
    needs=Needs.STATE,
    examples=("unsubscribe", "unsubscribe cluster=llama severity=critical"),
    who=Role.ADMIN,
    changes=True,
)
async def unsubscribe(
    ports: Ports, request: Request, where: tuple[Filter, ...] = arg("", _ASKED)
) -> Card:
    """Drop subscriptions; an alert that was told here already is still told to its end."""
    channel = _here(request)
    standing = await asyncio.to_thread(subscriptions, ports.stores.documents, channel)
    unwanted = str(_wanted_route(where))
    remaining = tuple(each for each in standing if where and str(each) != unwanted)
    if len(remaining) == len(standing):
        current = ", ".join(map(str, standing)) or "nothing"
        raise WrongInput(
            f"This channel's subscriptions: {current}; routes from the settings can only be changed there."
        )
    await asyncio.to_thread(subscribe, ports.stores.documents, channel, remaining)
    return subscribed_card(channel, remaining)


def _here(request: Request) -> str:
    if not request.channel:
        raise WrongInput("To subscribe a channel, type this line in it.")
    return request.channel


def _wanted_route(where: tuple[Filter, ...]) -> Route:
    for pair in where:
        if pair.negated or len(pair.values) != 1:
            raise WrongInput(
                f"'{pair}' asks for more than one value; write {pair.dimension}=VALUE."
            )
    return route_of([(pair.dimension, pair.values[0]) for pair in where], ())


def _imagined(wanted: Route, owner: str, launcher: str, request: Request) -> Alert:
    cause, severity = (
        Cause(wanted.cause or Cause.IDLE),
        Severity(wanted.severity or Severity.WARNING),
    )
    labels, moment = wanted.selector, Window(request.at, request.at)
    anomaly = Anomaly(
        cause.value, cause, labels, labels, (), moment, 1.0, 0.0, "ratio", severity=severity
    )
    claims = (("namespace", labels.namespace), ("launcher", launcher))
    owners = tuple(f"{kind}:{name}" for kind, name in claims if name)
    return Alert("", anomaly, request.at, request.at, owner=owner, claims=owners)
