"""Watch a folder that has a bill and no metrics, and never call well what nobody can see."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from adapters.store.memory import MemoryStore
from bot.errors import Unavailable
from bot.model.reading import HISTORY
from bot.wiring.checks import examine
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource
from tests.answers.configuring import app, ask
from tests.answers.golden_worlds import recorded


def opened(folder: Path) -> OpenedSource:
    source = f"recording:{folder}"
    return OpenedSource(source, settings_of({"source": source}))


async def test_a_bill_alone_is_watched_and_says_what_it_cannot_see() -> None:
    source = opened(recorded("bill"))
    span = source.recording().extent()
    assert source.recording().billed_alone
    assert span.end - span.start == HISTORY
    assert source.end() == span.end

    bot = app(source, MemoryStore())
    result = await bot.tick(span.end - timedelta(hours=1))
    assert result is not None
    await bot.tick(span.end)
    alerts = await ask(bot, "alerts")
    assert (alerts.data["known"], alerts.title[:10]) == ("partly known", "No alert i")
    assert "has no metrics" in alerts.data["because"]
    assert (await ask(bot, "cost 7d by service")).data["rows"]

    for line, said in {
        "fleet": "It is not known which nodes run",
        "why cost 2026-12": "No alert was open in this window, as far as could be read. The recording",
        "about": "'metrics', 'none'",
    }.items():
        assert said in str(await ask(bot, line)), line
    metrics = examine(settings_of({"source": "recording:x"}), source)[0]
    assert (metrics.name, metrics.ok) == ("metrics", False)
    assert "has no metrics" in metrics.found


def test_what_has_neither_is_not_watched_and_broken_metrics_are_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="has no metric that could be read"):
        opened(tmp_path).recording()

    (tmp_path / "billing").symlink_to(recorded("bill") / "billing")
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "stream-1").write_text("{broken\n")
    broken = opened(tmp_path)
    assert broken.recording().billed_alone
    assert "stream-1" in examine(settings_of({"source": "recording:x"}), broken)[0].found
