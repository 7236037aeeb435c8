"""Change the policy: preview first, then apply, cancel, take back; every attempt is kept."""

from __future__ import annotations

from collections.abc import Sequence

from bot.answers.config.preview import budget_card, preview_card, promised_card
from bot.answers.config.show import (
    EVER,
    FAMILIES,
    applied_card,
    cancelled_card,
    form_card,
    settings_of,
)
from bot.cards.card import Card
from bot.errors import Unavailable, WrongInput, not_known, refuse
from bot.grammar.line import read_line
from bot.grammar.names import SCOPES, unseen
from bot.grammar.registry import Needs, arg, command
from bot.model.labels import Labels
from bot.model.policy import Override, Policy, Version, VersionKind
from bot.model.request import Request, Role
from bot.model.spend import Filter
from bot.model.window import rounded_duration
from bot.policy.file import (
    BACK,
    applied,
    edits,
    read_changes,
    read_policy,
    replaced,
    shown,
    stacked,
)
from bot.policy.schema import SETTINGS, default_policy
from bot.ports import Ports
from bot.watch.budget import FLOOR, LEAST, MOST, Budget, frontier, read_budget
from bot.watch.preview import PREVIEWS, alone, draft, kept_draft, replayed

_QUOTES = str.maketrans(
    {"\u201c": '"', "\u201d": '"', "\u201e": '"', "\u2019": "'", "\u2018": "'", "\u00a0": " "}
)


@command(
    "config set",
    "Try other thresholds on the last 14 days; nothing changes before you apply them.",
    needs=Needs.DATABASE | Needs.METRICS | Needs.REPLAY,
    examples=(
        "config set idle.below 15% for 30m cluster=llama",
        "config set idle.below=default cluster=llama",
    ),
    who=Role.ADMIN,
    changes=True,
    audited=True,
    previews=True,
)
def config_set(
    ports: Ports,
    request: Request,
    key: str = arg("", "the setting, such as idle.below; more follow as key=value"),
    value: str = arg("", "its value, such as 15%; 'default' removes a change"),
    for_: str = arg(
        "", "how long before an alert is sent: the rule's own 'for' setting", keyword=True
    ),
    cluster: str = arg("", "only for this cluster", keyword=True),
    team: str = arg("", "only for this team", keyword=True),
    account: str = arg("", "only for this account", keyword=True),
    pairs: tuple[Filter, ...] = arg("", "more settings: key=value"),
) -> Card:
    """Read every setting of the line, all or none, and preview them together."""
    scope = Labels(cluster=cluster, team=team, account=account)
    changes = read_changes(_pairs(key, value, for_, pairs), scope)
    standing = _standing(ports)
    effective = _effective(applied(ports.site.base, standing), standing, changes)

    return preview_card(
        *draft(ports, request, VersionKind.SET, effective, stacked(standing, effective)),
        unseen(ports, request, scope),
    )


@command(
    "config budget",
    "Promise at most so many alert messages a week, and find the waste floor that keeps to it.",
    needs=Needs.DATABASE | Needs.METRICS | Needs.REPLAY,
    examples=(
        "config budget",
        "config budget at most 2 messages a week",
        "config budget at most 2 messages a week and at least 90% of wasted dollars",
    ),
    who=Role.ADMIN,
    changes=True,
    audited=True,
    previews=True,
)
def config_budget(
    ports: Ports,
    request: Request,
    promise: str = arg(
        "", "messages a week at most, a share of wasted dollars at least, or both", rest=True
    ),
) -> Card:
    """Replay without a floor, choose the floor that keeps the promise, and preview it."""
    budget = read_budget(promise) if promise else None
    standing = _standing(ports)
    everywhere, base = Labels(), ports.site.base
    current = applied(base, standing)

    with alone():
        changes_free = [(everywhere, FLOOR, "$0"), (everywhere, MOST, "0")]
        (raised,) = replayed(ports, [applied(base, stacked(standing, changes_free))], request.at)
    seen = frontier(raised.alerts.values(), raised.window, current)
    if budget is None:
        return budget_card(seen, Budget.of(current))
    if seen.weeks < 1:
        raise Unavailable(
            f"Only {rounded_duration(seen.window.length)} are recorded; a weekly promise needs at"
            " least a week."
        )

    point = seen.chosen(budget)
    # Where the messages left of a week set the floor, the fixed one keeps out what is small.
    floor = default_policy().usd(FLOOR) if budget.most_per_week else point.usd_per_hour
    wanted = {
        FLOOR: f"${floor}",
        MOST: f"{budget.most_per_week:g}",
        LEAST: f"{budget.least_caught:.4%}",
    }
    changes = _effective(current, standing, read_changes(wanted.items(), everywhere))

    return promised_card(
        preview_card(*draft(ports, request, VersionKind.SET, changes, stacked(standing, changes))),
        seen,
        point,
        budget,
    )


