"""Keep files for the bot's own user.

Those it makes, and those that an earlier version made readable for others.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable
from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_log = logging.getLogger("trnbot.store")


def make_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, for this user alone.

    One that is there already stays as it is.
    """
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=stat.S_IRWXU, exist_ok=True)


def make_file(path: Path) -> None:
    """Make an empty file for this user alone, where there is none."""
    try:
        os.close(
            os.open(
                path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, stat.S_IRUSR | stat.S_IWUSR
            )
        )
    except FileExistsError:
        return


def tighten(paths: Iterable[Path]) -> None:
    """Take files and folders from everybody but their owner, and log which.

    A link's target is somebody else's business.
    """
    changed = [str(path) for path in paths if _tightened(path)]
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        _log.warning(
            "others could read %s%s; now only the user who runs trnbot can", changed[0], more
        )


def _tightened(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode) or not mode & _OTHERS:
            return False
        path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
    except FileNotFoundError:  # gone meanwhile, as SQLite's files beside the database go
        return False
    except OSError as error:
        _log.warning("others can read %s, and it cannot be changed: %s", path, error.strerror)
        return False
    return True
