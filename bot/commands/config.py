"""Answer which settings apply, where they come from, who changed them, and as a file."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from bot.cards.card import Card
from bot.cards.config import SCOPES, chooser_card, config_card, export_card, form_card
from bot.cards.versions import history_card, version_card
from bot.commands.registry import arg, command
from bot.errors import TrnbotError, WrongInput, nearest
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.model.request import Request, Role
from bot.model.version import Version
from bot.policy.change import shown
from bot.policy.file import write_policy
from bot.policy.schema import SETTINGS
from bot.policy.setting import Setting
from bot.ports import Ports

FAMILIES = tuple(dict.fromkeys(key.partition(".")[0] for key in SETTINGS))
_LISTED = 100
_KNOWN = 90
"""Names of a scope offered to choose from; more are typed."""


@command(
    "config",
    "A form with the thresholds that apply, to change them; a preview comes first.",
    examples=("config", "config idle", "config idle cluster=llama"),
    who=Role.ADMIN,
)
async def config(
    ports: Ports,
    request: Request,
    rule: str = arg("", "the rule whose settings shall change; asks when left out"),
    cluster: str = arg("", "only for this cluster", keyword=True),
    team: str = arg("", "only for this team", keyword=True),
    account: str = arg("", "only for this account", keyword=True),
) -> Card:
    """Ask for the rule and scope, then for its values."""
    scope = Labels(cluster=cluster, team=team, account=account)
    chosen = settings_of(rule) if rule else []
    policy, newest = await asyncio.to_thread(_in_force, ports)
    if chosen:
        fitting = [s for s in chosen if s.scoped or not str(scope)]
        return form_card(rule, fitting or chosen, _values(policy, scope), scope if fitting else Labels())
    known = await asyncio.to_thread(scopes, ports, request)
    return chooser_card(FAMILIES, known, _changed(policy), newest)


@command(
    "config show",
    "Which thresholds apply, and why they stand so.",
    examples=("config show idle", "config show idle llama"),
)
async def config_show(
    ports: Ports,
    request: Request,
    rule: str = arg("", "only this rule's settings"),
    cluster: str = arg("", "as they apply to this cluster"),
    team: str = arg("", "as they apply to this team", keyword=True),
    account: str = arg("", "as they apply to this account", keyword=True),
) -> Card:
    """Show settings with value, default, bounds, meaning and source."""
    chosen = settings_of(rule) if rule else list(SETTINGS.values())
    scope = Labels(cluster=cluster, team=team, account=account)
    policy, newest = await asyncio.to_thread(_in_force, ports)
    return config_card(chosen, policy.at(scope), rule, scope, newest)


@command(
    "config export",
    "The policy in force as a TOML file, to be kept in git or read by 'backtest policy=FILE'.",
    examples=("config export", "config export changed"),
)
async def config_export(
    ports: Ports,
    request: Request,
    what: str = arg("all", "every setting, or what differs from the defaults", choices=("all", "changed")),
) -> Card:
    """Print the policy as `backtest policy=FILE` and `config import` read it."""
    policy, _ = await asyncio.to_thread(_in_force, ports)
    return export_card(write_policy(policy, every=what == "all"))


@command(
    "config history",
    "Who changed the policy, when, from what to what, and who was refused.",
    examples=("config history", "config history 3"),
)
async def config_history(
    ports: Ports, request: Request, number: int | None = arg("", "one version, with what its preview said")
) -> Card:
    """List versions, or show one."""
    versions = await asyncio.to_thread(ports.versions.versions, _LISTED)
    if number is None:
        return history_card(versions, await asyncio.to_thread(ports.versions.attempts, _LISTED))
    found = [version for version in versions if version.number == number]
    if not found:
        raise WrongInput(f"There is no version {number}{nearest(str(number), [str(v.number) for v in versions[:5]])}.")
    return version_card(found[0])


def settings_of(rule: str) -> list[Setting]:
    """Return the settings of a rule, or the one setting of that key; raise `WrongInput` with the nearest rule."""
    if rule not in FAMILIES and rule not in SETTINGS:
        raise WrongInput(f"'{rule}' has no settings{nearest(rule, FAMILIES)}.")
    return [s for key, s in SETTINGS.items() if key == rule or key.startswith(f"{rule}.")]


def scopes(ports: Ports, request: Request) -> Mapping[str, Sequence[str]]:
    """Return the clusters, teams and accounts that are seen now; none where the source cannot be read."""
    try:
        instances = ports.source.read(request.at).inventory.instances.values()
    except TrnbotError:
        return {}
    found = {name: sorted({one.labels.get(name) for one in instances} - {""}) for name in SCOPES}
    return {name: words for name, words in found.items() if len(words) <= _KNOWN}


def _in_force(ports: Ports) -> tuple[Policy, Version | None]:
    newest = ports.versions.versions(1)
    return ports.policy, newest[0] if newest else None


def _values(policy: Policy, scope: Labels) -> dict[str, str]:
    return {key: shown(policy, scope, key) for key in SETTINGS}


def _changed(policy: Policy) -> Sequence[tuple[str, ...]]:
    """Return what differs from the defaults: key, scope, value, default."""
    everywhere = [(s.key, "everywhere", s.show(policy.values[s.key]), s.show(s.default)) for s in SETTINGS.values()]
    scoped = [
        (key, str(scope), SETTINGS[key].show(value), SETTINGS[key].show(SETTINGS[key].default))
        for scope, key, value in policy.overrides
    ]
    return [row for row in everywhere if row[2] != row[3]] + scoped
