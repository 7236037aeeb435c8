"""Tell to which organization a person belongs, who is in which group, and whether others read a channel."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.chat.slack.auth import address_prefix
from adapters.chat.slack.client import code_of, explained
from adapters.chat.slack.forms import Claim, Requester
from adapters.chat.slack.markup import one_line
from bot.errors import Unavailable
from bot.model.request import Belonging, Standing

PERSON_FRESH_S = 3_600.0
CHANNEL_FRESH_S = 300.0
_AGAIN_AFTER_S = 60.0
"""After a failure, the last answer is used for so long before Slack is asked again."""
_ASKED_WITHIN_S = 5.0
_MOST = 10_000
_NOBODY = frozenset({"user_not_found", "users_not_found", "user_not_visible"})
_REFUSED_AGAIN_S, _UNKNOWN_AGAIN_S = 3_600.0, 60.0
_log = logging.getLogger("trnbot.slack")
T = TypeVar("T")
Monotonic = Callable[[], float]


class Kept(Generic[T]):
    """Keep Slack's answers for a while, up to `_MOST` of them.

    One stays valid while Slack gives no newer one.
    """

    def __init__(self, fresh_s: float, monotonic: Monotonic) -> None:
        self._fresh_s, self._monotonic = fresh_s, monotonic
        self._answers: OrderedDict[str, tuple[float, T]] = OrderedDict()
        self._asking: dict[str, asyncio.Task[T]] = {}

    async def of(self, key: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the answer, asked for once however many want it.

        Raise `Unavailable` where Slack fails and never gave one.
        """
        asked_s, last = self._answers.get(key, (0.0, None))
        if last is not None and self._monotonic() - asked_s <= self._fresh_s:
            self._answers.move_to_end(key)
            return last
        if key not in self._asking:
            self._asking[key] = task = asyncio.create_task(_timely(ask))
            task.add_done_callback(lambda done: self._done(key, done))
        try:
            return await asyncio.shield(self._asking[key])
        except Unavailable:
            if last is None:
                raise
            self._keep(key, last, self._monotonic() - self._fresh_s + _AGAIN_AFTER_S)
            return last

    def _done(self, key: str, task: asyncio.Task[T]) -> None:
        self._asking.pop(key, None)
        if not task.cancelled() and task.exception() is None:
            self._keep(key, task.result(), self._monotonic())

    def _keep(self, key: str, answer: T, asked_s: float) -> None:
        self._answers[key] = asked_s, answer
        self._answers.move_to_end(key)
        while len(self._answers) > _MOST:
            self._answers.popitem(last=False)


