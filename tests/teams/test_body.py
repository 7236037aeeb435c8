"""A body is read once its token is known, and only as far as an activity may be long and deep."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientSession
from yarl import URL

from tests.teams.signing import token


@pytest.mark.parametrize(
    "body",
    [b"not json", b'{"a":' * 50_000, b"[" * 200_000, b"x" * 900_000],
    ids=["garbage", "deep", "deeper", "long"],
)
async def test_before_the_token_is_checked_nothing_of_the_body_is_parsed_or_logged(
    signed: Any, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "trnbot")
    assert await signed.raw(body) == 401
    assert [
        record.getMessage() for record in caplog.records if record.name.startswith("trnbot")
    ] == ["teams: a request was refused: PermissionError"]


async def test_a_body_that_never_comes_is_not_waited_for_without_a_token(signed: Any) -> None:
    where = URL(signed.url)
    reader, writer = await asyncio.open_connection(where.host, where.port)
    writer.write(
        b"POST /api/messages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"
    )
    async with asyncio.timeout(5):
        assert b" 401 " in await reader.readline()
    writer.close()


DEEP = b'{"type": "message", "channelData": ' + b"[" * 40 + b"]" * 40 + b"}"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (DEEP, 400),
        (b"[" * 100_000, 400),
        (b'{"type": ' + b"9" * 5000 + b"}", 400),
        (b" " * 300_000, 413),
    ],
    ids=["40 deep", "100,000 deep", "a number of 5,000 digits", "300 kB"],
)
async def test_a_signed_body_that_is_too_deep_or_too_long_is_refused_without_a_traceback(
    signed: Any, body: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token(signed)}"}
    for data in (body, _chunked(body)):
        async with (
            ClientSession() as session,
            session.post(signed.url, data=data, headers=headers) as answer,
        ):
            assert answer.status == status
            assert "\n" not in await answer.text()
    assert [record for record in caplog.records if record.exc_info] == []


async def _chunked(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 50_000):
        yield body[start : start + 50_000]
