"""Read and write a policy as TOML: a table a rule, an `[[override]]` a scope."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any

from bot.errors import WrongInput, nearest, shortened
from bot.model.labels import NAMES, Labels
from bot.model.limits import POLICY_BYTES, POLICY_MISTAKES, TOML_BITS, TOML_DEPTH, TOML_DOTS
from bot.model.policy import Policy, Value
from bot.policy.schema import SETTINGS, Setting, SettingUnit, default_policy, setting_of


def parse_toml(text: str, noun: str, most: int) -> dict[str, Any]:
    """Return the document of a text of at most so many bytes.

    Raise one `WrongInput` that begins with `noun` otherwise.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > most:
        raise WrongInput(f"{noun} has {size:,} bytes; keep it under {most:,}.")
    if (dots := max(line.count(".") for line in text.split("\n"))) > TOML_DOTS:
        raise WrongInput(
            f"{noun} has a line with {dots:,} dots; keep it under {TOML_DOTS}, or break it into several lines."
        )
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise _too_deep(noun) from None
    except tomllib.TOMLDecodeError as error:
        raise WrongInput(f"{noun} is not TOML: {error}.") from None
    except ValueError:  # of `int`, which refuses to read thousands of digits
        raise _too_long(noun) from None
    _measure(document, noun)
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
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault(f"{table}.{_dotted(key[1])}" if table else _dotted(key[1]), number)
    return lines


def _dotted(name: str) -> str:
    """Return a key without its quotes and the spaces around its dots."""
    return ".".join(part.strip().strip("\"'") for part in name.split("."))


def _measure(document: dict[str, Any], noun: str) -> None:
    """Raise `WrongInput` for what is nested too deep or too large a number.

    By a list, as recursion has a limit itself.
    """
    level: list[Any] = [document]
    for _ in range(TOML_DEPTH):
        within: list[Any] = []
        for value in level:
            if isinstance(value, int) and value.bit_length() > TOML_BITS:
                raise _too_long(noun)
            within += (
                value.values()
                if isinstance(value, dict)
                else value
                if isinstance(value, list)
                else ()
            )
        level = within
    if level:
        raise _too_deep(noun)


def _too_deep(noun: str) -> WrongInput:
    return WrongInput(
        f"{noun} is nested deeper than {TOML_DEPTH} tables and lists; write it flatter."
    )


def _too_long(noun: str) -> WrongInput:
    return WrongInput(
        f"{noun} holds a whole number of more than {TOML_BITS} bits; write a smaller one."
    )


Override = tuple[Labels, str, Value]
Place = Callable[[str], str]
"""Returns where a key of a document stands, as the beginning of a sentence: `policy.toml, line 3.

`.
"""


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
    tables = dict(document)
    overrides = tables.pop("override", [])
    values = dict(default_policy().values)
    for key, raw in _flat(tables):
        _take(values, key, raw, place(key), mistakes)
        if len(mistakes) >= POLICY_MISTAKES:
            raise WrongInput(" ".join([*mistakes, "What follows was not read."]))
    scoped = _overrides(overrides, place, mistakes)
    if mistakes:
        raise WrongInput(" ".join(mistakes))
    return Policy(values, scoped)


def write_policy(policy: Policy, *, every: bool = True) -> str:
    """Return TOML that `read_policy` reads the same back, each setting with its meaning.

    `every` one or the changed ones.
    """
    parts = []
    wanted = [
        key for key, setting in SETTINGS.items() if every or policy.values[key] != setting.default
    ]
    for table, keys in groupby(sorted(wanted, key=_table), key=_table):
        lines = [_line(SETTINGS[key], policy.values[key]) for key in keys]
        parts.append("\n".join([f"[{table}]", *lines]))
    parts += [
        "\n".join(_override_lines(scope, list(group)))
        for scope, group in groupby(policy.overrides, key=lambda o: o[0])
    ]
    return "\n\n".join(parts) + "\n"


def _flat(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value with its dotted key."""
    for name, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _take(values: dict[str, Value], key: str, raw: Any, where: str, mistakes: list[str]) -> None:
    """Read one value into `values`, or add to the mistakes."""
    try:
        values[key] = setting_of(key).parse(_words(key, raw))
    except WrongInput as error:
        sentence = str(error)
        mistakes.append(f"{where}{sentence}" if key in sentence else f"{where}{key}: {sentence}")


def _words(key: str, raw: Any) -> str:
    """Return a TOML value as a person would have typed it."""
    if isinstance(raw, bool):
        return "on" if raw else "off"
    if isinstance(raw, str | int | float):
        return str(raw)
    raise WrongInput(f"{key} takes one value; got {shortened(repr(raw))}.")


def _overrides(tables: Any, place: Place, mistakes: list[str]) -> tuple[Override, ...]:
    if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
        mistakes.append(f"{place('override')}'override' is a list of tables; write [[override]].")
        return ()
    places = [f"{place(f'override[{i}]')}Override {i}: " for i in range(1, len(tables) + 1)]
    return tuple(
        found
        for table, where in zip(tables, places, strict=True)
        for found in _override(table, where, mistakes)
    )


def _override(table: Mapping[str, Any], where: str, mistakes: list[str]) -> list[Override]:
    flat = dict(_flat(table))
    scope, values = {}, dict[str, Value]()
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
    if len(scope) == len([key for key in flat if "." not in key]) == 0:
        mistakes.append(f'{where}it names no scope; write cluster = "NAME".')
    return [
        (Labels(**scope), key, value)
        for key, value in values.items()
        if _fits(key, Labels(**scope), where, mistakes)
    ]


def _fits(key: str, scope: Labels, where: str, mistakes: list[str]) -> bool:
    try:
        SETTINGS[key].fits(scope)
    except WrongInput as error:
        mistakes.append(f"{where}{error}")
        return False
    return True


def _table(key: str) -> str:
    return key.partition(".")[0]


def _line(setting: Setting, value: Value) -> str:
    default = f"default {setting.show(setting.default)}; " if value != setting.default else ""
    return (
        f"{setting.key.partition('.')[2]} = {_toml(setting, value)}  # {default}{setting.meaning}"
    )


def _override_lines(scope: Labels, group: list[Override]) -> list[str]:
    labels = [f"{name} = {_quoted(value)}" for name, value in scope]
    return [
        "[[override]]",
        *labels,
        *(f"{_quoted(key)} = {_toml(SETTINGS[key], value)}" for _, key, value in group),
    ]


def _toml(setting: Setting, value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    shown = setting.show(value)
    return shown if setting.unit is SettingUnit.NUMBER else _quoted(shown)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