@command(
    "config change",
    "Open the form of a preview to try other values.",
    needs=Needs.DATABASE,
    examples=("config change p1234abcd",),
    who=Role.ADMIN,
    hidden=True,
)
def config_change(
    ports: Ports, request: Request, name: str = arg(None, "the preview's id")
) -> Card:
    """Fill the form with the values that were tried."""
    preview = kept_draft(ports, name)
    policy = applied(ports.site.base, preview.overrides)
    scope = preview.changes[0][0]
    rules = dict.fromkeys(key.partition(".")[0] for _, key, _ in preview.changes)
    chosen = [
        setting
        for rule in rules
        for setting in settings_of(rule)
        if setting.scoped or not str(scope)
    ]

    return form_card(
        " and ".join(rules), chosen, {key: shown(policy, scope, key) for key in SETTINGS}, scope
    )


@command(
    "config apply",
    "Apply a previewed change; it takes effect at the next tick.",
    needs=Needs.DATABASE,
    examples=("config apply p1234abcd",),
    who=Role.ADMIN,
    changes=True,
    audited=True,
)
def config_apply(ports: Ports, request: Request, name: str = arg(None, "the preview's id")) -> Card:
    """Write the version that was previewed, exactly; a second press changes nothing."""
    versions = ports.stores.versions.versions(EVER)
    if done := next((version for version in versions if version.preview == name), None):
        return applied_card(done, again=True)

    # The policy has to be the one that was previewed against.
    preview, base = kept_draft(ports, name), ports.site.base
    newest = versions[0] if versions else None
    if newest and newest.number != preview.over:
        raise WrongInput(
            f"Since that preview {newest.who} made version {newest.number}; nothing was applied."
            " Preview it again."
        )

    standing = applied(base, newest.overrides if newest else ())
    places = [(edit.scope, edit.key, "") for edit in preview.edits]
    if edits(standing, applied(base, preview.overrides), places) != preview.edits:
        raise WrongInput(
            "Since that preview the settings file has changed; nothing was applied. Preview it"
            " again."
        )

    version = Version(
        preview.over + 1,
        request.at,
        request.user.id,
        request.user.name,
        preview.doing,
        preview.edits,
        preview.overrides,
        preview.id,
        preview.shown,
    )
    ports.stores.versions.add(version)
    PREVIEWS.drop(ports.stores.documents, name)

    return applied_card(version)


@command(
    "config cancel",
    "Discard a preview.",
    needs=Needs.DATABASE,
    examples=("config cancel p1234abcd",),
    who=Role.ADMIN,
    changes=True,
    audited=True,
)
def config_cancel(
    ports: Ports, request: Request, name: str = arg(None, "the preview's id")
) -> Card:
    """Drop it; nothing changes."""
    kept_draft(ports, name)
    PREVIEWS.drop(ports.stores.documents, name)
    return cancelled_card(name)


