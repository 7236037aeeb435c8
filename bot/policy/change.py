"""Read the text of a change of the policy, lay it over the one in force, and list the edits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bot.errors import WrongInput
from bot.model.labels import Labels
from bot.model.policy import Edit, Override, Policy
from bot.policy.schema import SETTINGS, setting_of

BACK = "default"
"""What a person writes to take a change back."""
_EVERYWHERE = Labels()


def applied(base: Policy, overrides: Sequence[Override]) -> Policy:
    """Return the settings file's policy with the stored overrides over it.

    Of equal scopes the later wins.
    """
    values, scoped = dict(base.values), []
    for scope, key, text in overrides:
        if key not in SETTINGS:  # a setting of another version of trnbot: it waits for its return
            continue
        if text and scope == _EVERYWHERE:
            values[key] = SETTINGS[key].parse(text)
        elif text:
            scoped.append((scope, key, SETTINGS[key].parse(text)))
    overridden = {(scope, key) for scope, key, _ in overrides}
    return Policy(values, (*(o for o in base.overrides if o[:2] not in overridden), *scoped))


def read_changes(pairs: Iterable[tuple[str, str]], scope: Labels) -> tuple[Override, ...]:
    """Return the overrides that (key, text) pairs stand for.

    Raise one `WrongInput` that names every mistake.
    """
    overrides: dict[str, Override] = {}
    mistakes: list[tuple[str, str]] = []
    for key, text in pairs:
        try:
            if key in overrides:
                raise WrongInput(f"{key} is given twice; keep one.")
            overrides[key] = (scope, key, canonical(key, text, scope))
        except WrongInput as error:
            mistakes.append((key, str(error) if key in str(error) else f"{key}: {error}"))
    if mistakes:
        raise WrongInput(" ".join(sentence for _, sentence in mistakes), mistakes[0][0])
    return tuple(overrides.values())


def canonical(key: str, text: str, scope: Labels = _EVERYWHERE) -> str:
    """Return a value as it is stored, so that the value read back later is the one that was tried.

    Raise `WrongInput`.
    """
    setting = setting_of(key)
    setting.fits(scope)
    if text.strip().lower() == BACK:
        return BACK
    return setting.show(setting.parse(setting.show(setting.parse(text))))


def stacked(overrides: Sequence[Override], changes: Sequence[Override]) -> tuple[Override, ...]:
    """Return the stored overrides after a change: the newest last, those taken back gone."""
    changed = {change[:2] for change in changes}
    return (*(o for o in overrides if o[:2] not in changed), *(c for c in changes if c[2] != BACK))


def replaced(base: Policy, policy: Policy) -> tuple[Override, ...]:
    """Return the overrides that make `policy` of the settings file's policy."""
    everywhere = [
        (_EVERYWHERE, key, canonical(key, SETTINGS[key].show(value)))
        for key, value in policy.values.items()
        if value != base.values[key]
    ]
    scoped = [
        (scope, key, canonical(key, SETTINGS[key].show(value)))
        for scope, key, value in policy.overrides
    ]
    places = {(scope, key) for scope, key, _ in scoped}
    gone = [(scope, key, "") for scope, key, _ in base.overrides if (scope, key) not in places]
    return (*everywhere, *gone, *scoped)


def edits(before: Policy, after: Policy, overrides: Iterable[Override]) -> tuple[Edit, ...]:
    """Return the differences at the scopes and keys of `overrides`, each once."""
    places = dict.fromkeys((scope, key) for scope, key, _ in overrides if key in SETTINGS)
    compared = (
        Edit(scope, key, shown(before, scope, key), shown(after, scope, key))
        for scope, key in places
    )
    return tuple(edit for edit in compared if edit.before != edit.after)


def shown(policy: Policy, scope: Labels, key: str) -> str:
    """Return the value that applies at a scope, as text."""
    return SETTINGS[key].show(policy.at(scope).values[key])
