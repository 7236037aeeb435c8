"""Show the settings that apply, and the file they make."""

from __future__ import annotations

from collections.abc import Sequence

from bot.cards.card import Align, Block, Card, Code, Column, Table, Tone, quiet, text
from bot.model.policy import Policy
from bot.policy.setting import Setting

_MOST = 20


def config_card(settings: Sequence[Setting], policy: Policy, rule: str, cluster: str) -> Card:
    """List settings with their values; those that differ from the default say so."""
    columns = (Column("setting"), Column("value", Align.RIGHT), Column("default", Align.RIGHT), Column("meaning"))
    rows = tuple((s.key, s.show(policy.values[s.key]), s.show(s.default), s.meaning) for s in settings[:_MOST])
    rest = f"and {len(settings) - _MOST} more; name a rule: config show idle" if len(settings) > _MOST else ""
    told = {s.source: [x.key for x in settings if x.source == s.source] for s in settings} if rule else {}
    sources = "; ".join(f"{source} ({', '.join(keys)})" for source, keys in told.items())
    blocks: list[Block] = [Table(columns, rows, rest=rest)]
    blocks += [quiet(f"Sources: {sources}")] if sources else []
    blocks += [
        quiet("Change them in the [policy] part of the settings file; try a change first with ", Code("backtest DIR policy=FILE"))
    ]
    data = {"settings": {s.key: s.show(policy.values[s.key]) for s in settings}}
    return Card(f"Settings{f' of {rule}' if rule else ''}{f' for {cluster}' if cluster else ''}", Tone.INFO, tuple(blocks), data)


def export_card(toml: str) -> Card:
    """Hold the file as text."""
    return Card("Every setting as TOML", Tone.INFO, (text(Code(toml)),), {"toml": toml})
