"""Whoever asks, and however the line came: every command is answered or refused by one rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.errors import NotAllowed, Unavailable
from bot.grammar.access import Access
from bot.grammar.line import read_line
from bot.grammar.registry import commands_by_name
from bot.model.request import LOCAL, Belonging, Effect, Manner, Request, Role, Standing, User
from tests.belonging import GUEST, MEMBER, STRANGER
from tests.builders import NOON
from tests.cases import in_one_run

ADMINS = ("slack:U1", "slack:S1", "teams:29:9", "teams:owners:x")


class Groups:
    """Know who is in which groups; one of them cannot be asked."""

    def __init__(self, *members: tuple[str, str], away: str = "") -> None:
        self.members, self.away, self.asked = set(members), away, list[tuple[str, str]]()

    async def belongs(self, person: str, group: str) -> bool:
        self.asked.append((person, group))
        if group == self.away:
            raise Unavailable("The group is away.")
        return (person, group) in self.members


def request(user: User, belonging: Belonging = MEMBER, manner: Manner = Manner.ASKED) -> Request:
    return Request("", user, NOON, "chat", belonging, manner=manner)


def may(line, asked: Request) -> bool:
    """Tell by the rule in plain words whether a person may have a line answered."""
    reaches = line.effect in (Effect.CHANGES, Effect.SHARES)
    for_admins = [x for x in (line, line.carried) if x and x.runs.who is Role.ADMIN]
    is_admin = asked.user.role is Role.ADMIN or asked.user.id in ADMINS
    return not (
        (line.shared and asked.belonging.shared)
        or (asked.manner is Manner.VIEWED and line.effect is not Effect.READS)
        or (asked.user.role is Role.READER and reaches)
        or (for_admins and not is_admin)
    )


async def test_every_command_is_answered_or_refused_by_the_rule():
    lines = [x.name for x in commands_by_name(hidden=True)]
    lines += [f"{prefix}{name}" for name in lines for prefix in ("share ", "csv ")]
    people = [User("slack:U1"), User("slack:U2"), *(User("web:d", role=role) for role in Role)]
    places = [MEMBER, replace(MEMBER, shared=True)]
    access, refused = Access(ADMINS), 0
    for text in lines:
        line = read_line(text)
        for user in people:
            for place in places:
                for manner in Manner:
                    asked = request(user, place, manner)
                    try:
                        await access.check(line, asked, {})
                        answered = True
                    except NotAllowed as error:
                        assert str(error)
                        answered = False
                    assert answered is may(line, asked), (text, asked)
                    refused += not answered
    assert refused > len(lines)


@in_one_run
@pytest.mark.parametrize(
    ("belonging", "guests", "admitted"),
    [
        (MEMBER, False, True),
        (LOCAL, False, True),
        (GUEST, False, False),
        (GUEST, True, True),
        (STRANGER, True, False),
        (Belonging("", Standing.STRANGER), True, False),
    ],
)
def test_who_belongs_is_admitted(belonging, guests, admitted):
    access = Access(guests=guests)
    if admitted:
        access.admit(belonging)
        return
    with pytest.raises(NotAllowed) as refused:
        access.admit(belonging)
    unknown = "cannot tell which organization" in str(refused.value)
    assert unknown is (belonging.organization == "")


@in_one_run
@pytest.mark.parametrize(
    ("user", "admins", "groups", "role"),
    [
        ("slack:U1", ADMINS, Groups(), Role.ADMIN),
        ("slack:U2", ADMINS, Groups(), Role.ANYONE),
        ("slack:U2", ADMINS, Groups(("U2", "S1")), Role.ADMIN),
        ("slack:U2", ADMINS, Groups(("U3", "S1")), Role.ANYONE),
        ("teams:29:2", ADMINS, Groups(("29:2", "owners:x")), Role.ADMIN),
        ("web:dana", ADMINS, Groups(("dana", "S1")), Role.ANYONE),
        ("slack:U2", ("slack:S0", "slack:S1"), Groups(("U2", "S1"), away="S0"), Role.ADMIN),
        ("slack:U2", ("slack:S1", "slack:S2"), Groups(("U2", "S1"), away="S2"), Role.ADMIN),
    ],
)
async def test_an_admin_is_listed_or_in_a_listed_group(user, admins, groups, role):
    people = {"slack": groups, "teams": groups}
    assert await Access(admins).role(user, people) is role
    assert all(name in {x.partition(":")[2] for x in admins} for _, name in groups.asked)


async def test_a_group_that_cannot_be_asked_leaves_it_open():
    groups = Groups(("U2", "S9"), away="S1")
    with pytest.raises(Unavailable):
        await Access(ADMINS).role("slack:U2", {"slack": groups})


async def test_a_refusal_names_an_admin_of_the_persons_own_platform_and_ids_only_where_there_is_none():
    (line,) = [read_line(x.name) for x in commands_by_name() if x.who is Role.ADMIN][:1]
    for user, named in (("slack:U2", "slack:U1"), ("teams:29:2", "teams:29:9"), ("web:d", "")):
        with pytest.raises(NotAllowed) as refused:
            await Access(ADMINS).check(line, request(User(user)), {})
        assert (refused.value.admin, user in str(refused.value)) == (named, False)
    with pytest.raises(NotAllowed, match="TRNBOT_ADMINS, for example to slack:U2, which is you"):
        await Access().check(line, request(User("slack:U2")), {})
