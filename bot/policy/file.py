"""Read and write policies as text: a file as TOML, and the changes that people type."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, groupby
from typing import Any

from bot.errors import WrongInput, nearest, shortened
from bot.model.labels import NAMES, Labels
from bot.model.limits import POLICY_BYTES, POLICY_MISTAKES, TOML_BITS, TOML_DEPTH, TOML_DOTS
from bot.model.policy import Edit, Override, Policy, Value
from bot.policy.schema import SETTINGS, Setting, SettingUnit, default_policy, family_of, setting_of


def parse_toml(text: str, noun: str, most: int) -> dict[str, Any]:
    """Return the document of a text of at most so many bytes.

    Raise one `WrongInput` that begins with `noun` otherwise.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > most:
        raise WrongInput(f"{noun} has {size:,} bytes; keep it under {most:,}.")
    # A dotted key makes a table a dot, which the reader nests by recursion.
    if (dots := max(line.count(".") for line in text.split("\n"))) > TOML_DOTS:
        raise WrongInput(
            f"{noun} has a line with {dots:,} dots; keep it under {TOML_DOTS},"
            " or break it into several lines."
        )

    too_deep = WrongInput(
        f"{noun} is nested deeper than {TOML_DEPTH} tables and lists; write it flatter."
    )
    too_long = WrongInput(
        f"{noun} holds a whole number of more than {TOML_BITS} bits; write a smaller one."
    )
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise too_deep from None
    except tomllib.TOMLDecodeError as error:
        raise WrongInput(f"{noun} is not TOML: {error}.") from None
    except ValueError:  # of `int`, which refuses to read thousands of digits
        raise too_long from None

    # Level by level, as recursion has a limit itself.
    level: list[Any] = [document]
    for _ in range(TOML_DEPTH):
        if any(isinstance(x, int) and x.bit_length() > TOML_BITS for x in level):
            raise too_long
        tables = [x.values() for x in level if isinstance(x, dict)]
        level = list(chain(*tables, *(x for x in level if isinstance(x, list))))
    if level:
        raise too_deep
    return document


