"""Decide who may have a line answered.

By the organization, the kind of member, the role, and how the line came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bot.errors import NotAllowed, Unavailable
from bot.grammar.line import CommandLine
from bot.model.request import NOT_SERVED, Belonging, Effect, Manner, Request, Role, Standing
from bot.ports import People


@dataclass(frozen=True)
class Access:
    """Hold who may do what.

    The addresses of admins (people and groups), and whether guests are answered.
    """

    admins: tuple[str, ...] = ()
    guests: bool = False

    def admit(self, belonging: Belonging) -> None:
        """Raise `NotAllowed`, with none of the bot's data in it, for who does not belong here."""
        if belonging.standing is Standing.STRANGER and not belonging.organization:
            raise NotAllowed(
                "The bot cannot tell which organization you belong to; "
                "nothing was read or changed. Try again."
            )
        if belonging.standing is Standing.STRANGER:
            raise NotAllowed(NOT_SERVED)
        if belonging.standing is Standing.GUEST and not self.guests:
            raise NotAllowed("This bot does not answer guests; ask a member of the organization.")

    async def check(
        self, line: CommandLine, request: Request, people: Mapping[str, People]
    ) -> None:
        """Raise `NotAllowed` where this person may not run this line here.

        Also where nobody asked for more than to read.
        """
        if line.shared and request.belonging.shared:
            raise NotAllowed(
                "People of another organization may read this channel, "
                "so nothing is shared here; it stays with you."
            )
        if request.manner is Manner.VIEWED and line.effect is not Effect.READS:
            raise NotAllowed(
                f"'{line.command.name}' waits for a person to press it; a link can only read."
            )

        role, user = request.user.role, request.user.id
        if role is Role.READER and line.effect in (Effect.CHANGES, Effect.SHARES):
            raise NotAllowed(
                f"You may read here, and '{line.command.name}' does more;"
                " an admin gives roles in TRNBOT_WEB_ROLES."
            )

        lines = [part for part in (line, line.carried) if part and part.runs.who is Role.ADMIN]
        if not lines or Role.ADMIN in (role, await self.role(user, people)):
            return
        name = lines[0].command.name
        if not self.admins:
            # Ids help only where nobody is an admin yet.
            raise NotAllowed(
                f"'{name}' is for admins, and nobody is an admin yet: set TRNBOT_ADMINS, for"
                f" example to {user}, which is you."
            )
        platform = f"{user.partition(':')[0]}:"
        admins = [address for address in self.admins if address.startswith(platform)]
        raise NotAllowed(f"'{name}' is for admins.", admins[0] if admins else "")

    async def role(self, user: str, people: Mapping[str, People]) -> Role:
        """Return the role of a person.

        Admins are listed by themselves, or by a group of their platform that they are in.

        Raises `Unavailable` when the platform must be asked and does not tell.
        """
        if user in self.admins:
            return Role.ADMIN
        platform, _, person = user.partition(":")
        if platform not in people:
            return Role.ANYONE
        prefix = f"{platform}:"
        groups = {name.removeprefix(prefix) for name in self.admins if name.startswith(prefix)}

        # A group that cannot be asked matters only where no group after it answers yes.
        unanswered: Unavailable | None = None
        for group in sorted(groups):
            try:
                if await people[platform].belongs(person, group):
                    return Role.ADMIN
            except Unavailable as error:
                unanswered = error
        if unanswered:
            raise unanswered
        return Role.ANYONE
