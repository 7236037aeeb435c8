"""Who owns a team is asked of Microsoft Graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from bot.errors import Unavailable
from tests.teams.signing import APP, SECRET, cloud, token

TEAM = "0a1b2c3d-0000-4000-8000-00000000beef"
DANA, KIM = "aaaaaaaa-0000-4000-8000-000000000001", "AAAAAAAA-0000-4000-8000-000000000002"


class Graph:
    """Answer two pages of a team's members, or what a test says."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.status, self.url = 200, ""

    async def members(self, request: web.Request) -> web.Response:
        self.asked.append(f"{request.match_info['team']} {request.headers.get('Authorization')}")
        if "page" in request.query:
            return web.json_response({"value": [{"userId": DANA, "roles": ["owner"]}]})
        value = [{"userId": KIM.lower(), "roles": []}, {"userId": "x", "roles": ["guest"]}]
        return web.json_response(
            {"value": value, "@odata.nextLink": f"{self.url}{request.path}?page=2"},
            status=self.status,
        )


@pytest.fixture
async def graph(serve: Any) -> Graph:
    made = Graph()
    made.url = await serve([web.get("/v1.0/teams/{team}/members", made.members)])
    return made


@pytest.fixture
async def signed(new_bot: Any, login: Any, graph: Graph) -> Any:
    where = replace(cloud(login), graph=graph.url)
    bot = await new_bot(
        app_id=APP, app_password=SECRET, tenant_id="T1", development=False, cloud=where
    )
    for user, entra in (("29:dana", DANA), ("29:kim", KIM)):
        said = bot.activity(text="cost", id=user, **{"from": {"id": user, "aadObjectId": entra}})
        assert (await bot.send(said, token(bot)))[0] == 200
    await bot.settled()
    return bot


async def test_an_owner_of_the_team_is_one_and_a_member_is_none(signed: Any, graph: Graph) -> None:
    people = ("29:dana", "29:kim", "29:nobody")
    assert [await signed.surface.belongs(user, f"owners:{TEAM}") for user in people] == [
        True,
        False,
        False,
    ]
    assert graph.asked == [f"{TEAM} Bearer bearer-of-the-bot"] * 2, "two pages, asked once"


async def test_a_next_page_elsewhere_is_not_asked_with_the_bots_token(
    signed: Any, graph: Graph, serve: Any
) -> None:
    elsewhere = Graph()
    graph.url = elsewhere.url = await serve(
        [web.get("/v1.0/teams/{team}/members", elsewhere.members)]
    )
    assert not await signed.surface.belongs("29:dana", f"owners:{TEAM}")
    assert (len(graph.asked), elsewhere.asked) == (1, [])


@pytest.mark.parametrize("group", ["29:dana", "owners:", "owners:../../me", "a:personal"])
async def test_what_names_no_team_asks_nobody(signed: Any, graph: Graph, group: str) -> None:
    assert not await signed.surface.belongs("29:dana", group)
    assert graph.asked == []


async def test_a_graph_that_refuses_says_which_permission_is_missing(
    signed: Any, graph: Graph
) -> None:
    graph.status = 403
    with pytest.raises(Unavailable, match=r"TeamMember.Read.Group") as caught:
        await signed.surface.belongs("29:dana", f"owners:{TEAM}")
    assert "bearer-of" not in str(caught.value)
