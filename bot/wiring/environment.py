"""Read the environment of this process: its settings, its user, its clock."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bot.settings.options import Options
    from bot.settings.settings import Settings

STATE = Path(".trnbot")
"""The folder for all that the bot itself keeps in files."""
HOME = Path(__file__).parents[2]
"""The folder of the rooms, with `deploy/` and `manifest/`: a checkout, or the installed package."""


def settings_of(options: Mapping[str, str]) -> Settings:
    """Read the environment, the settings file, and the options of the terminal over both.

    The log hides their secrets.
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


def print_version(_: Options) -> int:
    """Print which version this is; return the exit code."""
    print(f"trnbot {product_version()}")
    return 0


@contextmanager
def private_files() -> Iterator[None]:
    """Make every new file and folder for this user alone while this lasts, whatever the umask."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def terminal_user() -> str:
    """Name who types here."""
    return f"terminal:{os.environ.get('USER') or os.environ.get('LOGNAME') or 'you'}"


def wall_clock() -> datetime:
    """Return the real now: the only clock the bot ever reads."""
    return datetime.now(UTC)
