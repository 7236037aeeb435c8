"""Answer who hears which alerts, and let a channel subscribe."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from bot.answers.registry import Needs, arg, command
from bot.cards.card import Block, Button, Buttons, Card, Column, Table, Tone, quiet, text
from bot.errors import WrongInput
from bot.model.alert import Alert
from bot.model.anomaly import Anomaly
from bot.model.causes import Cause, Severity
from bot.model.request import Request, Role
from bot.model.route import Route, Routes
from bot.model.spend import Filter
from bot.model.window import Window
from bot.ports import Ports
from bot.settings.routes import route_of, routes_now, subscribe, subscriptions
from bot.watch.route import route

_COLUMNS = (Column("alerts"), Column("go to"), Column("because"))
_MOST = 20


def routes_card(routes: Routes, always: Sequence[str]) -> Card:
    """List every route in the order in which a person asks: mine, the rest, and the second ones."""
    rows = [(str(one), ", ".join(one.to), f"{one.by} subscribed" if one.by else "settings") for one in routes.routes]
    beside = (
        ("alerts that match no route or have no known owner", routes.default, "TRNBOT_ROUTE"),
        ("causes of money, in addition", routes.finops, "TRNBOT_FINOPS"),
        ("critical alerts not acknowledged in time", routes.escalate, "TRNBOT_ESCALATE"),
        ("every alert", always, "the console"),
    )
    shown = [*rows[:_MOST], *((what, ", ".join(to), why) for what, to, why in beside if to)]
    rest = f"and {len(rows) - _MOST} more routes" if len(rows) > _MOST else ""
    owners = [quiet("Owners with an address: ", ", ".join(sorted(routes.owners)))] if routes.owners else []
    hint = quiet(
        "To subscribe a channel, type in it: subscribe cluster=llama. To test a route: routes test cluster=llama cause=idle"
    )
    blocks: tuple[Block, ...] = (Table(_COLUMNS, tuple(shown), rest=rest), *owners, hint)
    data = {
        "routes": [{"alerts": str(one), "to": list(one.to), "by": one.by} for one in routes.routes],
        "default": list(routes.default),
        "finops": list(routes.finops),
        "escalate": list(routes.escalate),
        "always": list(always),
    }
    return Card("Who is notified of which alerts", Tone.INFO, blocks, data)


def tried_card(asked: str, heard: Sequence[str], escalated: Sequence[str], owner: tuple[str, str], *, money: bool) -> Card:
    """Tell where an alert would go."""
    name, address = owner
    who = f"{name} is {address} and is mentioned." if address else f"'{name}' has no known address, so nobody is mentioned."
    blocks = [text("It goes to ", ", ".join(heard), ".")]
    blocks += [text(f"If nobody acknowledges it in time, it also goes to {', '.join(escalated)}.")] if escalated else []
    blocks += [text(who if name else "Without an owner it also goes to the default channel; test one with owner=NAME.")]
    blocks += [quiet("It is a cause of money.")] if money else []
    data = {"alerts": asked, "to": list(heard), "escalate": list(escalated), "owner": address}
    return Card(f"Where it would go: {asked}", Tone.INFO, (*blocks, Buttons((Button("All routes", "routes"),))), data)


def subscribed_card(channel: str, routes: Sequence[Route]) -> Card:
    """Confirm which alerts a channel hears from the next look at the fleet on."""
    words = "; ".join(map(str, routes))
    title = f"This channel is notified of {words}" if routes else "This channel has no subscriptions"
    told = "From the next tick on. " if routes else "Alerts that were already sent here are still updated until they end. "
    return Card(title, Tone.GOOD, (quiet(told, channel),), {"channel": channel, "routes": [str(one) for one in routes]})


_ASKED = "labels of the alert: cluster=llama cause=idle severity=critical"


@command("routes", "Which channels are notified of which alerts.", needs=Needs.STATE, examples=("routes",))
async def routes(ports: Ports, request: Request) -> Card:
    """List every route, the default, the second audience and the escalation."""
    found = await asyncio.to_thread(routes_now, ports.site.routes, ports.stores.documents)
    return routes_card(found, ports.site.channels)


@command(
    "routes test",
    "Where an alert with given labels would go.",
    needs=Needs.STATE,
    examples=("routes test cluster=llama cause=idle severity=critical",),
)
async def routes_test(
    ports: Ports,
    request: Request,
    owner: str = arg("", "the owner's name as in the tags", keyword=True),
    launcher: str = arg("", "who launched it, as CloudTrail names them", keyword=True),
    where: tuple[Filter, ...] = arg("", _ASKED),
) -> Card:
    """Route an alert that does not exist, by the very function of the watch."""
    found = await asyncio.to_thread(routes_now, ports.site.routes, ports.stores.documents)
    tried = _asked(where)
    alert = _imagined(tried, owner, launcher, request)
    heard = (*ports.site.channels, *route(alert, found))
    escalated = found.escalate if alert.severity is Severity.CRITICAL else ()
    name = next((one for one in alert.owners if found.owner(one)), owner)
    return tried_card(str(tried), heard, escalated, (name, found.owner(name)), money=alert.cause.facts.is_bought)


@command(
    "subscribe",
    "Notify this channel of alerts: all, or those with some labels.",
    needs=Needs.STATE,
    examples=("subscribe", "subscribe cluster=llama severity=critical"),
    who=Role.ADMIN,
    changes=True,
)
async def subscribe_(ports: Ports, request: Request, where: tuple[Filter, ...] = arg("", _ASKED)) -> Card:
    """Add a subscription of the channel where it is typed; it holds from the next look at the fleet on."""
    channel = _here(request)
    wanted = replace(_asked(where), to=(channel,), by=request.user.id)
    standing = await asyncio.to_thread(subscriptions, ports.stores.documents, channel)
    if any(str(one) == str(wanted) for one in standing):
        raise WrongInput(f"This channel is already notified of {wanted}.")
    await asyncio.to_thread(subscribe, ports.stores.documents, channel, (*standing, wanted))
    return subscribed_card(channel, (*standing, wanted))


@command(
    "unsubscribe",
    "End this channel's subscriptions: all, or one of them.",
    needs=Needs.STATE,
    examples=("unsubscribe", "unsubscribe cluster=llama severity=critical"),
    who=Role.ADMIN,
    changes=True,
)
async def unsubscribe(ports: Ports, request: Request, where: tuple[Filter, ...] = arg("", _ASKED)) -> Card:
    """Drop subscriptions; an alert that was told here already is still told to its end."""
    channel = _here(request)
    standing = await asyncio.to_thread(subscriptions, ports.stores.documents, channel)
    unwanted = str(_asked(where))
    kept = tuple(one for one in standing if where and str(one) != unwanted)
    if len(kept) == len(standing):
        known = ", ".join(map(str, standing)) or "nothing"
        raise WrongInput(f"This channel's subscriptions: {known}; routes from the settings can only be changed there.")
    await asyncio.to_thread(subscribe, ports.stores.documents, channel, kept)
    return subscribed_card(channel, kept)


def _here(request: Request) -> str:
    if not request.channel:
        raise WrongInput("To subscribe a channel, type this line in it.")
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
