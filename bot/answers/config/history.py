"""Show who changed the policy, when, and each value before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bot.answers.config.preview import edit_data, edit_lines, edit_words
from bot.cards.card import Block, Button, Buttons, Card, Column, Facts, Table, Tone, When, quiet
from bot.cards.words import clock
from bot.model.version import Attempt, Version, VersionKind

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
    columns = (Column("no."), Column("when"), Column("who"), Column("what"), Column("preview"))
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
    columns = (Column("when"), Column("who"), Column("line"), Column("why"))
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
