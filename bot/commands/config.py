"""Answer which settings apply, where they come from, and as a file."""

from __future__ import annotations

from bot.cards.card import Card
from bot.cards.config import config_card, export_card
from bot.commands.registry import arg, command
from bot.errors import WrongInput, nearest
from bot.model.labels import Labels
from bot.model.request import Request
from bot.policy.file import write_policy
from bot.policy.schema import SETTINGS
from bot.ports import Ports


@command(
    "config show",
    "Which thresholds apply, and why they stand so.",
    examples=("config show idle", "config show idle llama"),
    aliases=("config",),
)
async def config_show(
    ports: Ports,
    request: Request,
    rule: str = arg("", "only this rule's settings"),
    cluster: str = arg("", "as they apply to this cluster"),
) -> Card:
    """Show settings with value, default, bounds, meaning and source."""
    families = sorted({key.partition(".")[0] for key in SETTINGS})
    if rule and rule not in families and rule not in SETTINGS:
        raise WrongInput(f"'{rule}' has no settings{nearest(rule, families)}.")
    chosen = [s for key, s in SETTINGS.items() if not rule or key == rule or key.startswith(f"{rule}.")]
    return config_card(chosen, ports.policy.at(Labels(cluster=cluster)), rule, cluster)


@command("config export", "Every setting as a TOML file.", examples=("config export",))
async def config_export(ports: Ports, request: Request) -> Card:
    """Print the policy as `backtest policy=FILE` reads it."""
    return export_card(write_policy(ports.policy))
