"""Tell to which organization people belong, who is in which group, and who reads a channel.

Slack is asked once in a while.

Sources: docs.slack.dev, apis/slack-connect and reference/objects/user-object; read 2026-11-22. A
payload says something of its sender too, but not in every kind of payload and not always of the
person: `users.info` decides.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.chat.slack.auth import address_prefix
from adapters.chat.slack.client import code_of, explained, log
from adapters.chat.slack.forms import Claim, Requester
from adapters.chat.slack.markup import one_line
from adapters.chat.work import Monotonic, Recent
from bot.errors import Unavailable
from bot.model.request import Belonging, Standing

ADMINS = "admins"
"""Names the admins and owners of the workspace, where the id of a user group could stand."""
FRESH_S = 300.0
PERSON_FRESH_S = 3_600.0
CHANNEL_FRESH_S = 300.0
_AGAIN_AFTER_S = 60.0
"""After a failure, the last answer is used for so long before Slack is asked again."""
_ASKED_WITHIN_S = 5.0
_MOST_NOTES = 10_000
_NOBODY = frozenset({"user_not_found", "users_not_found", "user_not_visible"})
_OPEN = (
    "is_ext_shared",
    "is_pending_ext_shared",
    "pending_shared",
    "pending_connected_team_ids",
)
"""Marks of a channel that another organization is in, or is invited to."""
_GROUP = re.compile(r"S[A-Z0-9]+")
T = TypeVar("T")


class Members:
    """Ask one workspace who is in what, and remember the answer for `FRESH_S`."""

    def __init__(self, client: AsyncWebClient, monotonic: Monotonic = time.monotonic) -> None:
        self._client = client
        self._answers = Recent[frozenset[str]](monotonic)

    async def belongs(self, user: str, group: str) -> bool:
        """Return whether a person is in a user group (`S0123`) or one of `admins`.

        Raise `Unavailable` when Slack fails.
        """
        if not (group == ADMINS or _GROUP.fullmatch(group)):
            return False

        key = f"{ADMINS} {user}" if group == ADMINS else group
        async with explained():
            return user in await self._answers.of(key, FRESH_S, lambda: self._members(user, group))

    async def _members(self, user: str, group: str) -> frozenset[str]:
        """Return the people of a user group; of the admins the person alone, where they are one."""
        if group != ADMINS:
            answer: Any = await self._client.usergroups_users_list(usergroup=group)
            return frozenset(map(str, answer.get("users") or ()))
        profile = (await self._client.users_info(user=user)).get("user") or {}
        leads = profile.get("is_admin") or profile.get("is_owner")
        return frozenset({user} if leads and not profile.get("deleted") else ())


class Answers(Generic[T]):
    """Keep Slack's answers for a while; one stays valid while Slack gives no newer one."""

    def __init__(self, fresh_s: float, monotonic: Monotonic) -> None:
        self._fresh_s = fresh_s
        self.recent = Recent[T](monotonic)
        self._asking: dict[str, asyncio.Task[T]] = {}

    async def of(self, key: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the answer, asked for once however many want it.

        Raise `Unavailable` where Slack fails and never gave one.
        """
        fresh = self.recent.get(key, self._fresh_s)
        if fresh is not None:
            return fresh

        if key not in self._asking:
            self._asking[key] = asyncio.create_task(self._ask(key, ask))
            self._asking[key].add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            return await asyncio.shield(self._asking[key])
        except Unavailable:
            last = self.recent.get(key)
            if last is None:
                raise
            self.recent.put(key, last, age_s=self._fresh_s - _AGAIN_AFTER_S)
            return last

    async def _ask(self, key: str, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            async with explained(), asyncio.timeout(_ASKED_WITHIN_S):
                answer = await ask()
            self.recent.put(key, answer)
        finally:
            del self._asking[key]
        return answer


@dataclass(frozen=True)
class Home:
    """Hold where the app is installed.

    A workspace, or with `enterprise` every workspace of that organization.
    """

    team: str
    enterprise: str = ""


@dataclass(frozen=True)
class Profile:
    """Hold what Slack tells of a person; without teams, Slack knows nobody by that id here."""

    name: str = ""
    teams: tuple[str, ...] = ()
    """The person's own workspace first, others of the same organization, and the organization."""
    guest: bool = False
    active: bool = True
    """A person, and not deactivated."""
    email: str = ""
    """"" unless the app may read it (`users:read.email`)."""

    @staticmethod
    def of(user: dict[str, Any]) -> Profile:
        """Return the profile of a user object.

        Raise `Unavailable` for one that does not name its workspace.
        """
        team = str(user.get("team_id") or "")
        if not team:
            raise Unavailable("Slack did not say which workspace a person is of.")

        grid = user.get("enterprise_user") or {}
        teams = (team, *map(str, grid.get("teams") or ()), str(grid.get("enterprise_id") or ""))
        return Profile(
            one_line(str(user.get("name") or ""))[:100],
            tuple(filter(None, teams)),
            guest=bool(user.get("is_restricted") or user.get("is_ultra_restricted")),
            active=not (user.get("deleted") or user.get("is_bot") or user.get("is_stranger")),
            email=str((user.get("profile") or {}).get("email") or "").lower(),
        )


class Belongings:
    """Judge who asks one workspace's bot, and who reads its channels.

    `served` lists the workspaces whose members are served beside those of the workspace itself.
    """

    def __init__(
        self,
        client: AsyncWebClient,
        home: str = "",
        prefix: str = "",
        served: Sequence[str] = (),
        monotonic: Monotonic = time.monotonic,
    ) -> None:
        self._client, self._prefix, self._served = client, prefix, tuple(served)
        self._named = Home(home) if home else None
        self._homes = Answers[Home](PERSON_FRESH_S, monotonic)
        self._people = Answers[Profile](PERSON_FRESH_S, monotonic)
        self._channels = Answers[bool](CHANNEL_FRESH_S, monotonic)
        self._notes: set[str] = set()
        self._routes = Recent[bool](monotonic)

    async def requester(self, claim: Claim) -> Requester:
        """Return who asks, with how they belong; whoever cannot be told is a stranger."""
        (belonging, profile), shared = await asyncio.gather(
            self._judge(claim), self.shared(claim.channel, claim.shared)
        )

        # A person of another workspace never gets the address of somebody here.
        prefix = self._prefix
        if belonging.organization:
            home = await self._home()
            if belonging.organization not in (home.team, home.enterprise):
                prefix = address_prefix(belonging.organization, self._served)
        return Requester(
            **{**vars(claim), "name": claim.name or profile.name},
            belonging=replace(belonging, shared=shared),
            address=f"slack:{prefix}{claim.user}",
            email=profile.email,
        )

    async def name(self, user: str) -> str:
        """Return the name of a person who belongs here, "" for a bot, a stranger or nobody.

        Raise `Unavailable`.
        """
        profile = await self._profile(user)
        belonging = _belonging(profile, await self._home(), self._served)
        return "" if belonging.standing is Standing.STRANGER else profile.name or user

    async def shared(self, channel: str, stated: bool | None = None) -> bool:
        """Return whether people of other organizations may read a channel, or nobody can tell.

        `stated` is what the event says of it.
        """
        if not channel or channel.startswith("D"):
            return False
        try:
            shared = await self._channels.of(channel, lambda: self._ask_channel(channel))
        except Unavailable as error:
            self._note(
                "It is not known who reads a Slack channel, so what is not certain stays private:"
                f" {error}"
            )
            return stated is not False
        return shared or stated is True

    async def warn_of_readers(self, channel: str) -> None:
        """Log once that a channel which alerts are routed to is read by another organization.

        Slack is asked once an hour.
        """
        if not channel.startswith(("C", "G")) or self._routes.get(channel, PERSON_FRESH_S):
            return
        self._routes.put(channel, value=True)
        if await self.shared(channel, stated=False):
            self._note(
                f"Slack channel {channel} gets alerts and is open to another organization,"
                " which reads them."
            )

    async def _judge(self, claim: Claim) -> tuple[Belonging, Profile]:
        """Return how a person belongs, and what Slack tells of them."""
        try:
            home = await self._home()
            profile = await self._profile(claim.user)
        except Unavailable as error:
            self._note(f"It is not known which organization a person belongs to: {error}")
            return Belonging("", Standing.STRANGER), Profile()
        return _belonging(profile, home, self._served, claim.team), profile

    async def _home(self) -> Home:
        async def ask() -> Home:
            answer: Any = await self._client.auth_test()
            team = str(answer.get("team_id") or "")
            if not team:
                raise Unavailable("Slack did not say which workspace the token is of.")
            enterprise = answer.get("enterprise_id") if answer.get("is_enterprise_install") else ""
            return Home(team, str(enterprise or ""))

        return self._named or await self._homes.of("home", ask)

    async def _profile(self, user: str) -> Profile:
        async def ask() -> Profile:
            try:
                answer: Any = await self._client.users_info(user=user)
            except SlackApiError as error:
                if code_of(error) in _NOBODY:
                    return Profile(active=False)
                raise
            return Profile.of(answer.get("user") or {})

        return await self._people.of(user, ask)

    async def _ask_channel(self, channel: str) -> bool:
        facts = (await self._client.conversations_info(channel=channel)).get("channel") or {}
        if not facts:
            raise Unavailable("Slack did not say who reads a channel.")
        if any(facts.get(mark) for mark in _OPEN):
            return True

        # Where workspaces of one organization share it, all of them must be served.
        home = await self._home()
        teams = set(map(str, facts.get("shared_team_ids") or ()))
        served = home.enterprise or (teams and teams <= {home.team, *self._served})
        return bool(facts.get("is_org_shared")) and not served

    def _note(self, sentence: str) -> None:
        """Log a sentence once."""
        if sentence not in self._notes and len(self._notes) < _MOST_NOTES:
            self._notes.add(sentence)
            log.warning("%s", sentence)


def _belonging(profile: Profile, home: Home, served: Sequence[str], claimed: str = "") -> Belonging:
    """Return how a person of a profile belongs.

    A payload that names another workspace than all of theirs is believed.
    """
    if not profile.teams or (claimed and claimed not in profile.teams):
        return Belonging(claimed if claimed != home.team else "", Standing.STRANGER)

    team = next(
        (team for team in (home.team, *served, home.enterprise) if team in profile.teams), ""
    )
    if not team or not profile.active:
        return Belonging(profile.teams[0], Standing.STRANGER)
    return Belonging(team, Standing.GUEST if profile.guest else Standing.MEMBER)
