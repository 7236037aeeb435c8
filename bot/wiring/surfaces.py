"""Join settings and the chat platforms.

The surfaces that are configured, and the commands that they announce.
"""

from __future__ import annotations

from typing import Protocol

from adapters.chat.config import SlackConfig, TeamsConfig, TeamsSdk
from bot.answers.alerts.alerts import WHICH
from bot.grammar.registry import Command, Topic, commands_by_name
from bot.model.notification import Delays
from bot.model.spend import Filter
from bot.ports import ChatPorts, CommandHint, Listener, People, Surface, Tell
from bot.settings.settings import Settings


class ChatSurface(Surface, Listener, People, Protocol):
    """Post to people, listen to them, and know their groups, on one chat platform."""

    @property
    def delays(self) -> Delays:
        """Return how long the platform makes messages wait."""
        ...


def chats(settings: Settings, ports: ChatPorts, tell: Tell) -> dict[str, ChatSurface]:
    """Return the chat surfaces that are configured, by name."""
    # Each platform's library loads only where it is configured.
    surfaces: dict[str, ChatSurface] = {}
    if settings.slack:
        from adapters.chat.slack.surface import SlackSurface

        surfaces["slack"] = SlackSurface(slack_config(settings), ports)
    if settings.teams:
        from adapters.chat.teams.surface import TeamsSurface

        surfaces["teams"] = TeamsSurface(teams_config(settings), ports, tell)
    return surfaces


def slack_config(settings: Settings) -> SlackConfig:
    """Return the configuration of the Slack app."""
    return SlackConfig(
        bot_token=settings.text("slack.bot_token"),
        app_token=settings.text("slack.app_token"),
        signing_secret=settings.text("slack.signing_secret"),
        api_url=settings.text("slack.api_url"),
        client_id=settings.text("slack.client_id"),
        client_secret=settings.text("slack.client_secret"),
        workspaces=tuple(settings["slack.workspaces"]),
        public_url=settings["public_url"],
    )


def teams_config(settings: Settings) -> TeamsConfig:
    """Return the configuration of the Teams app."""
    return TeamsConfig(
        app_id=settings.text("teams.app_id"),
        app_password=settings.text("teams.app_password"),
        tenant_id=settings.text("teams.tenant_id"),
        development=settings["teams.development"],
        tenants=tuple(settings["teams.tenants"]),
        sdk=TeamsSdk(settings["teams.sdk"]),
    )


def command_hints() -> tuple[CommandHint, ...]:
    """Return every command that people type, for hints and manifests."""
    hints = []
    for command in commands_by_name():
        # Outside of an alert's thread the alert must be named.
        needed = any(
            parameter.arg.default is None or parameter.arg.meaning == WHICH.meaning
            for parameter in command.parameters
        )
        hint = CommandHint(
            command.name,
            command.summary,
            command.examples[0],
            command.changes,
            command.topic.value,
            list(Topic).index(command.topic),
            needed,
            command.examples,
            tuple(arguments_of(command)),
        )
        hints.append(hint)
    return tuple(hints)


def arguments_of(command: Command) -> list[tuple[str, str]]:
    """Return the words that may follow a command, each with its meaning.

    Its choices, then its arguments by name.
    """
    choices: list[tuple[str, str]] = []
    named: dict[str, str] = {}
    for parameter in command.parameters:
        described = parameter.arg
        words = filter(None, described.choices)
        if not described.keyword:
            choices += [(word, described.meaning) for word in words]
        if not described.rest and not parameter.takes(Filter):
            values = described.choices if described.keyword else ()
            for value in values or ("",):
                named[f"{parameter.word}={value}"] = described.meaning
    return [*choices, *named.items()]
