"""`faults` over a real recording."""

from __future__ import annotations

from bot.app import App
from tests.answers.configuring import ask, end, refused


async def test_a_calm_fleet_says_how_long_it_was_seen_and_a_wrong_node_what_to_ask(
    bot: App,
) -> None:
    card = await ask(bot, "faults 7d", at=end(bot))
    assert card.title.startswith("No faults of nodes")
    assert "node-hours observed" in str(card)
    assert card.data["usd"] == 0
    assert "'faults' lists" in refused(await ask(bot, "faults 7d node=i-0abc", at=end(bot)))