async def _timely(ask: Callable[[], Awaitable[T]]) -> T:
    async with explained(), asyncio.timeout(_ASKED_WITHIN_S):
        return await ask()


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
    """The person's own workspace first, the others of the same organization, and the organization."""
    guest: bool = False
    active: bool = True
    """A person, and not deactivated."""

    @staticmethod
    def of(user: dict[str, Any]) -> Profile:
        """Return the profile of a user object.

        Raise `Unavailable` for one that does not name its workspace.
        """
        if not (team := str(user.get("team_id") or "")):
            raise Unavailable("Slack did not say which workspace a person is of.")
        grid = user.get("enterprise_user") or {}
        teams = (team, *map(str, grid.get("teams") or ()), str(grid.get("enterprise_id") or ""))
        guest = bool(user.get("is_restricted") or user.get("is_ultra_restricted"))
        active = not (user.get("deleted") or user.get("is_bot") or user.get("is_stranger"))
        return Profile(
            one_line(str(user.get("name") or ""))[:100], tuple(filter(None, teams)), guest, active
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
        self._client, self._prefix, self._served, self._monotonic = (
            client,
            prefix,
            tuple(served),
            monotonic,
        )
        self._named = Home(home) if home else None
        self._homes = Kept[Home](PERSON_FRESH_S, monotonic)
        self._people = Kept[Profile](PERSON_FRESH_S, monotonic)
        self._channels = Kept[bool](CHANNEL_FRESH_S, monotonic)
        self._said: set[str] = set()
        self._routes: dict[str, float] = {}

    async def requester(self, claim: Claim) -> Requester:
        """Return who asks, with how they belong; whoever cannot be told is a stranger."""
        (belonging, name), shared = await asyncio.gather(
            self._person(claim), self.shared(claim.channel, claim.shared)
        )
        own = {**vars(claim), "name": claim.name or name}
        return Requester(
            **own,
            belonging=replace(belonging, shared=shared),
            address=await self._address(claim.user, belonging),
        )

    async def name(self, user: str) -> str:
        """Return the name of a person who belongs here, "" for a bot, a stranger or nobody.

        Raise `Unavailable`.
        """
        profile = await self._people.of(user, lambda: self._ask_person(user))
        stranger = self._judged(profile, await self._home(), "").standing is Standing.STRANGER
        return "" if stranger else profile.name or user

    async def shared(self, channel: str, told: bool | None = None) -> bool:
        """Return whether people of other organizations may read a channel, or nobody can tell.

        `told` is what the event says.
        """
        if not channel or channel.startswith("D"):
            return False
        try:
            return (
                await self._channels.of(channel, lambda: self._ask_channel(channel)) or told is True
            )
        except Unavailable as error:
            self._note(
                f"Who reads a Slack channel cannot be told, so what is not certain stays private: {error}"
            )
            return told is not False

    async def warn_of_readers(self, channel: str) -> None:
        """Log once that a channel which alerts are routed to is read by another organization.

        Slack is asked once an hour.
        """
        due_s = self._routes.get(channel, float("-inf")) + PERSON_FRESH_S
        if not channel.startswith(("C", "G")) or self._monotonic() < due_s:
            return
        self._routes[channel] = self._monotonic()
        if await self.shared(channel, told=False):
            self._note(
                f"Slack channel {channel} gets alerts and is open to another organization, which reads them."
            )

    async def _home(self) -> Home:
        return self._named or await self._homes.of("home", self._ask_home)

    async def _person(self, claim: Claim) -> tuple[Belonging, str]:
        """Return how a person belongs, and their name."""
        try:
            home = await self._home()
            profile = await self._people.of(claim.user, lambda: self._ask_person(claim.user))
        except Unavailable as error:
            self._note(f"Which organization a person belongs to cannot be told: {error}")
            return Belonging("", Standing.STRANGER), ""
        return self._judged(profile, home, claim.team), profile.name

    def _judged(self, profile: Profile, home: Home, claimed: str) -> Belonging:
        """Return how a person of a profile belongs.

        A payload that names another workspace than all of theirs is believed.
        """
        if not profile.teams or (claimed and claimed not in profile.teams):
            return Belonging(claimed if claimed != home.team else "", Standing.STRANGER)
        ours = next(
            (
                one
                for one in (home.team, *self._served, home.enterprise)
                if one and one in profile.teams
            ),
            "",
        )
        if not ours or not profile.active:
            return Belonging(profile.teams[0], Standing.STRANGER)
        return Belonging(ours, Standing.GUEST if profile.guest else Standing.MEMBER)

    async def _address(self, user: str, belonging: Belonging) -> str:
        """Return the address of a person: of another workspace, never that of somebody here."""
        organization = belonging.organization
        home = await self._home() if organization else Home("")
        if organization in ("", home.team, home.enterprise):
            return f"slack:{self._prefix}{user}"
        return f"slack:{address_prefix(organization, self._served)}{user}"

    async def _ask_home(self) -> Home:
        told: Any = await self._client.auth_test()
        if not (team := str(told.get("team_id") or "")):
            raise Unavailable("Slack did not say which workspace the token is of.")
        return Home(
            team, str(told.get("enterprise_id") or "") if told.get("is_enterprise_install") else ""
        )

    async def _ask_person(self, user: str) -> Profile:
        try:
            told: Any = await self._client.users_info(user=user)
        except SlackApiError as error:
            if code_of(error) in _NOBODY:
                return Profile(active=False)
            raise
        return Profile.of(told.get("user") or {})

    async def _ask_channel(self, channel: str) -> bool:
        told: Any = await self._client.conversations_info(channel=channel)
        if not (found := told.get("channel") or {}):
            raise Unavailable("Slack did not say who reads a channel.")
        if any(
            found.get(name)
            for name in (
                "is_ext_shared",
                "is_pending_ext_shared",
                "pending_shared",
                "pending_connected_team_ids",
            )
        ):
            return True
        home = await self._home()
        return bool(found.get("is_org_shared")) and not (
            home.enterprise or self._are_ours(home, found.get("shared_team_ids") or ())
        )

    def _are_ours(self, home: Home, teams: Iterable[Any]) -> bool:
        return bool(teams) and {home.team, *self._served} >= set(map(str, teams))

    def _note(self, sentence: str) -> None:
        """Log a sentence once."""
        if sentence not in self._said and len(self._said) < _MOST:
            self._said.add(sentence)
            _log.warning("%s", sentence)


@dataclass
class Strangers:
    """Remember which strangers were told that they are none of ours.

    Each once an hour, up to `_MOST` of them.
    """

    monotonic: Monotonic = time.monotonic
    _told: OrderedDict[str, float] = field(default_factory=OrderedDict)

    def is_to_be_told(self, requester: Requester) -> bool:
        """Return whether a stranger is told now.

        One who cannot be told apart is told each minute, to try again.
        """
        every_s = _REFUSED_AGAIN_S if requester.belonging.organization else _UNKNOWN_AGAIN_S
        now_s, last_s = self.monotonic(), self._told.get(requester.user)
        if last_s is not None and now_s - last_s < every_s:
            return False
        self._told[requester.user] = now_s
        self._told.move_to_end(requester.user)
        while len(self._told) > _MOST:
            self._told.popitem(last=False)
        return True


ADMINS = "admins"
"""Names the admins and owners of the workspace, where the id of a user group could stand."""
FRESH_S = 300.0
_GROUP = re.compile(r"S[A-Z0-9]+")


class Members:
    """Ask one workspace who is in what, and remember the answer for `FRESH_S`."""

    def __init__(self, client: AsyncWebClient, monotonic: Monotonic = time.monotonic) -> None:
        self._client, self._monotonic = client, monotonic
        self._answers: dict[str, tuple[float, frozenset[str]]] = {}

    async def belongs(self, user: str, group: str) -> bool:
        """Return whether a person is in a user group (`S0123`) or one of `admins`.

        Raise `Unavailable` when Slack fails.
        """
        if _GROUP.fullmatch(group):
            return user in await self._fresh(group, lambda: self._members(group))
        if group == ADMINS:
            return user in await self._fresh(f"{ADMINS} {user}", lambda: self._admin(user))
        return False

    async def _fresh(
        self, key: str, ask: Callable[[], Awaitable[frozenset[str]]]
    ) -> frozenset[str]:
        asked_s, people = self._answers.get(key, (float("-inf"), frozenset[str]()))
        if self._monotonic() - asked_s > FRESH_S:
            async with explained():
                people = await ask()
            self._answers[key] = (self._monotonic(), people)
        return people

    async def _members(self, group: str) -> frozenset[str]:
        answer: Any = await self._client.usergroups_users_list(usergroup=group)
        return frozenset(map(str, answer.get("users") or ()))

    async def _admin(self, user: str) -> frozenset[str]:
        answer: Any = await self._client.users_info(user=user)
        profile = answer.get("user") or {}
        is_admin = (profile.get("is_admin") or profile.get("is_owner")) and not profile.get(
            "deleted"
        )
        return frozenset({user} if is_admin else ())
