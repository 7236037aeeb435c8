import pytest
from aiohttp.test_utils import TestClient, TestServer

from adapters.http import application
from tests.e2e.console_server import surface


@pytest.fixture
async def open_console():
    """Return a function that builds a console and a client of its real server."""
    clients = []

    async def build(**changed):
        console = surface(**changed)
        client = TestClient(TestServer(application([console])))
        await client.start_server()
        clients.append((console, client))
        return console, client

    yield build
    for console, client in clients:
        await console.stop()
        await client.close()
