"""Answer which settings apply, where they come from, and who changed them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from bot.answers.config.preview import edit_data, edit_lines, edit_words, scope_words
from bot.cards.card import (
    Block,
    Button,
    Buttons,
    Card,
    Code,
    Facts,
    Field,
    FieldKind,
    Form,
    Tone,
    When,
    compose,
    quiet,
    text,
)
from bot.cards.columns import NUMBER, Column, Columns
from bot.cards.lines import quote
from bot.errors import WrongInput, not_known
from bot.grammar.names import SCOPES, noting_unseen, scopes
from bot.grammar.registry import Needs, arg, command
from bot.model.labels import Labels
from bot.model.money import counted
from bot.model.policy import Attempt, Policy, Version, VersionKind
from bot.model.request import Request, Role
from bot.model.window import clock
from bot.policy.file import shown, write_policy
from bot.policy.schema import SETTINGS, Setting, SettingUnit, family_of
from bot.ports import Ports

_MOST = 15
_REFUSED = 5
_FOR_ALL = (
    "The thresholds change for everyone from the next tick on. This is undone in the same way."
)


_CHANGE = "{} → {}"


def applied_card(version: Version, again: bool = False) -> Card:
    """Say that a change holds now, and how to take it back."""
    verb, back = "Applied", ""
    if again:
        verb = "Applied before"
    elif version.doing is VersionKind.UNDO:
        verb = "Undone"

    if version.restores is not None:
        back = (
            f": back at version {version.restores}"
            if version.restores
            else ": the settings file alone"
        )

    return Card(
        f"{verb} as version {version.number}{back}",
        Tone.GOOD,
        (
            *edit_lines(version.edits),
            quiet("It takes effect at the next tick, in every replica. ", *_who(version)),
            Buttons((*_undo(version, "Undo"), _HISTORY)),
        ),
        version_data(version),
        public=True,
    )


_HISTORY = Button("History", "config history")


def cancelled_card(name: str) -> Card:
    """Say that nothing changed."""
    return Card("Cancelled; nothing changed", Tone.INFO, (), {"preview": name})


def _edits(version: Version) -> str:
    begun = {VersionKind.SET: "", VersionKind.IMPORT: "import: ", VersionKind.UNDO: "undo: "}
    words = "; ".join(edit_words(edit) for edit in version.edits[:2])
    others = f" and {len(version.edits) - 2} more" if len(version.edits) > 2 else ""
    return begun[version.doing] + words + others


_VERSIONS = Columns[Version](
    Column("no.", lambda version: version.number),
    Column("when", lambda version: clock(version.at)),
    Column("who", lambda version: version.who, missing=""),
    Column("what", _edits, missing=""),
    Column(
        "preview",
        lambda version: (
            _CHANGE.format(*version.shown["alerts"]) + " alerts"
            if "alerts" in version.shown
            else None
        ),
    ),
)
_REFUSALS = Columns[Attempt](
    Column("when", lambda attempt: clock(attempt.at)),
    Column("who", lambda attempt: attempt.who, missing=""),
    Column("line", lambda attempt: attempt.line, missing=""),
    Column("why", lambda attempt: attempt.refused),
)


def history_card(versions: Sequence[Version], attempts: Sequence[Attempt], page: int = 1) -> Card:
    """List the versions, newest first, and who was refused, a page of each; the data hold all."""
    refused = [attempt for attempt in attempts if attempt.refused]
    pages = max(1, -(-len(versions) // _MOST), -(-len(refused) // _REFUSED))
    if page > pages:
        raise WrongInput(f"The history has {counted(pages, 'page')}; got page {page}.", "page")

    shown = versions[(page - 1) * _MOST : page * _MOST]
    shown_refused = refused[(page - 1) * _REFUSED : page * _REFUSED]
    undo = _undo(versions[0], f"Undo version {versions[0].number}") if versions else ()
    older = (Button("Older", f"config history page={page + 1}"),) if page < pages else ()
    buttons = (*undo, *older)

    return Card(
        "Who changed the policy",
        Tone.INFO,
        compose(
            bool(shown) and _VERSIONS.table(shown),
            not versions and quiet("Nobody has changed the policy: the settings file applies."),
            bool(shown_refused) and _REFUSALS.table(shown_refused, caption="Refused"),
            pages > 1 and quiet(f"Page {page} of {pages}; csv config history has all of them."),
            bool(buttons) and Buttons(buttons),
        ),
        {
            "versions": [version_data(version) for version in versions],
            "attempts": [vars(attempt) for attempt in attempts],
        },
    )


def version_card(version: Version) -> Card:
    """Show one version with the summary of its preview."""
    summary, facts = version.shown, []
    if "alerts" in summary:
        facts.append(("alerts sent", _CHANGE.format(*summary["alerts"])))
    facts += [
        (f"notifications to {channel}", _CHANGE.format(*counts))
        for channel, counts in summary.get("notices", {}).items()
    ]
    if "waste_usd" in summary:
        facts.append(("waste caught", "${} → ${}".format(*summary["waste_usd"])))
    line = f"config undo to={version.number - 1}"

    return Card(
        f"Version {version.number} of the policy",
        Tone.INFO,
        compose(
            edit_lines(version.edits),
            quiet(*_who(version)),
            bool(summary) and Facts(tuple(facts)),
            Buttons((Button("Return to the version before it", line, confirm=_FOR_ALL),)),
        ),
        version_data(version),
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


_SHOW_MOST = 20
_LABEL = 140


def config_card(
    settings: Sequence[Setting], policy: Policy, rule: str, scope: Labels, newest: Version | None
) -> Card:
    """List settings with their values; those that differ from the default say so."""
    values = {setting.key: setting.show(policy.values[setting.key]) for setting in settings}
    columns = Columns[Setting](
        Column("setting", lambda setting: setting.key),
        Column("value", lambda setting: values[setting.key], NUMBER, missing=""),
        Column("default", lambda setting: setting.show(setting.default), NUMBER, missing=""),
        Column("meaning", lambda setting: setting.meaning),
    )

    return Card(
        f"Settings{f' of {rule}' if rule else ''}{scope_words(scope)}",
        Tone.INFO,
        compose(
            columns.table(
                settings,
                most=_SHOW_MOST,
                rest="and {} more; name a rule: config show idle",
                opens=lambda setting: _typed("config", family_of(setting.key), scope),
            ),
            truth(newest),
            Buttons(
                (Button("Change…", _typed("config", family_of(rule), scope), opens=True), _HISTORY)
            ),
        ),
        {"settings": values},
    )


def truth(newest: Version | None) -> Block:
    """Say where the policy in force comes from."""
    if newest is None or not newest.overrides:
        return quiet(
            "In force: the [policy] part of the settings file, where it has one, and defaults for"
            " everything else."
        )
    return quiet(
        f"In force: version {newest.number} by {newest.who}, ",
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
    fields = (
        Field("rule", "What", FieldKind.CHOICE, families[0], rules, required=True),
        *(
            Field(
                name,
                f"Only this {name}",
                FieldKind.CHOICE if choices.get(name) else FieldKind.TEXT,
                options=tuple((word, word) for word in choices.get(name, ())),
                hint="everywhere when left empty",
            )
            for name in SCOPES
        ),
    )

    return Card(
        "Settings",
        Tone.INFO,
        (
            _CHANGED.table(
                changed,
                most=_SHOW_MOST,
                rest="and {} more; config export lists all",
                caption="What differs from the defaults",
            )
            if changed
            else quiet("Every setting is at its default."),
            truth(newest),
            Form("Change settings", "config", fields, "Show"),
            Buttons((_HISTORY,)),
        ),
        {"changed": [list(row) for row in changed]},
    )


_CHANGED = Columns[tuple[str, ...]](
    Column("setting", lambda row: row[0]),
    Column("where", lambda row: row[1]),
    Column("value", lambda row: row[2], NUMBER, missing=""),
    Column("default", lambda row: row[3], NUMBER, missing=""),
)


def form_card(
    rule: str, settings: Sequence[Setting], values: Mapping[str, str], scope: Labels
) -> Card:
    """Ask for the values of one rule at one scope; a field left as it stands changes nothing."""
    title = f"Settings of {rule.replace('_', ' ')}{scope_words(scope)}"
    fields = []
    for setting in settings:
        low, high = setting.bounds()
        between = f"{low} to {high}; " if low else ""
        kind = FieldKind.SWITCH if setting.unit is SettingUnit.SWITCH else FieldKind.TEXT
        label = setting.meaning[:1].upper() + setting.meaning[1:]
        hint = f"{setting.key}: {between}default {setting.show(setting.default)}"
        fields.append(Field(setting.key, label[:_LABEL], kind, values[setting.key], hint=hint))

    return Card(
        title,
        Tone.INFO,
        (
            quiet(
                "Nothing changes yet: first comes a preview, the watch run over the last 14 days."
            ),
            Form(title, _typed("config set", "", scope), tuple(fields), "Preview"),
        ),
        {"settings": dict(values)},
    )


def export_card(toml: str, *, every: bool = True) -> Card:
    """Hold the file as text: of every setting, or of those that differ from the defaults."""
    title = "Every setting as TOML" if every else "What differs from the defaults, as TOML"
    shown = text(Code(toml)) if toml.strip() else text("Every setting is at its default.")
    return Card(title, Tone.INFO, (shown,), {"toml": toml})


def _typed(line: str, rule: str, scope: Labels) -> str:
    words = (line, rule, *(f"{name}={quote(value)}" for name, value in scope))
    return " ".join(filter(None, words))


FAMILIES = tuple(dict.fromkeys(family_of(key) for key in SETTINGS))
EVER = 100_000
"""Versions and attempts that are read at once: more than people ever make."""


@command(
    "config",
    "Open a form to change thresholds; a preview comes first.",
    needs=Needs.DATABASE,
    may=Needs.METRICS,
    examples=("config", "config idle", "config idle cluster=llama"),
    who=Role.ADMIN,
    figures={
        "settings/*": "the policy in force: defaults, the settings file and people's changes",
    },
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
    if rule:
        # What has no scope is changed for everybody.
        fitting = [setting for setting in chosen if setting.scoped or not str(scope)]
        values = {key: shown(policy, scope, key) for key in SETTINGS}
        return await noting_unseen(
            form_card(rule, fitting or chosen, values, scope if fitting else Labels()),
            ports,
            request,
            scope,
        )

    rows = [
        (setting.key, "everywhere", setting.show(policy.values[setting.key]), default)
        for setting in SETTINGS.values()
        if (default := setting.show(setting.default)) != setting.show(policy.values[setting.key])
    ]
    rows += [
        (key, str(where), SETTINGS[key].show(value), SETTINGS[key].show(SETTINGS[key].default))
        for where, key, value in policy.overrides
    ]
    choices = await asyncio.to_thread(scopes, ports, request)

    return await noting_unseen(chooser_card(FAMILIES, choices, rows, newest), ports, request, scope)


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

    return await noting_unseen(
        config_card(chosen, policy.at(scope), rule, scope, newest), ports, request, scope
    )


@command(
    "config export",
    "The policy in force as a TOML file, to keep in git or to use with 'backtest policy=FILE'.",
    needs=Needs.DATABASE,
    examples=("config export", "config export changed"),
)
def config_export(
    ports: Ports,
    request: Request,
    what: str = arg(
        "all", "every setting, or what differs from the defaults", choices=("all", "changed")
    ),
) -> Card:
    """Print the policy as `backtest policy=FILE` and `config import` read it."""
    whole = what == "all"
    return export_card(write_policy(ports.policy, every=whole), every=whole)


@command(
    "config history",
    "Changes of the policy: by whom, when, old and new values, and refused attempts.",
    needs=Needs.DATABASE,
    examples=("config history", "config history page=2", "config history 3"),
    figures={
        "version": "count of the changes of the policy up to it",
        "restores": "the version whose policy an undo returned to",
        "shown/*": "of a replay with the policy before and after, as its preview showed it",
        "notices/*": "of the same replay, by channel",
    },
)
def config_history(
    ports: Ports,
    request: Request,
    number: int | None = arg("", "one version, with the result of its preview"),
    page: int = arg("1", "the page of the list, the newest first", keyword=True),
) -> Card:
    """List versions, or show one."""
    if page < 1:
        raise WrongInput(f"Pages begin at 1; got {page}.", "page")
    versions = ports.stores.versions.versions(EVER)
    if number is None:
        return history_card(versions, ports.stores.versions.attempts(EVER), page)
    version = next((version for version in versions if version.number == number), None)
    if version is None:
        raise not_known(
            f"There is no version {number}",
            str(number),
            [str(version.number) for version in versions[:5]],
        )

    return version_card(version)


def settings_of(rule: str) -> list[Setting]:
    """Return the settings of a rule, or the one setting of that key.

    Raise `WrongInput` with the nearest rule.
    """
    if rule not in FAMILIES and rule not in SETTINGS:
        raise not_known(
            f"'{rule}' has no settings",
            rule,
            FAMILIES,
            otherwise="'config' lists the rules that have",
        )
    return [
        setting for key, setting in SETTINGS.items() if key == rule or key.startswith(f"{rule}.")
    ]


def _in_force(ports: Ports) -> tuple[Policy, Version | None]:
    # The version first: one that is made meanwhile is never said to be in force with older values.
    newest = next(iter(ports.stores.versions.versions(1)), None)
    return ports.policy, newest
