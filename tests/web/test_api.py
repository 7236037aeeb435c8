"""GET /api/v1/LINE for scripts and dashboards: the document of `--json`, described by a valid OpenAPI page, and no more than reading."""

from __future__ import annotations

import csv
import io
from urllib.parse import unquote

import pytest

from bot.grammar.registry import commands_by_name
from tests.guarded import guarded
from tests.mcp.test_http import TOKEN, serving


async def test_the_page_is_valid_openapi_and_has_every_command_that_reads() -> None:
    async with serving(await guarded()) as served:
        page = await (await served.get("/api/v1/openapi.json")).json()
    # It compiles grammars for seconds, which each worker would pay.
    from openapi_spec_validator import OpenAPIV31SpecValidator

    OpenAPIV31SpecValidator(page).validate()
    described = {unquote(path.removeprefix("/api/v1/")) for path in page["paths"]} - {"{line}"}
    assert described == {
        command.name for command in commands_by_name() if not command.changes and not command.heavy
    }
    window = next(
        p for p in page["paths"]["/api/v1/cost"]["get"]["parameters"] if p["name"] == "window"
    )
    assert (window["in"], window["required"], window["schema"]["default"]) == ("query", False, "7d")


@pytest.mark.parametrize(
    "path",
    ["alerts", "alerts llama", "alerts?cluster=llama", "trn alerts", "config%20show?rule=idle"],
)
async def test_a_line_is_answered_with_the_document_that_the_page_describes(path: str) -> None:
    from jsonschema import Draft202012Validator

    async with serving(await guarded()) as served:
        page = await (await served.get("/api/v1/openapi.json")).json()
        answer = await served.get(f"/api/v1/{path}")
        document = await answer.json()
    assert answer.status == 200, document
    assert (
        list(Draft202012Validator(page["components"]["schemas"]["Answer"]).iter_errors(document))
        == []
    )


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("alerts?clutser=x", 400, "'alerts' has no argument 'clutser'; did you mean 'cluster'?"),
        ("zzzz", 400, "'zzzz' is not a command"),
        ("cost?window=7d&window=8d", 400, "window takes one value; got 2."),
        ("ack", 403, "'ack' waits for a person to press it"),
        ("config%20undo", 403, "waits for a person to press it"),
        ("share%20alerts", 403, "waits for a person to press it"),
        ("receipt%20cost%207d", 403, "waits for a person to press it"),
        ("doctor", 403, "'doctor' is for admins"),
        ("cost", 503, "There is no bill here."),
    ],
)
async def test_a_refusal_is_one_sentence_and_changes_nothing(
    path: str, status: int, sentence: str
) -> None:
    bot = await guarded("chat:U1")
    before = bot.state()
    async with serving(bot) as served:
        answer = await served.get(f"/api/v1/{path}")
        document = await answer.json()
    assert (answer.status, sentence in document["error"]) == (status, True), document
    assert bot.state() == before


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": f"Bearer {TOKEN}"}, 200),
        ({"Authorization": f"Bearer {TOKEN}", "Origin": "https://x.example"}, 403),
    ],
    ids=["no token", "token", "another site's page"],
)
async def test_it_admits_whom_the_console_admits(headers: dict[str, str], status: int) -> None:
    async with serving(await guarded(), TOKEN) as served:
        for path in ("alerts", "openapi.json"):
            assert (await served.get(f"/api/v1/{path}", headers=headers)).status == status


@pytest.mark.parametrize(
    ("path", "headers"), [("alerts?format=csv", {}), ("alerts", {"Accept": "text/csv"})]
)
async def test_the_table_of_an_answer_comes_as_csv(path: str, headers: dict[str, str]) -> None:
    async with serving(await guarded()) as served:
        answer = await served.get(f"/api/v1/{path}", headers=headers)
        listed = (await (await served.get("/api/v1/alerts")).json())["data"]["alerts"]
        rows = list(csv.DictReader(io.StringIO(await answer.text())))
    assert (answer.status, answer.content_type) == (200, "text/csv")
    assert listed
    assert [row["waste_usd.per_hour"] for row in rows] == [
        one["waste_usd"]["per_hour"] for one in listed
    ]


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("alerts?format=xml", "'xml' is not a format of an answer; write json or csv."),
        ("about?format=csv", "without a table"),
    ],
)
async def test_what_cannot_be_written_as_csv_is_refused_in_a_sentence(
    path: str, sentence: str
) -> None:
    async with serving(await guarded()) as served:
        answer = await served.get(f"/api/v1/{path}")
        assert (answer.status, sentence in (await answer.json())["error"]) == (400, True)
