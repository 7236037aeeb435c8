"""Keep the settings that are being made: a settings file, and a file of secrets beside it."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bot.errors import WrongInput
from bot.settings.settings import Settings, read_settings

_TABLE = re.compile(r"\s*\[([^\[\]]+)\]\s*(#.*)?$")


class Drafts:
    """Hold both files as they stand; each change is written whole, or not at all."""

    def __init__(self, settings: Path, secrets: Path, environ: Mapping[str, str]) -> None:
        self.settings_path, self.secrets_path = settings, secrets
        self._environ = environ

    def settings(self) -> Settings:
        """Return the settings as a process with both files would read them."""
        environ = {**self.secrets(), **self._environ, "TRNBOT_CONFIG": str(self.settings_path)}
        return read_settings(environ, self._text(self.settings_path))

    def secrets(self) -> dict[str, str]:
        """Return the variables of the second file."""
        lines = self._text(self.secrets_path).splitlines()
        pairs = (line.partition("=") for line in lines if not line.lstrip().startswith("#"))
        return {name.strip(): value for name, equals, value in pairs if equals}

    def set(self, values: Mapping[str, str | Sequence[str]]) -> None:
        """Set keys of the settings file, such as `aws.regions`; the lines around them stay."""
        text = self._text(self.settings_path)
        for key, value in values.items():
            text = with_key(text, key, value if isinstance(value, str) else list(value))
        _replace(self.settings_path, text)

    def keep_secret(self, values: Mapping[str, str]) -> None:
        """Set variables of the second file, which its owner alone may read."""
        for name, value in values.items():
            if re.search(r"[\s'\"\\$`]", value):
                raise WrongInput(f"What was given for {name} holds a space or a quote.")
        held = {**self.secrets(), **values}
        _replace(self.secrets_path, "".join(f"{name}={value}\n" for name, value in held.items()))

    @staticmethod
    def _text(path: Path) -> str:
        return path.read_text(encoding="utf-8") if path.exists() else ""


def with_key(text: str, key: str, value: str | list[str]) -> str:
    """Return a TOML text with one key set, in its table, and every other line as it was.

    Raise `WrongInput` where a line cannot be changed without harm to others.
    """
    table, _, name = key.rpartition(".")
    lines, entry = text.splitlines(), f"{name} = {json.dumps(value, ensure_ascii=False)}"
    current, at, section = "", -1, 0 if not table else -1
    for number, line in enumerate(lines):
        if header := _TABLE.match(line):
            current = header[1].strip()
        if current == table:
            # A table is added to behind its last line that says something.
            section = number + 1 if line.strip() else section
            if re.match(rf"\s*{re.escape(name)}\s*=", line):
                at = number
    if at >= 0:
        lines[at] = entry
    elif section >= 0:
        lines.insert(section, entry)
    else:
        lines += [*([""] if lines else []), f"[{table}]", entry]

    changed = "\n".join(lines) + "\n"
    try:
        read: Any = tomllib.loads(changed)
        for part in key.split("."):
            read = read[part]
    except (tomllib.TOMLDecodeError, KeyError, TypeError):
        read = None
    if read != value:
        raise WrongInput(
            f"The settings file cannot be changed for you: set {key} yourself, {entry}"
        )
    return changed


def _replace(path: Path, text: str) -> None:
    """Put a whole file in place of the one before, readable by its owner alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
