"""A body that does not come to its end is given up: whoever sends it has proved nothing yet."""

import asyncio

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from adapters.chat.work import Refusal, body_of


@pytest.mark.parametrize(("most", "status"), [(100, 408), (4, 413)])
async def test_a_body_that_is_late_or_long_is_refused(most: int, status: int) -> None:
    async def receive(request: web.Request) -> web.Response:
        try:
            await body_of(request, most, within_s=0.05)
        except Refusal as refusal:
            return web.Response(status=refusal.status)
        return web.Response()

    async def dripping():
        yield b"12345"
        await asyncio.sleep(0.5)
        yield b"6"

    app = web.Application()
    app.add_routes([web.post("/", receive)])
    async with (
        TestServer(app) as server,
        ClientSession() as session,
        session.post(server.make_url("/"), data=dripping()) as answer,
    ):
        assert answer.status == status
