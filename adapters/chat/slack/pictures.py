"""Upload a card's charts, use a picture again while it shows enough, and delete it afterwards."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.chat.slack.client import FAILURES, PASSING, Pace, closed_s, code_of, is_limited, log
from adapters.chat.slack.markup import ALT_TEXT, cut, one_line
from adapters.chat.slack.render import chart_places
from bot.cards.card import Attachment, Card, Chart
from bot.cards.lines import spreadsheet
from bot.model.codec import decode, encode
from bot.ports import DocumentStore, Draw

_MOVED = 0.25
"""The share of its time axis by which a picture may lie back."""
_STRAYED = 0.1
"""The share of its range by which newer readings may differ from the last that it shows."""


@dataclass(frozen=True)
class Picture:
    """Hold an uploaded picture: its file, and what it shows of its chart."""

    file: str
    digest: str
    frame: str = ""
    """Fingerprint of all but the readings.

    "" of what is no line over time, whose picture shows its digest alone.
    """
    until: datetime | None = None
    last: tuple[float | None, ...] = ()
    """The last reading of each series."""
    span: float = 0.0
    """From the lowest to the highest value that it shows."""

    @staticmethod
    def of(chart: Chart, file: str) -> Picture:
        """Return the picture of a chart that was uploaded as a file."""
        picture = Picture(file, digest(chart))
        if not chart.times:
            return picture

        lines = [
            [value for value in series.values if value is not None and math.isfinite(value)]
            for series in chart.series
        ]
        values = [value for line in lines for value in line] + list(chart.band or ())
        return replace(
            picture,
            frame=_frame(chart),
            until=chart.times[-1],
            last=tuple(line[-1] if line else None for line in lines),
            span=max(values) - min(values) if values else 0.0,
        )

    def shows(self, chart: Chart) -> bool:
        """Return whether it shows all that matters of a chart.

        No later reading strays, and not too much time has passed.
        """
        if self.digest == digest(chart):
            return True
        if not (self.frame and self.until and chart.times) or self.frame != _frame(chart):
            return False

        moved, axis = chart.times[-1] - self.until, chart.times[-1] - chart.times[0]
        if moved > _MOVED * axis:
            return False
        # A missing reading is no news.
        news = (
            (value, last)
            for series, last in zip(chart.series, self.last, strict=False)
            for time, value in zip(chart.times, series.values, strict=False)
            if time > self.until and value is not None
        )
        return all(
            last is not None and abs(value - last) <= self.span * _STRAYED for value, last in news
        )


@dataclass(frozen=True)
class Pictures:
    """Hold the pictures of one message.

    Those that it is to show, and the files that it shows no more, still to be deleted.
    """

    shown: tuple[Picture, ...] = ()
    dropped: tuple[str, ...] = ()

    @staticmethod
    def read(document: Mapping[str, Any]) -> Pictures:
        """Return the pictures of a stored document.

        Earlier versions kept files by the chart's digest alone.
        """
        if "shown" in document:
            return decode(Pictures, document)
        return Pictures(tuple(Picture(str(file), digest) for digest, file in document.items()))

    def find(self, chart: Chart) -> Picture | None:
        """Return the picture that shows a chart, None where there is none."""
        return next((picture for picture in self.shown if picture.shows(chart)), None)

    def after(self, shown: Sequence[Picture]) -> Pictures:
        """Return the pictures of the message once it shows these."""
        files = {picture.file for picture in shown}
        earlier = dict.fromkeys((*self.dropped, *(picture.file for picture in self.shown)))
        return Pictures(tuple(shown), tuple(file for file in earlier if file not in files))


def digest(shown: object) -> str:
    """Return a fingerprint that changes when a chart, or a part of it, does."""
    return hashlib.sha256(repr(shown).encode(errors="replace")).hexdigest()[:32]


def _frame(chart: Chart) -> str:
    """Return a fingerprint of what a line chart shows beside its readings.

    Its summary stands in words beside the picture.
    """
    names = tuple((series.name, series.tone) for series in chart.series)
    begun = chart.shaded.start if chart.shaded else None
    band = tuple(f"{end:.2g}" for end in chart.band or ())
    return digest((chart.kind, chart.title, chart.unit, names, begun, band))


_UPLOADS = "slack-pictures"
_DELETES = "files.delete"
_FAULTS = (*FAILURES, RuntimeError, ValueError, LookupError)


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
        previous = await self._read(key)
        shown: dict[int, Picture] = {}
        for place, chart in chart_places(card, native=native).items():
            picture = previous.find(chart)
            if picture is None and (file := await self._upload(chart)):
                picture = Picture.of(chart, file)
            if picture:
                shown[place] = picture
        await self._write(key, previous.after(tuple(shown.values())))
        return {place: picture.file for place, picture in shown.items()}

    async def settle(self, key: str) -> None:
        """Delete the files that the message of a key shows no more.

        Slack has taken its newest state.
        """
        pictures = await self._read(key)
        if pictures.dropped:
            await self._write(key, replace(pictures, dropped=await self.delete(pictures.dropped)))

    async def withdraw(self, key: str, files: Iterable[str]) -> None:
        """Delete files that were uploaded for a message which does not show them after all."""
        dropped = (await self._read(key)).dropped
        await self._write(key, Pictures(dropped=await self.delete((*dropped, *files))))

    async def delete(self, files: Iterable[str]) -> tuple[str, ...]:
        """Delete files, and return those that are to be tried again."""
        remaining = []
        for file in files:
            if self._pace.closed_s("", _DELETES):
                remaining.append(file)
                continue
            try:
                await self._client.files_delete(file=file)
            except SlackApiError as error:
                self._pace.hold("", _DELETES, closed_s(error))
                if is_limited(error) or code_of(error) in PASSING:
                    remaining.append(file)
            except FAILURES as error:
                log.info("picture not deleted: %s", type(error).__name__)
                remaining.append(file)
        return tuple(remaining)

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
            log.warning("file not uploaded: %s", type(error).__name__)
            return False
        return True

    async def share(self, card: Card, channel: str, thread: str) -> None:
        """Put the charts that a message could not show into its thread."""
        for chart in chart_places(card).values():
            await self._upload(chart, channel, thread)

    async def _read(self, key: str) -> Pictures:
        document = await asyncio.to_thread(self._documents.get, _UPLOADS, key) if key else None
        return Pictures.read(document) if document else Pictures()

    async def _write(self, key: str, pictures: Pictures) -> None:
        if key and pictures != Pictures():
            await asyncio.to_thread(self._documents.put, _UPLOADS, key, encode(pictures))
        elif key:
            await asyncio.to_thread(self._documents.drop, _UPLOADS, key)

    async def _upload(
        self, chart: Chart, channel: str | None = None, thread: str | None = None
    ) -> str:
        """Return the file id, "" when drawing or uploading fails.

        The chart's summary stands in for it.
        """
        if self._pace.closed_s("", _UPLOADS):
            return ""
        try:
            answer: Any = await self._client.files_upload_v2(
                content=await asyncio.to_thread(self._draw, chart),
                filename="chart.png",
                title=one_line(chart.title) or "chart",
                alt_txt=cut(one_line(chart.summary), ALT_TEXT),
                channel=channel,
                thread_ts=thread,
            )
            return str(answer["files"][0]["id"])
        except _FAULTS as error:
            if isinstance(error, SlackApiError):
                self._pace.hold("", _UPLOADS, closed_s(error))
            log.warning("chart not uploaded: %s", type(error).__name__)
            return ""
