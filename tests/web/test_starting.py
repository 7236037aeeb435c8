"""Before the bot can answer, its port says so: not ok, the frame of the console, and no connection kept."""

from aiohttp.test_utils import TestClient, TestServer

from adapters.http import application
from adapters.web.surface import StartingPages


async def test_the_port_says_starting_and_not_ok_and_keeps_nobody():
    pages = StartingPages(lambda: "Opening <a>, for 3 s so far.")
    async with TestClient(TestServer(application([pages]))) as client:
        health = await client.get("/healthz")
        assert health.status == 503
        assert await health.json() == {
            "ok": False,
            "starting": True,
            "problem": "Opening <a>, for 3 s so far.",
        }
        asked = await client.post("/api/v1/ask", json={"line": "cost"})
        assert (asked.status, asked.content_type) == (503, "application/json")
        assert (await asked.json())["error"].startswith("trnbot is starting: Opening <a>")
        assert [(await client.get(path)).status for path in ("/livez", "/readyz")] == [200, 503]
        page = await client.get("/alert/a1")
        assert (page.status, page.headers["Connection"]) == (503, "close")
        text = await page.text()
        assert "Opening &lt;a&gt;, for 3 s so far." in text
        assert 'class="bone' in text
        assert (await client.get("/static/skeleton.css")).status == 200
        assert (await client.post("/slack/events")).status == 503
