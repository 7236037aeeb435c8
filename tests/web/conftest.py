import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from tests.e2e.console_server import surface


@pytest.fixture
async def open_console():
    """Return a function that builds a console and a client of its real server."""
    clients = []

    async def build(**changed):
        console = surface(**changed)
        app = web.Application()
        app.add_routes(console.routes())
        client = TestClient(TestServer(app))
        await client.start_server()
        clients.append((console, client))
        return console, client

    yield build
    for console, client in clients:
        await console.stop()
        await client.close()
