"""Answer who hears which alerts, and let a channel subscribe."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from bot.alerts.route import MONEY, route
from bot.cards.card import Card
from bot.cards.routes import routes_card, subscribed_card, tried_card
from bot.commands.registry import arg, command
from bot.errors import WrongInput
from bot.model.alert import Alert
from bot.model.anomaly import Anomaly, Cause, Severity
from bot.model.request import Request, Role
from bot.model.route import Route
from bot.model.spend import Filter
from bot.model.window import Window
from bot.ports import Ports
from bot.routes import route_of, routes_now, subscribe, subscriptions

_ASKED = "what is asked for: cluster=llama cause=idle severity=critical"


@command("routes", "Which channels hear which alerts.", examples=("routes",))
async def routes(ports: Ports, request: Request) -> Card:
    """List every route, the default, the second audience and the escalation."""
    found = await asyncio.to_thread(routes_now, ports.routes, ports.shelf)
    return routes_card(found, ports.channels)


@command(
    "routes test",
    "Where an alert with given labels would go.",
    examples=("routes test cluster=llama cause=idle severity=critical",),
)
async def routes_test(
    ports: Ports,
    request: Request,
    owner: str = arg("", "the owner's name as tags give it", keyword=True),
    launcher: str = arg("", "who launched it, as CloudTrail names them", keyword=True),
    where: tuple[Filter, ...] = arg("", _ASKED),
) -> Card:
    """Route an alert that does not exist, by the very function of the watch."""
    found = await asyncio.to_thread(routes_now, ports.routes, ports.shelf)
    tried = _asked(where)
    alert = _imagined(tried, owner, launcher, request)
    heard = (*ports.channels, *route(alert, found))
    escalated = found.escalate if alert.severity is Severity.CRITICAL else ()
    name = next((one for one in alert.owners if found.owner(one)), owner)
    return tried_card(str(tried), heard, escalated, (name, found.owner(name)), money=alert.cause in MONEY)


@command(
    "subscribe",
    "Let this channel hear alerts, all or those with some labels.",
    examples=("subscribe", "subscribe cluster=llama severity=critical"),
    who=Role.ADMIN,
    changes=True,
)
async def subscribe_(ports: Ports, request: Request, where: tuple[Filter, ...] = arg("", _ASKED)) -> Card:
    """Add a subscription of the channel where it is typed; it holds from the next look at the fleet on."""
    channel = _here(request)
    wanted = replace(_asked(where), to=(channel,), by=request.user.id)
    standing = await asyncio.to_thread(subscriptions, ports.shelf, channel)
    if any(str(one) == str(wanted) for one in standing):
        raise WrongInput(f"This channel hears {wanted} already.")
    await asyncio.to_thread(subscribe, ports.shelf, channel, (*standing, wanted))
    return subscribed_card(channel, (*standing, wanted))


@command(
    "unsubscribe",
    "Take back what this channel subscribed to, all or one of it.",
    examples=("unsubscribe", "unsubscribe cluster=llama severity=critical"),
    who=Role.ADMIN,
    changes=True,
)
async def unsubscribe(ports: Ports, request: Request, where: tuple[Filter, ...] = arg("", _ASKED)) -> Card:
    """Drop subscriptions; what was told here already is still told to its end."""
    channel = _here(request)
    standing = await asyncio.to_thread(subscriptions, ports.shelf, channel)
    unwanted = str(_asked(where))
    kept = tuple(one for one in standing if where and str(one) != unwanted)
    if len(kept) == len(standing):
        known = ", ".join(map(str, standing)) or "nothing"
        raise WrongInput(f"This channel subscribed to {known}; a route of the settings is changed there.")
    await asyncio.to_thread(subscribe, ports.shelf, channel, kept)
    return subscribed_card(channel, kept)


def _here(request: Request) -> str:
    if not request.channel:
        raise WrongInput("A channel is subscribed from within it; type this line there.")
    return request.channel


def _asked(where: tuple[Filter, ...]) -> Route:
    for one in where:
        if one.negated or len(one.values) != 1:
            raise WrongInput(f"'{one}' asks for more than one value; write {one.dimension}=VALUE.")
    return route_of([(one.dimension, one.values[0]) for one in where], ())


def _imagined(asked: Route, owner: str, launcher: str, request: Request) -> Alert:
    cause, severity = Cause(asked.cause or Cause.IDLE), Severity(asked.severity or Severity.WARNING)
    labels, moment = asked.selector, Window(request.at, request.at)
    anomaly = Anomaly(cause.value, cause, labels, labels, (), moment, 1.0, 0.0, "ratio", severity=severity)
    claims = (("namespace", labels.namespace), ("launcher", launcher))
    found = tuple(f"{kind}:{name}" for kind, name in claims if name)
    return Alert("", anomaly, request.at, request.at, owner=owner, claims=found)
