"""Upload a card's charts as files of Slack, use an upload again while it shows what matters, and delete it afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack import markup
from adapters.slack.client import FAILURES, PASSING, code_of
from adapters.slack.limits import ALT_TEXT
from adapters.slack.pace import Pace, closed_s, is_limited
from adapters.slack.pictures import Picture, Pictures
from adapters.slack.render import chart_places
from bot.cards.card import Attachment, Card, Chart
from bot.cards.lines import spreadsheet
from bot.model.codec import encode
from bot.ports import DocumentStore, Draw

_UPLOADS = "slack-pictures"
_DELETES = "files.delete"
_FAULTS = (
    SlackClientError,
    aiohttp.ClientError,
    TimeoutError,
    OSError,
    RuntimeError,
    ValueError,
    LookupError,
)
_log = logging.getLogger("trnbot.slack")


class ChartUploader:
    """Draw, upload and remember charts, and delete the files that nothing shows."""

    def __init__(
        self, client: AsyncWebClient, draw: Draw, documents: DocumentStore, pace: Pace
    ) -> None:
        self._client, self._draw, self._documents, self._pace = client, draw, documents, pace

    async def upload(self, card: Card, key: str = "", *, native: bool = False) -> dict[int, str]:
        """Return Slack's file id for each chart that needs a picture.

        One that could not be uploaded is missing.

        Those of a message are kept under its key: one that still shows what matters is used again.
        """
        charts, kept = chart_places(card, native=native), await self._kept(key)
        pictures = {
            place: kept.find(chart) or await self._picture(chart) for place, chart in charts.items()
        }
        shown = {place: picture for place, picture in pictures.items() if picture}
        await self._keep(key, kept.after(tuple(shown.values())))
        return {place: picture.file for place, picture in shown.items()}

    async def settle(self, key: str) -> None:
        """Delete the files that the message of a key shows no more, now that Slack has taken its newest state."""
        kept = await self._kept(key)
        if kept.dropped:
            await self._keep(key, replace(kept, dropped=await self.delete(kept.dropped)))

    async def withdraw(self, key: str, files: Iterable[str]) -> None:
        """Delete files that were uploaded for a message which does not show them after all."""
        kept = await self._kept(key)
        await self._keep(key, Pictures(dropped=await self.delete((*kept.dropped, *files))))

    async def delete(self, files: Iterable[str]) -> tuple[str, ...]:
        """Delete files, and return those that are to be tried again."""
        left = []
        for file in files:
            if self._pace.closed_s("", _DELETES):
                left.append(file)
                continue
            try:
                await self._client.files_delete(file=file)
            except SlackApiError as error:
                self._pace.hold("", _DELETES, closed_s(error))
                if is_limited(error) or code_of(error) in PASSING:
                    left.append(file)
            except FAILURES as error:
                _log.info("picture not deleted: %s", type(error).__name__)
                left.append(file)
        return tuple(left)

    async def give(self, file: Attachment, channel: str, thread: str) -> bool:
        """Put a file into a conversation or its thread; return whether Slack took it."""
        try:
            await self._client.files_upload_v2(
                content=spreadsheet(file.content),
                filename=file.name,
                title=file.name,
                channel=channel,
                thread_ts=thread or None,
            )
        except _FAULTS as error:
            _log.warning("file not uploaded: %s", type(error).__name__)
            return False
        return True

    async def share(self, card: Card, channel: str, thread: str) -> None:
        """Put the charts that a message could not show into its thread."""
        for chart in chart_places(card).values():
            await self._upload(chart, channel, thread)

    async def _kept(self, key: str) -> Pictures:
        document = await asyncio.to_thread(self._documents.get, _UPLOADS, key) if key else None
        return Pictures.read(document) if document else Pictures()

    async def _keep(self, key: str, pictures: Pictures) -> None:
        if key and pictures != Pictures():
            await asyncio.to_thread(self._documents.put, _UPLOADS, key, encode(pictures))
        elif key:
            await asyncio.to_thread(self._documents.drop, _UPLOADS, key)

    async def _picture(self, chart: Chart) -> Picture | None:
        file = await self._upload(chart)
        return Picture.of(chart, file) if file else None

    async def _upload(
        self, chart: Chart, channel: str | None = None, thread: str | None = None
    ) -> str:
        """Return the file id, "" when drawing or uploading fails.

        The chart's summary stands in for it.
        """
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
        except _FAULTS as error:
            self._pace.hold(
                "", _UPLOADS, closed_s(error) if isinstance(error, SlackApiError) else 0.0
            )
            _log.warning("chart not uploaded: %s", type(error).__name__)
            return ""
