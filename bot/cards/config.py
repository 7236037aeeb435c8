"""Show the settings that apply, the forms that change them, and the file they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    Card,
    Code,
    Column,
    Field,
    FieldKind,
    Form,
    Table,
    Tone,
    When,
    quiet,
    text,
)
from bot.cards.lines import quote
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.model.version import Version
from bot.policy.setting import Setting, Unit

SCOPES = ("cluster", "team", "account")
"""What a change can be narrowed to, as it is typed."""
_MOST = 20
_LABEL = 140


def config_card(settings: Sequence[Setting], policy: Policy, rule: str, scope: Labels, newest: Version | None) -> Card:
    """List settings with their values; those that differ from the default say so."""
    columns = (Column("setting"), Column("value", Align.RIGHT), Column("default", Align.RIGHT), Column("meaning"))
    rows = tuple((s.key, s.show(policy.values[s.key]), s.show(s.default), s.meaning) for s in settings[:_MOST])
    rest = f"and {len(settings) - _MOST} more; name a rule: config show idle" if len(settings) > _MOST else ""
    told = {s.source: [x.key for x in settings if x.source == s.source] for s in settings} if rule else {}
    sources = "; ".join(f"{source} ({', '.join(keys)})" for source, keys in told.items())
    blocks: list[Block] = [Table(columns, rows, rest=rest), truth(newest)]
    blocks += [quiet(f"Sources: {sources}")] if sources else []
    blocks.append(Buttons((Button("Change…", _typed("config", rule and _rule(rule), scope), opens=True), _HISTORY)))
    data = {"settings": {s.key: s.show(policy.values[s.key]) for s in settings}}
    return Card(f"Settings{f' of {rule}' if rule else ''}{_for(scope)}", Tone.INFO, tuple(blocks), data)


def truth(newest: Version | None) -> Block:
    """Say where the policy in force comes from."""
    if newest is None or not newest.overrides:
        return quiet("In force: the [policy] part of the settings file, and defaults for what it does not say.")
    by = newest.by_name or newest.by
    return quiet(
        f"In force: version {newest.number} by {by}, ",
        When(newest.at),
        ", over the [policy] part of the settings file. ",
        Code("config export"),
        " writes both as one file, to be kept in git.",
    )


def chooser_card(
    families: Sequence[str], known: Mapping[str, Sequence[str]], changed: Sequence[tuple[str, ...]], newest: Version | None
) -> Card:
    """Ask which settings shall change, and for whom; show what differs from the defaults."""
    rules = tuple((family, family.replace("_", " ")) for family in families)
    fields = [Field("rule", "What", FieldKind.CHOICE, families[0], rules, required=True)]
    fields += [_scope_field(name, known.get(name, ())) for name in SCOPES]
    columns = (Column("setting"), Column("where"), Column("value", Align.RIGHT), Column("default", Align.RIGHT))
    rows = tuple(changed[:_MOST])
    rest = f"and {len(changed) - _MOST} more; config export lists all" if len(changed) > _MOST else ""
    table = Table(columns, rows, caption="What differs from the defaults", rest=rest)
    shown: Block = table if changed else quiet("Every setting stands at its default.")
    blocks = (shown, truth(newest), Form("Change settings", "config", tuple(fields), "Show"), Buttons((_HISTORY,)))
    return Card("Settings", Tone.INFO, blocks, {"changed": [list(row) for row in changed]})


def form_card(rule: str, settings: Sequence[Setting], values: Mapping[str, str], scope: Labels, note: str = "") -> Card:
    """Ask for the values of one rule at one scope; what is left as it stands changes nothing."""
    title = f"Settings of {rule.replace('_', ' ')}{_for(scope)}"
    fields = tuple(_field(setting, values[setting.key]) for setting in settings)
    form = Form(title, _typed("config set", "", scope), fields, "Preview")
    words = note or "Nothing changes yet: first comes a preview, the watch itself run over the last 14 days."
    return Card(title, Tone.INFO, (quiet(words), form), {"settings": dict(values)})


def export_card(toml: str) -> Card:
    """Hold the file as text."""
    return Card("Every setting as TOML", Tone.INFO, (text(Code(toml)),), {"toml": toml})


def _field(setting: Setting, value: str) -> Field:
    low, high = setting.bounds()
    between = "" if low == "–" else f"{low} to {high}; "
    kinds = {Unit.SWITCH: FieldKind.SWITCH, Unit.WORD: FieldKind.CHOICE}
    kind = kinds.get(setting.unit, FieldKind.TEXT) if setting.unit is not Unit.WORD or setting.choices else FieldKind.TEXT
    label = setting.meaning[:1].upper() + setting.meaning[1:]
    options = tuple((choice, choice) for choice in setting.choices)
    hint = f"{setting.key}: {between}default {setting.show(setting.default)}"
    return Field(setting.key, label[:_LABEL], kind, value, options, hint)


def _scope_field(name: str, known: Sequence[str]) -> Field:
    label = f"Only this {name}"
    if not known:
        return Field(name, label, hint="everywhere when left empty")
    return Field(name, label, FieldKind.CHOICE, "", tuple((word, word) for word in known), "everywhere when left empty")


def _typed(line: str, rule: str, scope: Labels) -> str:
    return " ".join([line, *([rule] if rule else []), *(f"{name}={quote(value)}" for name, value in scope)])


def _rule(rule: str) -> str:
    return rule.partition(".")[0]


def _for(scope: Labels) -> str:
    return f" for {scope}" if str(scope) else ""


_HISTORY = Button("History", "config history")
