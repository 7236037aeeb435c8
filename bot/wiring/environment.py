"""Read the environment of this process, and write what it is set up by: settings, user, clock."""

from __future__ import annotations

import json
import os
import platform
import re
import stat
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.errors import WrongInput

if TYPE_CHECKING:
    from bot.settings.settings import Settings
    from bot.wiring.verbs import Options

STATE = Path(".trnbot")
"""The folder for all that the bot itself keeps in files."""
SCRATCH = STATE / "scratch"
"""Where archives are unpacked and queries go to disk, for as long as they work."""
_CODE = (".py", ".csv", ".toml", ".sql")
HOME = Path(__file__).parents[2]
"""The folder of the rooms, with `deploy/` and `manifest/`: a checkout, or the installed package."""


def settings_of(options: Mapping[str, str]) -> Settings:
    """Read the environment, the settings file, and the options of the terminal over both.

    What `trnbot connect` wrote beside the settings file counts as the environment does. The log
    hides the secrets.
    """
    from bot.settings.settings import read_settings, settings_text
    from bot.wiring.logs import hide

    typed = {
        "TRNBOT_SOURCE": options.get("source"),
        "TRNBOT_PORT": options.get("port"),
        "TRNBOT_CONFIG": options.get("config"),
    }
    # What is typed is over what the environment says.
    environ = {**os.environ, **{name: value for name, value in typed.items() if value is not None}}
    environ = {**read_secrets(secrets_beside(environ.get("TRNBOT_CONFIG", ""))), **environ}
    settings = read_settings(environ, settings_text(environ, Path.cwd()))
    hide(settings.secrets())
    return settings


def product_version() -> str:
    """Return the installed version."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("trnbot")
    except PackageNotFoundError:
        return "unpacked"


@cache
def build_name() -> str:
    """Return the version, and a digest of all that an answer's bits depend on beside its data."""
    from importlib.metadata import version

    libraries = [f"{name} {version(name)}" for name in ("numpy", "scikit-learn")]
    digest = sha256(repr([sys.version_info[:2], platform.machine(), *libraries]).encode())
    for room in ("bot", "detectors", "adapters"):
        for path in sorted((HOME / room).rglob("*")):
            if path.suffix in _CODE:
                digest.update(path.read_bytes())
    return f"{product_version()}+{digest.hexdigest()[:8]}"


def print_version(_: Options) -> None:
    """Print which version this is."""
    print(f"trnbot {product_version()}")


@contextmanager
def private_files() -> Iterator[None]:
    """Make every new file and folder for this user alone while this lasts, whatever the umask."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


_ARENA_MAX = -8
"""The number of `M_ARENA_MAX` in glibc's malloc.h."""


def share_heaps() -> None:
    """Let all threads allocate from two heaps of the C library, before any thread begins.

    By default it has eight a processor, and what was freed stays in pieces in each. It does nothing
    where the environment says how many, or where there is no glibc.
    """
    import ctypes  # a library that only `serve` needs

    if "MALLOC_ARENA_MAX" not in os.environ:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(_ARENA_MAX, 2)


def terminal_user() -> str:
    """Name who types here."""
    return f"terminal:{os.environ.get('USER') or os.environ.get('LOGNAME') or 'you'}"


def wall_clock() -> datetime:
    """Return the real now: the only clock the bot ever reads."""
    return datetime.now(UTC)


SECRETS = "trnbot.env"
"""The file of secrets beside the settings file, which `trnbot connect` writes."""


def secrets_beside(settings: str) -> Path:
    """Return where the secrets of a settings file are, of "" those of the working folder."""
    return Path(settings).with_name(SECRETS) if settings else Path(SECRETS)


def read_secrets(path: Path) -> dict[str, str]:
    """Return the variables of a file of secrets, none where there is no such file.

    Raise `WrongInput` where others may read it.
    """
    from bot.model.limits import SETTINGS_BYTES
    from bot.settings.routes import read_text

    if not path.exists():
        return {}
    text = read_text(path, f"The file of secrets '{path}'", SETTINGS_BYTES)
    if os.name == "posix" and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise WrongInput(f"Others may read the secrets in '{path}'; chmod 600 {path} mends it.")
    pairs = (line.partition("=") for line in text.splitlines() if not line.lstrip().startswith("#"))
    return {name.strip(): value for name, equals, value in pairs if equals}


_TABLE = re.compile(r"\s*\[([^\[\]]+)\]\s*(#.*)?$")


class Drafts:
    """Hold both files as they stand; each change is written whole, or not at all."""

    def __init__(self, settings: Path, environ: Mapping[str, str]) -> None:
        self.settings_path, self.secrets_path = settings, secrets_beside(str(settings))
        self._environ = environ

    def settings(self) -> Settings:
        """Return the settings as a process with both files would read them."""
        from bot.settings.settings import read_settings

        held = read_secrets(self.secrets_path)
        environ = {**held, **self._environ, "TRNBOT_CONFIG": str(self.settings_path)}
        return read_settings(environ, self._text())

    def set(self, values: Mapping[str, str | Sequence[str]]) -> None:
        """Set keys of the settings file, such as `aws.regions`; the lines around them stay."""
        text = self._text()
        for key, value in values.items():
            text = with_key(text, key, value if isinstance(value, str) else list(value))
        _replace(self.settings_path, text)

    def keep_secret(self, values: Mapping[str, str]) -> None:
        """Set variables of the second file, which its owner alone may read."""
        for name, value in values.items():
            if re.search(r"[\s'\"\\$`]", value):
                raise WrongInput(f"What was given for {name} holds a space or a quote.")
        held = {**read_secrets(self.secrets_path), **values}
        _replace(self.secrets_path, "".join(f"{name}={value}\n" for name, value in held.items()))

    def _text(self) -> str:
        path = self.settings_path
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
