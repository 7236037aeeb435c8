"""Open a part of the world when it is first asked, and keep it: in the process, and on disk.

A kept file is the pickle of a thing with its arrays behind it, which are mapped and not read. It
lies in this user's own folder and is named by all that the thing depends on: the files it was read
from, the settings, and the code.
"""

from __future__ import annotations

import copyreg
import io
import logging
import mmap
import os
import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar, cast

from bot.wiring.environment import HOME, STATE

Part = TypeVar("Part")


class Once(Generic[Part]):
    """Make a thing at the first call and keep it; a failure is not kept."""

    def __init__(self, make: Callable[[], Part]) -> None:
        self._make = make
        self._lock = Lock()
        self._made: list[Part] = []

    def __call__(self) -> Part:
        """Return the thing."""
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]


class AtMostEvery:
    """Return whether something is due: at the first call, and again when `seconds` have passed."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds, self._clock = seconds, clock
        self._last: float | None = None

    def __call__(self) -> bool:
        """Return whether it is due, and take it as done then."""
        seconds = self._clock()
        if self._last is not None and seconds - self._last < self._seconds:
            return False
        self._last = seconds
        return True


class _Lazy:
    """Stand for a part of the world until somebody asks it something."""

    def __init__(self, opened: Callable[[], Any]) -> None:
        self._opened = opened

    def __getattr__(self, name: str) -> Any:
        def ask(*asked: Any, **named: Any) -> Any:
            return getattr(self._opened(), name)(*asked, **named)

        return ask

    def __call__(self, *asked: Any, **named: Any) -> Any:
        return self._opened()(*asked, **named)


def lazy(opened: Callable[[], Part]) -> Part:
    """Return a port that is opened by the first call of one of its methods."""
    return cast("Part", _Lazy(opened))


FOLDER = STATE / "opened"
_MOST_FILES = 24
_ALIGNED = 64
"""Arrays begin at multiples of this many bytes."""
_log = logging.getLogger("trnbot.kept")


def kept(name: str, depends_on: tuple[object, ...], make: Callable[[], Part]) -> Part:
    """Return the thing kept under this name for the same dependencies, else make and keep it."""
    path = place_of(name, *depends_on)
    try:
        return cast("Part", _load(path))
    except FileNotFoundError:
        pass
    except Exception as error:  # whatever is wrong with a copy, the original is read
        _log.info("%s could not be used, so it is made anew: %s", path.name, type(error).__name__)

    part = make()
    try:
        _store(path, part)
    except (OSError, TypeError, AttributeError, pickle.PicklingError) as error:
        _log.info("%s is not kept: %s", path.name, error)
    return part


def place_of(name: str, *depends_on: object) -> Path:
    """Return the place of what depends on these and on trnbot's own files.

    The files that were used longest ago make room for it.
    """
    digest = blake2b(repr((*depends_on, _code())).encode(), digest_size=12).hexdigest()
    path = FOLDER / f"{name}-{digest}"
    with suppress(OSError):  # another process puts its files in place at the same time
        files = sorted(FOLDER.iterdir(), key=lambda file: file.stat().st_mtime)
        for old in [file for file in files if file != path][: 1 - _MOST_FILES]:
            old.unlink(missing_ok=True)
    return path


def content_of(folder: Path) -> str:
    """Return a name for the files under a folder: another one when any is added, written or gone.

    Byte code is left out, which Python writes whenever a module is first imported.
    """
    stamps = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            with suppress(OSError):  # a link that leads nowhere holds nothing
                status = os.stat(os.path.join(place, name))
                stamps.append((place, name, status.st_size, status.st_mtime_ns))
    return blake2b(repr(stamps).encode(), digest_size=12).hexdigest()


@cache
def _code() -> str:
    """Return a name for the code that makes things."""
    return " ".join(content_of(HOME / room) for room in ("bot", "adapters", "detectors"))


def packed(part: object) -> list[memoryview]:
    """Return the pickle of a thing, and behind it the bytes of its arrays, which are not copied.

    Views of one array share its bytes.
    """
    import numpy as np

    def reduced(array: Any) -> Any:
        whole = array
        while isinstance(whole.base, np.ndarray):
            whole = whole.base
        is_whole = whole is array or not array.size or whole.dtype.hasobject
        if is_whole or not whole.flags.c_contiguous:
            return array.__reduce_ex__(5)
        offset = array.ctypes.data - whole.ctypes.data
        return np.ndarray, (array.shape, array.dtype, whole, offset, array.strides)

    buffers: list[pickle.PickleBuffer] = []
    pickled = io.BytesIO()
    pickler = pickle.Pickler(pickled, protocol=5, buffer_callback=buffers.append)
    # A lock is pickled as a new one: nobody holds it where it is read.
    pickler.dispatch_table = {
        **copyreg.dispatch_table,
        type(Lock()): lambda _: (Lock, ()),
        np.ndarray: reduced,
    }
    pickler.dump(part)
    return [pickled.getbuffer(), *(buffer.raw() for buffer in buffers)]


def unpacked(views: Sequence[Any]) -> Any:
    """Return a packed thing, which may write into its arrays."""
    pickled, *buffers = map(bytearray, views)
    return pickle.loads(pickled, buffers=buffers)  # noqa: S301  packed by this package


def _store(path: Path, part: object) -> None:
    """Write a thing beside its place and rename it, so that no half of it is ever read."""
    views = packed(part)
    head = [view.nbytes for view in views]
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("wb") as file:
        file.write(repr(head).encode() + b"\n")
        for content in views:
            file.write(b"\0" * (-file.tell() % _ALIGNED))
            file.write(content)
    beside.rename(path)


def _load(path: Path) -> object:
    """Map a kept thing; raise `PermissionError` for a file that others could have written."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise PermissionError(path)
        content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        head = file.readline()

    place, views = len(head), []
    for size in map(int, head.decode().strip("[]\n").split(",")):
        place += -place % _ALIGNED
        views.append(content[place : place + size])
        place += size
    os.utime(path)
    return pickle.loads(views[0], buffers=views[1:])  # noqa: S301  written by this user alone
