"""Who is an admin is asked of Slack: by user group, or by the workspace's own admins."""

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from adapters.chat.slack.belonging import FRESH_S, Members
from bot.errors import Unavailable


@pytest.mark.parametrize(
    ("user", "group", "belongs"),
    [
        ("U1", "S0FINOPS", True),
        ("U2", "S0FINOPS", False),
        ("U2", "admins", True),
        ("U1", "admins", False),
        ("U1", "U1", False),
        ("U1", "T2/S0FINOPS", False),
        ("T2/U1", "S0FINOPS", False),
        ("29:1", "S0FINOPS", False),
    ],
)
async def test_a_person_is_in_a_group_of_their_own_workspace(surface, slack, user, group, belongs):
    slack.groups, slack.admins = {"S0FINOPS": ["U1", "U9"]}, {"U2"}
    assert await surface.belongs(user, group) is belongs


async def test_slack_is_asked_once_in_five_minutes_and_who_left_is_no_admin_after_it(slack):
    now = [0.0]
    members = Members(AsyncWebClient("xoxb-1", base_url=slack.url), monotonic=lambda: now[0])
    slack.groups = {"S1": ["U1"]}
    assert [await members.belongs(user, "S1") for user in ("U1", "U2", "U1")] == [True, False, True]
    slack.groups = {"S1": ["U2"]}
    assert await members.belongs("U1", "S1")
    assert len(slack.sent("usergroups.users.list")) == 1
    now[0] = FRESH_S + 1
    assert [await members.belongs(user, "S1") for user in ("U1", "U2")] == [False, True]


@pytest.mark.parametrize(
    ("code", "says"),
    [("no_such_subteam", "no such user group"), ("missing_scope", "lacks the scope")],
)
async def test_a_group_that_cannot_be_asked_is_told_and_asked_again(surface, slack, code, says):
    slack.failing["usergroups.users.list"] = [code]
    slack.groups = {"S1": ["U1"]}
    with pytest.raises(Unavailable, match=says):
        await surface.belongs("U1", "S1")
    assert await surface.belongs("U1", "S1")


async def test_who_is_an_admin_of_the_workspace_is_asked_for_each_person(slack):
    members = Members(AsyncWebClient("xoxb-1", base_url=slack.url))
    slack.admins = {"U2"}
    assert [await members.belongs(user, "admins") for user in ("U2", "U1", "U2", "U3")] == [
        True,
        False,
        True,
        False,
    ]
    assert len(slack.sent("users.info")) == 3


@pytest.mark.parametrize(
    ("profile", "belongs"),
    [
        ({}, True),
        ({"deleted": True}, False),
        ({"is_admin": False}, False),
        ({"is_owner": True}, True),
    ],
)
async def test_an_admin_who_was_deactivated_is_none(surface, slack, profile, belongs):
    slack.admins, slack.profile = {"U2"}, profile
    assert await surface.belongs("U2", "admins") is belongs


@pytest.mark.parametrize(
    ("person", "name"),
    [
        ({"name": "bob"}, "bob"),
        ({}, "U2"),
        ({"name": "bob", "is_restricted": True}, "bob"),
        ({"name": "bob", "deleted": True}, ""),
        ({"name": "bob", "is_bot": True}, ""),
        ({"name": "bob", "is_stranger": True}, ""),
        ({"name": "bob", "team_id": "T9"}, ""),
    ],
)
async def test_a_person_who_belongs_has_a_name_and_nobody_else(surface, slack, person, name):
    slack.people = {"U2": person}
    assert await surface.name("U2") == name


async def test_nobody_has_a_name_by_an_id_that_slack_does_not_know(surface, slack):
    slack.failing["users.info"] = ["user_not_found"]
    assert await surface.name("U2") == ""


async def test_while_slack_does_not_tell_a_name_nobody_can(surface, slack):
    slack.failing["users.info"] = ["missing_scope"]
    with pytest.raises(Unavailable):
        await surface.name("U2")
