"""Find what a person names in the file system, and nothing outside of the offered folders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from bot.errors import WrongInput, nearest, shortened
from bot.model.limits import POLICY_BYTES, TEXT_BYTES
from bot.model.request import Request
from bot.settings.routes import read_text
from bot.settings.settings import Settings

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)
_MOST = 200
"""Names of a folder that are offered."""
_PATHS_FROM = "terminal"
"""The one surface whose people can read the file system themselves."""


class OfferedFiles:
    """Implement `bot.ports.Files` over the folders of `TRNBOT_RECORDINGS` and `TRNBOT_POLICIES`."""

    def __init__(self, settings: Settings) -> None:
        self._recordings, self._policies = settings["recordings"], settings["policies"]

    def recording(self, named: str, request: Request) -> str:
        """Return the source that is meant.

        A terminal may name a folder, `recording:DIR` or `simulator:SEED` too.
        """
        offered = _offered(self._recordings)
        if named not in offered and request.surface == _PATHS_FROM:
            return named if ":" in named else f"recording:{named}"
        return f"recording:{_chosen(named, offered, 'recording', 'TRNBOT_RECORDINGS')}"

    def policy(self, named: str, request: Request) -> str:
        """Return the text of a policy; a terminal may name a file too."""
        offered = _offered(self._policies, ".toml")
        name = named.removesuffix(".toml")
        if name not in offered and request.surface == _PATHS_FROM:
            path, title = Path(named).expanduser(), f"The policy file '{shortened(named)}'"
        else:
            path = _chosen(name, offered, "policy", "TRNBOT_POLICIES")
            title = f"The policy '{name}'"
        return read_text(path, title, POLICY_BYTES)

    def text(self, path: str, request: Request) -> str:
        """Return another text file of a terminal."""
        if request.surface != _PATHS_FROM:
            raise WrongInput("Files are read in a terminal; paste the text itself.")
        return read_text(Path(path).expanduser(), f"The file '{shortened(path)}'", TEXT_BYTES)


def _offered(folder: str, suffix: str = "") -> Mapping[str, Path]:
    """Return by name the files of a suffix in a folder, without one the folders.

    Nothing hidden, and nothing that a link leads out of it.
    """
    if not folder:
        return {}
    try:
        home = Path(folder).expanduser().resolve()
        # A link out of the folder resolves to another parent.
        paths = sorted(path for path in home.iterdir() if path.resolve().parent == home)
    except (OSError, RuntimeError):
        return {}

    by_name = {
        path.name.removesuffix(suffix): path
        for path in paths
        if (path.suffix == suffix and path.is_file() if suffix else path.is_dir())
    }
    safe = {
        name: path for name, path in by_name.items() if _NAME.fullmatch(name) and ".." not in name
    }
    return dict(list(safe.items())[:_MOST])


def _chosen(named: str, offered: Mapping[str, Path], kind: str, variable: str) -> Path:
    """Return the one of that name; raise `WrongInput` with the names there are."""
    if named in offered:
        return offered[named]
    if not offered:
        raise WrongInput(
            f"No {kind} is offered here by name; set {variable} to a folder of them. "
            "Paths are for a terminal."
        )
    hint = nearest(named, offered, most=_MOST) or f"; known: {', '.join(offered)}"
    raise WrongInput(
        f"'{shortened(named)}' is no {kind} offered here (paths are for a terminal){hint}."
    )