@command(
    "config undo",
    "Return to the previous version at once; another undo goes back further.",
    needs=Needs.DATABASE,
    examples=("config undo", "config undo to=3", "config undo to=0"),
    who=Role.ADMIN,
    changes=True,
    audited=True,
)
def config_undo(
    ports: Ports,
    request: Request,
    to: int | None = arg("", "an older version; 0 = the settings file alone", keyword=True),
) -> Card:
    """Write a version that equals an older one."""
    versions = {version.number: version for version in ports.stores.versions.versions(EVER)}
    newest = max(versions, default=0)
    target = to
    if target is None:
        # An undo has the content of the version that it went back to: the step is from that one.
        origin = newest
        while origin in versions and (restored := versions[origin].restores) is not None:
            origin = restored
        target = origin - 1

    refuse(
        (target < 0, "There is nothing to undo: only the settings file applies."),
        (
            target not in versions and target != 0,
            f"There is no version {target} to go back to; 'config history' lists them.",
        ),
    )

    standing, earlier = (versions[n].overrides if n else () for n in (newest, target))
    base, who = ports.site.base, request.user
    undone = edits(applied(base, standing), applied(base, earlier), (*standing, *earlier))
    if not undone:
        raise WrongInput(f"Nothing would change: the policy is already as in version {target}.")
    version = Version(
        newest + 1, request.at, who.id, who.name, VersionKind.UNDO, undone, earlier, restores=target
    )
    ports.stores.versions.add(version)

    return applied_card(version)


@command(
    "config import",
    "Try a whole policy as TOML, from a file or pasted; settings that it leaves out return to"
    " their defaults.",
    needs=Needs.DATABASE | Needs.METRICS | Needs.REPLAY,
    examples=("config import policy.toml",),
    who=Role.ADMIN,
    changes=True,
    audited=True,
    previews=True,
)
def config_import(
    ports: Ports,
    request: Request,
    toml: str = arg(
        None, "the TOML text, the name of a policy, or in a terminal a file", rest=True
    ),
) -> Card:
    """Read the whole of it or nothing, and preview it."""
    # Pasted as it stands in the line, or that of a policy which it names.
    words = read_line(request.line).rest.strip()
    # Chats make the quotes of a pasted file typographic, and TOML knows the plain ones alone.
    pasted, file = words.strip("`").removeprefix("toml").translate(_QUOTES), ""
    if "=" not in pasted and "[" not in pasted:
        pasted, file = ports.site.files.policy(toml, request), toml
    overrides = replaced(ports.site.base, read_policy(pasted, file))

    return preview_card(*draft(ports, request, VersionKind.IMPORT, overrides, overrides))


def _standing(ports: Ports) -> tuple[Override, ...]:
    """Return the overrides of the newest version."""
    return next((version.overrides for version in ports.stores.versions.versions(1)), ())


def _effective(
    policy: Policy, standing: Sequence[Override], changes: Sequence[Override]
) -> list[Override]:
    """Return the changes but those to a value that holds already."""
    overridden = {override[:2] for override in standing}
    return [
        (scope, key, value)
        for scope, key, value in changes
        if ((scope, key) in overridden if value == BACK else value != shown(policy, scope, key))
    ]


def _pairs(key: str, value: str, length: str, more: Sequence[Filter]) -> list[tuple[str, str]]:
    """Return each (key, text) of a line, `for 30m` under the rule's own key; or `WrongInput`."""
    if negated := next((pair for pair in more if pair.negated), None):
        name = negated.dimension
        raise WrongInput(f"'{name}!=' compares; to set it write {name}=VALUE.")
    if key and not value:
        raise WrongInput(f"'{key}' needs a value after it, for example: config set idle.below 15%.")

    # A rule's name is its switch; another word without a dot is a scope misspelt.
    words = [(key, value)] if key else []
    words += [(pair.dimension, ",".join(pair.values)) for pair in more]
    pairs = []
    for name, text in words:
        is_switch = f"{name}.on" in SETTINGS
        if not is_switch and "." not in name and name not in FAMILIES:
            raise not_known(
                f"'{name}' is neither a setting nor a scope",
                name,
                (*SCOPES, *SETTINGS),
                most=0,
                otherwise="'config show' lists the settings",
            )
        pairs.append((f"{name}.on" if is_switch else name, text))

    rules = {name.partition(".")[0] for name, _ in pairs}
    if length and len(rules) != 1:
        raise WrongInput(
            "'for' belongs to one rule; write it with its key, for example idle.for=30m."
        )

    if length:
        pairs.append((f"{rules.pop()}.for", length))
    if not pairs:
        raise WrongInput(
            "'config set' needs a setting and its value, for example: config set idle.below 15%"
            " for 30m cluster=llama."
        )

    return pairs
