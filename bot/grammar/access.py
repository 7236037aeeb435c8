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
        """Raise `NotAllowed`, with nothing of the bot's data in it, for who does not belong here."""
        if belonging.standing is Standing.STRANGER and not belonging.organization:
            raise NotAllowed(
                "The bot cannot tell which organization you belong to; nothing was read or changed. Try again."
            )
        if belonging.standing is Standing.STRANGER:
            raise NotAllowed(NOT_SERVED)
        if belonging.standing is Standing.GUEST and not self.guests:
            raise NotAllowed("This bot does not answer guests; ask a member of the organization.")

    async def check(
        self, read: CommandLine, request: Request, people: Mapping[str, People]
    ) -> None:
        """Raise `NotAllowed` where this person may not run this line here, or where nobody asked for more than to read."""
        if read.shared and request.belonging.shared:
            raise NotAllowed(
                "People of another organization may read this channel, so nothing is shared here; it stays with you."
            )
        if request.manner is Manner.VIEWED and read.effect is not Effect.READS:
            raise NotAllowed(
                f"'{read.command.name}' waits for a person to press it; a link does no more than read."
            )
        kept = next(
            (each for each in (read, read.carried) if each and each.runs.who is Role.ADMIN), None
        )
        if kept is None or await self.role(request.user.id, people) is Role.ADMIN:
            return
        raise self._refusal(kept.command.name, request.user.id)

    def _refusal(self, name: str, user: str) -> NotAllowed:
        """Name an admin of the person's own platform; ids help only where nobody is an admin yet."""
        if not self.admins:
            return NotAllowed(
                f"'{name}' is for admins, and nobody is one yet: set TRNBOT_ADMINS, for example to {user}, who you are."
            )
        platform = f"{user.partition(':')[0]}:"
        return NotAllowed(
            f"'{name}' is for admins.",
            next((one for one in self.admins if one.startswith(platform)), ""),
        )

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
        groups = {
            one.removeprefix(f"{platform}:")
            for one in self.admins
            if one.startswith(f"{platform}:")
        }
        failed: Unavailable | None = None
        for group in sorted(groups):
            try:
                if await people[platform].belongs(person, group):
                    return Role.ADMIN
            except Unavailable as error:
                failed = error
        if failed:
            raise failed
        return Role.ANYONE
