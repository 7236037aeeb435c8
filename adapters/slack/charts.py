"""Upload a card's charts as files of Slack, and use an upload again while its chart stays the same."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack import markup
from adapters.slack.limits import ALT_TEXT
from adapters.slack.pace import Pace, closed_s
from adapters.slack.render import chart_places
from bot.cards.card import Card, Chart
from bot.ports import DocumentStore, Draw

_UPLOADS = "slack-pictures"
_log = logging.getLogger("trnbot.slack")


class ChartUploader:
    """Draw, upload and remember charts."""

    def __init__(self, client: AsyncWebClient, draw: Draw, documents: DocumentStore, pace: Pace) -> None:
        self._client, self._draw, self._documents, self._pace = client, draw, documents, pace

    async def upload(self, card: Card, key: str = "", *, native: bool = False) -> dict[int, str]:
        """Return Slack's file id for each chart that needs a picture; one that could not be uploaded is missing."""
        charts = chart_places(card, native=native)
        if not charts:
            await self._forget(key)
            return {}
        uploaded = await self._uploaded(key)
        files = {place: uploaded.get(digest(chart)) or await self._upload(chart) for place, chart in charts.items()}
        if key:
            fresh = {digest(chart): files[place] for place, chart in charts.items() if files[place]}
            await asyncio.to_thread(self._documents.put, _UPLOADS, key, fresh)
        return {place: file for place, file in files.items() if file}

    async def share(self, card: Card, channel: str, thread: str) -> None:
        """Put the charts that a message could not show into its thread."""
        for chart in chart_places(card).values():
            await self._upload(chart, channel, thread)

    async def _uploaded(self, key: str) -> Mapping[str, Any]:
        if not key:
            return {}
        return await asyncio.to_thread(self._documents.get, _UPLOADS, key) or {}

    async def _forget(self, key: str) -> None:
        if key:
            await asyncio.to_thread(self._documents.drop, _UPLOADS, key)

    async def _upload(self, chart: Chart, channel: str | None = None, thread: str | None = None) -> str:
        """Return the file id, "" when drawing or uploading fails: the chart's summary stands in for it."""
        if self._pace.closed_s("", _UPLOADS):
            return ""
        try:
            png = await asyncio.to_thread(self._draw, chart)
            answer: Any = await self._client.files_upload_v2(
                content=png,
                filename="chart.png",
                title=markup.one_line(chart.title) or "chart",
                alt_txt=markup.cut(markup.one_line(chart.summary), ALT_TEXT),
                channel=channel,
                thread_ts=thread,
            )
            return str(answer["files"][0]["id"])
        except (SlackClientError, aiohttp.ClientError, TimeoutError, OSError, RuntimeError, ValueError, LookupError) as error:
            self._pace.hold("", _UPLOADS, closed_s(error) if isinstance(error, SlackApiError) else 0.0)
            _log.warning("chart not uploaded: %s", type(error).__name__)
            return ""


def digest(chart: Chart) -> str:
    """Return a fingerprint that changes when the chart does."""
    return hashlib.sha256(repr(chart).encode(errors="replace")).hexdigest()[:32]
