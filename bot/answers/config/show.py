"""Answer which settings apply, where they come from, and who changed them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from bot.answers.config.preview import edit_data, edit_lines, edit_words
from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    Card,
    Code,
    Facts,
    Field,
    FieldKind,
    Form,
    Heading,
    Table,
    Tone,
    When,
    folded,
    quiet,
    text,
)
from bot.cards.lines import quote
from bot.cards.words import clock
from bot.errors import WrongInput, nearest
from bot.grammar.names import SCOPES, noting_unseen, scopes
from bot.grammar.registry import Needs, arg, command
from bot.model.labels import Labels
from bot.model.policy import Attempt, Policy, Version, VersionKind
from bot.model.request import Request, Role
from bot.policy.change import shown
from bot.policy.file import write_policy
from bot.policy.schema import SETTINGS, Setting, SettingUnit
from bot.ports import Ports

_MOST = 15
_REFUSED = 5
_FOR_ALL = (
    "The thresholds change for everyone from the next tick on. This is undone in the same way."
)


def applied_card(version: Version, again: bool = False) -> Card:
    """Say that a change holds now, and how to take it back."""
    verb = (
        "Applied before" if again else "Undone" if version.doing is VersionKind.UNDO else "Applied"
    )
    back = f": back at version {version.restores}" if version.restores else ""
    back = ": the settings file alone" if version.restores == 0 else back
    blocks = [
        *edit_lines(version.edits),
        quiet("It takes effect at the next tick, in every replica. ", *_who(version)),
        Buttons((*_undo(version, "Undo"), Button("History", "config history"))),
    ]
    return Card(
        f"{verb} as version {version.number}{back}",
        Tone.GOOD,
        tuple(blocks),
        version_data(version),
        public=True,
    )


def cancelled_card(name: str) -> Card:
    """Say that nothing changed."""
    return Card("Cancelled; nothing changed", Tone.INFO, (), {"preview": name})


def history_card(versions: Sequence[Version], attempts: Sequence[Attempt]) -> Card:
    """List the versions, newest first, and who was refused."""
    refused = [attempt for attempt in attempts if attempt.refused][:_REFUSED]
    blocks: list[Block] = (
        [_versions(versions)]
        if versions
        else [quiet("Nobody has changed the policy: the settings file applies.")]
    )
    blocks += [_refused(refused)] if refused else []
    undo = _undo(versions[0], f"Undo version {versions[0].number}") if versions else ()
    blocks += [Buttons(undo)] if undo else []
    data = {
        "versions": [version_data(version) for version in versions],
        "attempts": [vars(attempt) for attempt in attempts],
    }
    return Card("Who changed the policy", Tone.INFO, tuple(blocks), data)


def version_card(version: Version) -> Card:
    """Show one version with the summary of its preview."""
    blocks: list[Block] = [*edit_lines(version.edits), quiet(*_who(version))]
    blocks += [Facts(_preview_facts(version.shown))] if version.shown else []
    blocks.append(
        Buttons(
            (
                Button(
                    "Return to the version before it",
                    f"config undo to={version.number - 1}",
                    confirm=_FOR_ALL,
                ),
            )
        )
    )
    return Card(
        f"Version {version.number} of the policy", Tone.INFO, tuple(blocks), version_data(version)
    )


def version_data(version: Version) -> dict[str, Any]:
    """Return one version as data."""
    return {
        "version": version.number,
        "at": version.at,
        "by": version.by,
        "doing": version.doing.value,
        "edits": [edit_data(edit) for edit in version.edits],
        "preview": version.preview,
        "shown": dict(version.shown),
        "restores": version.restores,
    }


def _undo(newest: Version, words: str) -> tuple[Button, ...]:
    """Return the button that goes back, none where nothing is left to take back."""
    if newest.doing is not VersionKind.UNDO:
        return (Button(words, "config undo"),)
    return (Button("Go back further", "config undo", confirm=_FOR_ALL),) if newest.restores else ()


def _who(version: Version) -> tuple[str | When, ...]:
    return (f"By {version.who}, ", When(version.at), ".")


def _versions(versions: Sequence[Version]) -> Table:
    columns = (Heading("no."), Heading("when"), Heading("who"), Heading("what"), Heading("preview"))
    rows = tuple(
        (str(v.number), clock(v.at), v.who, _what(v), _alerts(v.shown)) for v in versions[:_MOST]
    )
    rest = (
        f"and {len(versions) - _MOST} more; config history NUMBER shows one"
        if len(versions) > _MOST
        else ""
    )
    return Table(columns, rows, rest=rest)


def _what(version: Version) -> str:
    words = "; ".join(edit_words(edit) for edit in version.edits[:2])
    more = f" and {len(version.edits) - 2} more" if len(version.edits) > 2 else ""
    begun = {VersionKind.SET: "", VersionKind.IMPORT: "import: ", VersionKind.UNDO: "undo: "}[
        version.doing
    ]
    return begun + words + more


def _alerts(shown: Mapping[str, Any]) -> str:
    return "{} → {} alerts".format(*shown["alerts"]) if "alerts" in shown else "–"


def _refused(attempts: Sequence[Attempt]) -> Table:
    columns = (Heading("when"), Heading("who"), Heading("line"), Heading("why"))
    rows = tuple((clock(a.at), a.who, a.line, a.refused) for a in attempts)
    return Table(columns, rows, caption="Refused")


def _preview_facts(shown: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    pairs = [("alerts sent", "{} → {}".format(*shown["alerts"]))] if "alerts" in shown else []
    pairs += [
        (f"notifications to {name}", "{} → {}".format(*both))
        for name, both in shown.get("notices", {}).items()
    ]
    if "waste_usd" in shown:
        pairs.append(("waste caught", "${} → ${}".format(*shown["waste_usd"])))
    return tuple(pairs)


_SHOW_MOST = 20
_LABEL = 140


def config_card(
    settings: Sequence[Setting], policy: Policy, rule: str, scope: Labels, newest: Version | None
) -> Card:
    """List settings with their values; those that differ from the default say so."""
    columns = (
        Heading("setting"),
        Heading("value", Align.RIGHT),
        Heading("default", Align.RIGHT),
        Heading("meaning"),
    )
    rows = tuple(
        (s.key, s.show(policy.values[s.key]), s.show(s.default), s.meaning) for s in settings
    )
    lines = tuple(_typed("config", _rule(s.key), scope) for s in settings)
    table = folded(
        Table(columns, rows, lines=lines),
        _SHOW_MOST,
        f"and {len(settings) - _SHOW_MOST} more; name a rule: config show idle",
    )
    keys_by_source = (
        {s.source: [x.key for x in settings if x.source == s.source] for s in settings}
        if rule
        else {}
    )
    sources = "; ".join(f"{source} ({', '.join(keys)})" for source, keys in keys_by_source.items())
    blocks: list[Block] = [table, truth(newest)]
    blocks += [quiet(f"Sources: {sources}")] if sources else []
    blocks.append(
        Buttons(
            (Button("Change…", _typed("config", rule and _rule(rule), scope), opens=True), _HISTORY)
        )
    )
    data = {"settings": {s.key: s.show(policy.values[s.key]) for s in settings}}
    return Card(
        f"Settings{f' of {rule}' if rule else ''}{_for(scope)}", Tone.INFO, tuple(blocks), data
    )


def truth(newest: Version | None) -> Block:
    """Say where the policy in force comes from."""
    if newest is None or not newest.overrides:
        return quiet(
            "In force: the [policy] part of the settings file, and defaults for what it does not say."
        )
    by = newest.who
    return quiet(
        f"In force: version {newest.number} by {by}, ",
        When(newest.at),
        ", over the [policy] part of the settings file. ",
        Code("config export"),
        " writes both as one file, to be kept in git.",
    )


def chooser_card(
    families: Sequence[str],
    choices: Mapping[str, Sequence[str]],
    changed: Sequence[tuple[str, ...]],
    newest: Version | None,
) -> Card:
    """Ask which settings shall change, and for whom; show those that differ from the defaults."""
    rules = tuple((family, family.replace("_", " ")) for family in families)
    fields = [Field("rule", "What", FieldKind.CHOICE, families[0], rules, required=True)]
    fields += [_scope_field(name, choices.get(name, ())) for name in SCOPES]
    columns = (
        Heading("setting"),
        Heading("where"),
        Heading("value", Align.RIGHT),
        Heading("default", Align.RIGHT),
    )
    rows = tuple(changed[:_SHOW_MOST])
    rest = (
        f"and {len(changed) - _SHOW_MOST} more; config export lists all"
        if len(changed) > _SHOW_MOST
        else ""
    )
    table = Table(columns, rows, caption="What differs from the defaults", rest=rest)
    shown: Block = table if changed else quiet("Every setting stands at its default.")
    blocks = (
        shown,
        truth(newest),
        Form("Change settings", "config", tuple(fields), "Show"),
        Buttons((_HISTORY,)),
    )
    return Card("Settings", Tone.INFO, blocks, {"changed": [list(row) for row in changed]})


def form_card(
    rule: str, settings: Sequence[Setting], values: Mapping[str, str], scope: Labels, note: str = ""
) -> Card:
    """Ask for the values of one rule at one scope; a field left as it stands changes nothing."""
    title = f"Settings of {rule.replace('_', ' ')}{_for(scope)}"
    fields = tuple(_field(setting, values[setting.key]) for setting in settings)
    form = Form(title, _typed("config set", "", scope), fields, "Preview")
    words = (
        note
        or "Nothing changes yet: first comes a preview, the watch itself run over the last 14 days."
    )
    return Card(title, Tone.INFO, (quiet(words), form), {"settings": dict(values)})


def export_card(toml: str) -> Card:
    """Hold the file as text."""
    return Card("Every setting as TOML", Tone.INFO, (text(Code(toml)),), {"toml": toml})


def _field(setting: Setting, value: str) -> Field:
    low, high = setting.bounds()
    between = "" if low == "–" else f"{low} to {high}; "
    kind = FieldKind.SWITCH if setting.unit is SettingUnit.SWITCH else FieldKind.TEXT
    label = setting.meaning[:1].upper() + setting.meaning[1:]
    hint = f"{setting.key}: {between}default {setting.show(setting.default)}"
    return Field(setting.key, label[:_LABEL], kind, value, hint=hint)


def _scope_field(name: str, choices: Sequence[str]) -> Field:
    label = f"Only this {name}"
    if not choices:
        return Field(name, label, hint="everywhere when left empty")
    return Field(
        name,
        label,
        FieldKind.CHOICE,
        "",
        tuple((word, word) for word in choices),
        "everywhere when left empty",
    )


def _typed(line: str, rule: str, scope: Labels) -> str:
    return " ".join(
        [line, *([rule] if rule else []), *(f"{name}={quote(value)}" for name, value in scope)]
    )


def _rule(rule: str) -> str:
    return rule.partition(".")[0]


def _for(scope: Labels) -> str:
    return f" for {scope}" if str(scope) else ""


_HISTORY = Button("History", "config history")


FAMILIES = tuple(dict.fromkeys(key.partition(".")[0] for key in SETTINGS))
_LISTED = 100


_CONFIG_FIGURES = {
    "settings/*": "the policy in force: defaults, the settings file and people's changes",
}


@command(
    "config",
    "Open a form to change thresholds; a preview comes first.",
    needs=Needs.DATABASE,
    may=Needs.METRICS,
    examples=("config", "config idle", "config idle cluster=llama"),
    who=Role.ADMIN,
    figures=_CONFIG_FIGURES,
)
async def config(
    ports: Ports,
    request: Request,
    rule: str = arg("", "the rule whose settings to change; opens a form when left out"),
    cluster: str = arg("", "only for this cluster", keyword=True),
    team: str = arg("", "only for this team", keyword=True),
    account: str = arg("", "only for this account", keyword=True),
) -> Card:
    """Ask for the rule and scope, then for its values."""
    scope = Labels(cluster=cluster, team=team, account=account)
    chosen = settings_of(rule) if rule else []
    policy, newest = await asyncio.to_thread(_in_force, ports)
    if chosen:
        fitting = [s for s in chosen if s.scoped or not str(scope)]
        card = form_card(
            rule, fitting or chosen, _values(policy, scope), scope if fitting else Labels()
        )
        return await noting_unseen(card, ports, request, scope)
    choices = await asyncio.to_thread(scopes, ports, request)
    return await noting_unseen(
        chooser_card(FAMILIES, choices, _changed(policy), newest), ports, request, scope
    )


@command(
    "config show",
    "The thresholds in force, and where each comes from.",
    needs=Needs.DATABASE,
    may=Needs.METRICS,
    examples=("config show idle", "config show idle llama"),
)
async def config_show(
    ports: Ports,
    request: Request,
    rule: str = arg("", "only this rule's settings"),
    cluster: str = arg("", "as in force for this cluster"),
    team: str = arg("", "as in force for this team", keyword=True),
    account: str = arg("", "as in force for this account", keyword=True),
) -> Card:
    """Show settings with value, default, bounds, meaning and source."""
    chosen = settings_of(rule) if rule else list(SETTINGS.values())
    scope = Labels(cluster=cluster, team=team, account=account)
    policy, newest = await asyncio.to_thread(_in_force, ports)
    card = config_card(chosen, policy.at(scope), rule, scope, newest)
    return await noting_unseen(card, ports, request, scope)


@command(
    "config export",
    "The policy in force as a TOML file, to keep in git or to use with 'backtest policy=FILE'.",
    needs=Needs.DATABASE,
    examples=("config export", "config export changed"),
)
async def config_export(
    ports: Ports,
    request: Request,
    what: str = arg(
        "all", "every setting, or what differs from the defaults", choices=("all", "changed")
    ),
) -> Card:
    """Print the policy as `backtest policy=FILE` and `config import` read it."""
    policy, _ = await asyncio.to_thread(_in_force, ports)
    return export_card(write_policy(policy, every=what == "all"))


@command(
    "config history",
    "Changes of the policy: by whom, when, old and new values, and refused attempts.",
    needs=Needs.DATABASE,
    examples=("config history", "config history 3"),
)
async def config_history(
    ports: Ports,
    request: Request,
    number: int | None = arg("", "one version, with the result of its preview"),
) -> Card:
    """List versions, or show one."""
    versions = await asyncio.to_thread(ports.stores.versions.versions, _LISTED)
    if number is None:
        return history_card(
            versions, await asyncio.to_thread(ports.stores.versions.attempts, _LISTED)
        )
    chosen = [version for version in versions if version.number == number]
    if not chosen:
        raise WrongInput(
            f"There is no version {number}{nearest(str(number), [str(v.number) for v in versions[:5]])}."
        )
    return version_card(chosen[0])


def settings_of(rule: str) -> list[Setting]:
    """Return the settings of a rule, or the one setting of that key.

    Raise `WrongInput` with the nearest rule.
    """
    if rule not in FAMILIES and rule not in SETTINGS:
        raise WrongInput(f"'{rule}' has no settings{nearest(rule, FAMILIES, most=len(FAMILIES))}.")
    return [s for key, s in SETTINGS.items() if key == rule or key.startswith(f"{rule}.")]


def _in_force(ports: Ports) -> tuple[Policy, Version | None]:
    newest = ports.stores.versions.versions(1)
    return ports.policy, newest[0] if newest else None


def _values(policy: Policy, scope: Labels) -> dict[str, str]:
    return {key: shown(policy, scope, key) for key in SETTINGS}


def _changed(policy: Policy) -> Sequence[tuple[str, ...]]:
    """Return the settings that differ from the defaults: key, scope, value, default."""
    everywhere = [
        (s.key, "everywhere", s.show(policy.values[s.key]), s.show(s.default))
        for s in SETTINGS.values()
    ]
    scoped = [
        (key, str(scope), SETTINGS[key].show(value), SETTINGS[key].show(SETTINGS[key].default))
        for scope, key, value in policy.overrides
    ]
    return [row for row in everywhere if row[2] != row[3]] + scoped