_HEADER = re.compile(r"\s*\[(\[?)([^\[\]]+)\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"""\s*((?:[\w.-]|"[^"]*"|'[^']*'|[ \t](?=[\w."'-]|=))+?)\s*=""")


def key_lines(text: str) -> dict[str, int]:
    """Return the line of every table and key by its dotted name.

    Those of the n-th `[[table]]` under `table[n].`.
    """
    lines: dict[str, int] = {}
    table, counts = "", dict[str, int]()
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.fullmatch(line):
            table = _dotted(header[2])
            if header[1]:
                counts[table] = counts.get(table, 0) + 1
                table = f"{table}[{counts[table]}]"
            # The first mention counts: a second one is a mistake that is told by the line of the first.
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault(f"{table}.{_dotted(key[1])}" if table else _dotted(key[1]), number)
    return lines


def _dotted(name: str) -> str:
    """Return a key without its quotes and the spaces around its dots."""
    return ".".join(part.strip().strip("\"'") for part in name.split("."))


@contextmanager
def gathered(mistakes: list[str], where: str = "") -> Iterator[None]:
    """Add a `WrongInput` that is raised in here to the mistakes, after where it stands."""
    try:
        yield
    except WrongInput as error:
        mistakes.append(f"{where}{error}")


_ScopedValue = tuple[Labels, str, Value]
Place = Callable[[str], str]
"""Returns where a key stands, as the beginning of a sentence: `policy.toml, line 3: `."""


def nowhere(_: str) -> str:
    """Say nothing of where a key stands: the text has no name."""
    return ""


def placed(text: str, file: str, table: str = "") -> Place:
    """Return the place of the keys of a named file, below a table of it.

    `nowhere` for a text without a name.
    """
    if not file:
        return nowhere
    lines, above = key_lines(text), f"{table}." if table else ""

    def place(key: str) -> str:
        """Name the line of the key, or of the nearest table that holds it."""
        while key:
            if line := lines.get(f"{above}{key}"):
                return f"{file}, line {line}: "
            key = key.rpartition(".")[0]
        return f"{file}: "

    return place


def read_policy(text: str, file: str = "") -> Policy:
    """Return the policy of a TOML text, or of its `[policy]` table.

    Every setting left out keeps its default.

    Raises one `WrongInput` that names every mistake, by its line where the text is a `file`.
    """
    document = parse_toml(text, f"The policy file '{file}'" if file else "The policy", POLICY_BYTES)
    inner = document.get("policy")
    if isinstance(inner, dict):
        return policy_of(inner, placed(text, file, "policy"))
    return policy_of(document, placed(text, file))


def policy_of(document: Mapping[str, Any], place: Place = nowhere) -> Policy:
    """Return the policy of a parsed table; raise one `WrongInput` that names every mistake."""
    mistakes: list[str] = []
    settings = dict(document)
    tables = settings.pop("override", [])
    values = dict(default_policy().values)
    for key, raw in _flat(settings):
        _take(values, key, raw, place(key), mistakes)
        # A file that is no policy at all would give a mistake a line.
        if len(mistakes) >= POLICY_MISTAKES:
            raise WrongInput("\n".join([*mistakes, "What follows was not read."]))

    overrides: list[_ScopedValue] = []
    if isinstance(tables, list) and all(isinstance(table, Mapping) for table in tables):
        for number, table in enumerate(tables, 1):
            where = f"{place(f'override[{number}]')}Override {number}: "
            overrides += _override(table, where, mistakes)
    else:
        mistakes.append(f"{place('override')}'override' is a list of tables; write [[override]].")

    if mistakes:
        raise WrongInput("\n".join(mistakes))
    return Policy(values, tuple(overrides))


def _override(table: Mapping[str, Any], where: str, mistakes: list[str]) -> list[_ScopedValue]:
    """Return the values that one `[[override]]` sets, each with its scope."""
    flat, scope, values = dict(_flat(table)), dict[str, str](), dict[str, Value]()
    for key, raw in flat.items():
        if "." in key:
            _take(values, key, raw, where, mistakes)
        elif key in NAMES and isinstance(raw, str) and raw:
            scope[key] = raw
        else:
            mistakes.append(
                f"{where}'{key}' is not a scope{nearest(key, NAMES)}; write cluster = \"NAME\"."
            )
    if not any("." in key for key in flat):
        mistakes.append(f'{where}it changes nothing; write "idle.below" = "15%".')
    if all("." in key for key in flat):
        mistakes.append(f'{where}it names no scope; write cluster = "NAME".')

    for key in values:
        with gathered(mistakes, where):
            SETTINGS[key].fits(Labels(**scope))
    return [(Labels(**scope), key, value) for key, value in values.items()]


def _take(values: dict[str, Value], key: str, raw: Any, where: str, mistakes: list[str]) -> None:
    """Read one value, as a person would have typed it, into `values`, or add to the mistakes."""
    try:
        # TOML has its own words for what a person types as on and off.
        if isinstance(raw, bool):
            raw = "on" if raw else "off"
        if not isinstance(raw, str | int | float):
            raise WrongInput(f"{key} takes one value; got {shortened(repr(raw))}.")
        values[key] = setting_of(key).parse(str(raw))
    except WrongInput as error:
        sentence = str(error)
        mistakes.append(f"{where}{sentence}" if key in sentence else f"{where}{key}: {sentence}")


def _flat(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value with its dotted key."""
    for name, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def write_policy(policy: Policy, *, every: bool = True) -> str:
    """Return TOML that `read_policy` reads the same back, each setting with its meaning.

    `every` one or the changed ones.
    """
    parts = []
    keys = [
        key for key, setting in SETTINGS.items() if every or policy.values[key] != setting.default
    ]
    for table, group in groupby(sorted(keys, key=family_of), key=family_of):
        lines = [f"[{table}]"]
        for key in group:
            setting, value = SETTINGS[key], policy.values[key]
            changed = f"default {setting.show(setting.default)}; "
            note = f"{changed if value != setting.default else ''}{setting.meaning}"
            lines.append(f"{key.partition('.')[2]} = {_toml(setting, value)}  # {note}")
        parts.append("\n".join(lines))

    for scope, overrides in groupby(policy.overrides, key=lambda override: override[0]):
        labels = [f"{name} = {_quoted(value)}" for name, value in scope]
        lines = [f"{_quoted(key)} = {_toml(SETTINGS[key], value)}" for _, key, value in overrides]
        parts.append("\n".join(["[[override]]", *labels, *lines]))
    return "\n\n".join(parts) + "\n"


def _toml(setting: Setting, value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = setting.show(value)
    return text if setting.unit in {SettingUnit.NUMBER, SettingUnit.COUNT} else _quoted(text)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


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
            values[key] = SETTINGS[key].read(text)
        elif text:
            scoped.append((scope, key, SETTINGS[key].read(text)))
    # An override that somebody stored takes the place of the file's, also to take it back.
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
