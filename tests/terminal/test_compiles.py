"""What `status` and `cost` say of compiles, over a recording in which one goes on, one runs long and one is cut off."""

import asyncio
from datetime import UTC, datetime

import pytest

from adapters.simulator import SimulationTiming, generate
from bot.answers.all import ANSWERS
from bot.grammar.line import understand
from bot.model.request import Request, User
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource, memory_stores
from tests.belonging import MEMBER

assert ANSWERS


@pytest.fixture(scope="module")
def ports(tmp_path_factory):
    """Return ports over a recording that ends after a second run has compiled again."""
    folder = tmp_path_factory.mktemp("compiles") / "recording"
    generate(folder, 1, "compiles", SimulationTiming(days=1.9))
    settings = settings_of({})
    return OpenedSource(f"recording:{folder}", settings).ports(memory_stores(), settings.policy)


@pytest.fixture
def ask(ports):
    """Return the data of a line at a time."""

    def run(at, line):
        now = datetime.fromisoformat(at).replace(tzinfo=UTC)
        call = understand(line, now)
        return asyncio.run(
            call.command.handler(
                ports, Request(line, User("web:me"), now, "web", MEMBER), **call.arguments
            )
        ).data

    return run


def test_status_says_of_a_compile_what_it_has_cost(ask):
    (one,) = ask("2026-11-17T20:30", "status llama")["compiles"]
    assert (one["ending"], len(one["nodes"]), one["end"], one["grace_seconds"]) == (
        "going on",
        8,
        None,
        3600,
    )
    assert 0 < one["spared_usd"] < one["usd"]
    assert one["again"] is False


def test_the_second_run_that_compiles_again_has_a_cache_that_went_cold(ask):
    (one,) = ask("2026-11-18T20:30", "status llama")["compiles"]
    assert (one["ending"], one["again"]) == ("going on", True)


def test_a_compile_that_was_cut_off_is_wasted_dollars_in_status_and_in_the_bill(ask):
    (one,) = ask("2026-11-18T11:15", "status vision")["compiles"]
    assert (one["ending"], len(one["nodes"])) == ("cut off", 4)
    compiling = ask("2026-11-18T13:00", "cost 2026-11-17..2026-11-18 cluster=vision")["compiling"]
    assert 0 < compiling["cut_usd"] < compiling["usd"]
    assert compiling["compiles"] == 2
    assert compiling["estimated"] is True


def test_a_question_that_metrics_cannot_answer_has_no_compile_line(ask):
    assert "compiling" not in ask(
        "2026-11-18T13:00", "cost 2026-11-17..2026-11-18 service=AmazonS3"
    )
    assert "compiling" not in ask("2026-11-18T13:00", "cost 2026-10-17..2026-10-18")
