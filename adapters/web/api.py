"""Answer scripts and dashboards.

GET /api/v1/LINE is the document of `--json`, and OpenAPI describes it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from aiohttp import web

from adapters.web.auth import RequestHandler
from bot.cards.lines import visible
from bot.errors import TrnbotError, WrongInput
from bot.model.request import Effect, Role, Tool
from bot.ports.chat import Answered

ROOT = "/api/v1/"
FORMAT = "format"
"""The query parameter that no command has as an argument."""
CSV = "text/csv"
_REFUSALS: Mapping[int, str] = {
    400: "The line or an argument is wrong.",
    403: "Who asks may not read this, or the line does more than read.",
    429: "The reader's share of the bot is used up.",
    500: "A fault in the bot itself.",
    503: "Something outside failed.",
    504: "The line worked for longer than it may.",
}
"""States the meaning of each `TrnbotError.status` here."""
_REFUSAL = {
    "type": "object",
    "properties": {
        "error": {
            "type": "string",
            "description": "One sentence: the mistake, and the nearest right form.",
        },
        "argument": {"type": "string", "description": "The argument that is wrong, if one is."},
    },
    "required": ["error"],
}

Read = Callable[[str, Mapping[str, Any]], Awaitable[Answered]]
"""Answers a line with arguments; raises `TrnbotError`. What does more than read is refused."""


class Api:
    """Implement `bot.ports.Listener`; `guard` lets in whom the console lets in."""

    def __init__(
        self,
        read: Read,
        tools: Sequence[Tool],
        version: str,
        guard: Callable[[RequestHandler], RequestHandler],
    ) -> None:
        self._read, self._guard = read, guard
        self._described = json.dumps(openapi(tools, version), ensure_ascii=False)

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the description, and the address below which every line is answered."""

        async def description(_: web.Request) -> web.StreamResponse:
            return web.Response(text=self._described, content_type="application/json")

        async def answer(request: web.Request) -> web.StreamResponse:
            try:
                form = request.query.get(FORMAT, "")
                if form not in ("", "json", "csv"):
                    raise WrongInput(
                        f"'{form[:40]}' is not a format of an answer; write json or csv.", FORMAT
                    )
                # No command has an argument of this name.
                values = {x: request.query.getall(x) for x in request.query if x != FORMAT}
                arguments = {
                    x: items if len(items) > 1 else items[0] for x, items in values.items()
                }

                answered = await self._read(request.match_info["line"].strip(), arguments)
                accepted = request.headers.get("Accept", "")
                if form == "csv" or (not form and accepted.startswith(CSV)):
                    return web.Response(text=answered.csv(), content_type=CSV)
            except TrnbotError as error:
                refusal, argument = {"error": visible(str(error))}, getattr(error, "argument", "")
                if argument:
                    refusal["argument"] = argument
                return web.json_response(refusal, status=error.status)
            return web.json_response(dict(answered.document))

        return (
            web.get(f"{ROOT}openapi.json", self._guard(description)),
            web.get(f"{ROOT}{{line:.+}}", self._guard(answer)),
        )

    async def start(self) -> None:
        """Do nothing: it waits for its readers."""

    async def stop(self) -> None:
        """Do nothing."""


def openapi(tools: Sequence[Tool], version: str) -> Mapping[str, Any]:
    """Return the OpenAPI 3.1 document of every command that only reads."""
    words = {
        "description": "Any line that reads, percent-encoded, in the grammar or in plain words.",
        "example": "cost 7d by team",
    }
    line = {"name": "line", "in": "path", "required": True, "schema": {"type": "string"}, **words}
    summary = "Answer any line that reads."
    paths = {f"{ROOT}{{line}}": _reading("line", summary, [line])}

    reading = [tool for tool in tools if tool.effect is Effect.READS]
    for tool in reading:
        parameters = [
            {
                "name": name,
                "in": "query",
                "required": name in tool.arguments.get("required", ()),
                "description": schema["description"],
                "schema": {word: value for word, value in schema.items() if word != "description"},
            }
            for name, schema in tool.arguments["properties"].items()
        ]
        summary = f"{tool.summary}{' For admins.' if tool.who is Role.ADMIN else ''}"
        paths[f"{ROOT}{quote(tool.command)}"] = _reading(tool.name, summary, parameters)

    return {
        "openapi": "3.1.0",
        "info": {
            "title": "trnbot",
            "version": version,
            "description": "Every line that reads, as --json."
            " Amounts are US dollars as decimal strings, times are UTC.",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": {"Answer": dict(reading[0].answer), "Refusal": _REFUSAL},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "TRNBOT_WEB_TOKEN, where it is set.",
                }
            },
        },
    }


_FORMAT = {
    "name": FORMAT,
    "in": "query",
    "required": False,
    "schema": {"type": "string", "enum": ["json", "csv"], "default": "json"},
    "description": "csv gives the table of the answer, unrounded, as `--csv` does;"
    " so does `Accept: text/csv`.",
}


def _reading(name: str, summary: str, parameters: Sequence[Any]) -> Mapping[str, Any]:
    """Return one path, which is only read."""
    answer = _response("The answer; of `format=csv` its table.", "Answer")
    answer["content"][CSV] = {"schema": {"type": "string"}}
    refusals = {str(status): _response(words, "Refusal") for status, words in _REFUSALS.items()}
    return {
        "get": {
            "operationId": name,
            "summary": summary,
            "parameters": [*parameters, _FORMAT],
            "responses": {"200": answer, **refusals},
        }
    }


def _response(words: str, schema: str) -> dict[str, Any]:
    return {
        "description": words,
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
    }
