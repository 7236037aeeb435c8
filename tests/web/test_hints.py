"""The console's page of commands links to lines that work as they stand; of the others it begins to type."""

from __future__ import annotations

from bot.wiring.surfaces import command_hints


def test_a_command_about_one_alert_is_begun_and_not_asked_of_an_alert_that_nobody_has():
    asked = [hint.example for hint in command_hints() if not hint.needed and not hint.changes]
    assert "alerts" in asked
    assert not [line for line in asked if "a1b2c3d4e" in line]
