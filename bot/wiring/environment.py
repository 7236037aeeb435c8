"""Read the environment and the files of this machine, and keep stored secrets sealed."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from adapters.chat.config import INSTALLATIONS
from bot.errors import WrongInput, nearest, shortened
from bot.model.limits import POLICY_BYTES, TEXT_BYTES
from bot.model.money import counted
from bot.model.request import Request
from bot.ports import DocumentStore
from bot.settings.options import Options
from bot.settings.routes import read_text, words
from bot.settings.settings import Settings, read_settings, settings_text
from bot.wiring.logs import hide

if TYPE_CHECKING:
    from adapters.store.sealing import Cipher, Inventory
    from adapters.store.sql import SqlStore


STATE = Path(".trnbot")
"""The folder for all that the bot itself keeps in files."""


def settings_of(options: Mapping[str, str]) -> Settings:
    """Read the environment, the settings file, and the options of the terminal over both.

    The log hides their secrets.
    """
    typed = {
        "TRNBOT_SOURCE": options.get("source"),
        "TRNBOT_PORT": options.get("port"),
        "TRNBOT_CONFIG": options.get("config"),
    }
    environ = {**os.environ, **{name: value for name, value in typed.items() if value is not None}}
    settings = read_settings(environ, settings_text(environ, Path.cwd()))
    hide(settings.secrets())
    return settings


def product_version() -> str:
    """Return the installed version."""
    try:
        return version("trnbot")
    except PackageNotFoundError:
        return "unpacked"


@contextmanager
def private_files() -> Iterator[None]:
    """Make every new file and folder for this user alone as long as this lasts, whatever the umask."""
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


SECRET = (INSTALLATIONS,)
"""The collections whose documents are secrets.

Every other document may be read by whoever reads the database.
"""
_KMS = "kms:"
_log = logging.getLogger("trnbot")


def cipher_of(settings: Settings) -> Cipher | None:
    """Return the cipher of the configured keys, None without any.

    Those that a KMS key wraps are unwrapped now, once.
    """
    keys = words(settings.text("secrets.key"))
    if not keys:
        return None
    from adapters.store.sealing import Cipher

    region = next(iter(settings["aws.regions"]), "")
    return Cipher([_unwrapped(key, region) for key in keys])


def _unwrapped(key: str, region: str) -> str:
    if not key.startswith(_KMS):
        return key
    from adapters.aws.kms import DataKeys

    return DataKeys(region).unwrap(key.removeprefix(_KMS))


def sealed_documents(settings: Settings, store: SqlStore) -> DocumentStore:
    """Return the documents of the database with secrets sealed.

    What an older version left in plain text is sealed first.

    Raises `Unavailable`, with what to do, where a stored secret is sealed with none of the keys.
    """
    from adapters.store.sealing import SealedDocuments, require_open, seal

    cipher = cipher_of(settings)
    if cipher:
        found = seal(store, cipher, SECRET, older=False)
        require_open(found)
        if found.plain:
            _log.info(
                "sealed %s that lay in the database in plain text", counted(found.plain, "secret")
            )
        if found.older:
            _log.info(
                "%s sealed with an older key; 'trnbot secrets rotate' seals anew",
                counted(found.older, "secret"),
            )
    return SealedDocuments(store, cipher, SECRET)


def manage_secrets(options: Options) -> int:
    """Make a key, seal every stored secret with the first key, or forget what no key opens."""
    doing = {"key": print_key, "rotate": rotate, "forget": forget}
    word = " ".join(options.words[1:]).lower()
    if word not in doing:
        raise WrongInput(
            f"'secrets' takes one word more, such as 'trnbot secrets key'{nearest(word, doing)}."
        )
    return doing[word](options)


def print_key(options: Options) -> int:
    """Print a fresh key: a random one, or one that a KMS key wraps."""
    name = options.values.get("kms", "")
    if not name:
        from adapters.store.sealing import fresh_key

        print(fresh_key())
        return 0
    from adapters.aws.kms import DataKeys

    region = next(iter(settings_of(options.values)["aws.regions"]), "")
    print(f"{_KMS}{DataKeys(region).fresh(name)}")
    return 0


def rotate(options: Options) -> int:
    """Seal every stored secret with the first key, and say what is left to do."""
    from adapters.store.sealing import require_open

    settings = settings_of(options.values)
    with _resealed(settings) as (store, found):
        store.scrub()
    print(_told(found, len(words(settings.text("secrets.key"))) - 1))
    require_open(found)
    return 0


def forget(options: Options) -> int:
    """Drop the stored secrets that no key opens, and name them: their workspaces install again."""
    with _resealed(settings_of(options.values)) as (store, found):
        for collection, key in found.locked:
            store.drop(collection, key)
            print(f"{collection} {key} is dropped")
    print(
        f"{counted(len(found.locked), 'secret')} dropped, {counted(found.plain + found.older + found.first, 'secret')} kept."
    )
    return 0


@contextmanager
def _resealed(settings: Settings) -> Iterator[tuple[SqlStore, Inventory]]:
    """Seal everything with the first key, and give the database and how its secrets were kept before."""
    from adapters.store.open import open_store
    from adapters.store.sealing import KEY, seal

    cipher = cipher_of(settings)
    if cipher is None:
        raise WrongInput(
            f"There is no key to seal with: set {KEY} to one that 'trnbot secrets key' prints."
        )
    store = open_store(settings.text("database_url"))
    try:
        yield store, seal(store, cipher, SECRET, older=True)
    finally:
        store.close()


def _told(found: Inventory, older_keys: int) -> str:
    """Say how many secrets were sealed anew, and what is left to do."""
    done = f"{counted(found.plain + found.older, 'secret')} sealed with the first key; {found.first} were before."
    if found.locked or not older_keys:
        return done
    return f"{done} Left to do: take the other {counted(older_keys, 'key')} off the list, and start every process again."


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
        offered = _offered(self._recordings, _folder_name)
        if named not in offered and request.surface == _PATHS_FROM:
            return named if ":" in named else f"recording:{named}"
        return f"recording:{_chosen(named, offered, 'recording', 'TRNBOT_RECORDINGS')}"

    def policy(self, named: str, request: Request) -> str:
        """Return the text of a policy; a terminal may name a file too."""
        offered = _offered(self._policies, _toml_name)
        name = named.removesuffix(".toml")
        if name not in offered and request.surface == _PATHS_FROM:
            return read_text(
                Path(named).expanduser(), f"The policy file '{shortened(named)}'", POLICY_BYTES
            )
        return read_text(
            _chosen(name, offered, "policy", "TRNBOT_POLICIES"),
            f"The policy '{name}'",
            POLICY_BYTES,
        )

    def text(self, path: str, request: Request) -> str:
        """Return another text file of a terminal."""
        if request.surface != _PATHS_FROM:
            raise WrongInput("Files are read in a terminal; paste the text itself.")
        return read_text(Path(path).expanduser(), f"The file '{shortened(path)}'", TEXT_BYTES)


def _offered(folder: str, named: Callable[[Path], str]) -> Mapping[str, Path]:
    """Return what stands in a folder by name.

    Nothing hidden, and nothing that a link leads out of it.
    """
    if not folder:
        return {}
    try:
        home = Path(folder).expanduser().resolve()
        paths = sorted(path for path in home.iterdir() if path.resolve().parent == home)
    except (OSError, RuntimeError):
        return {}
    names = {
        name: path for path in paths if _NAME.fullmatch(name := named(path)) and ".." not in name
    }
    return dict(list(names.items())[:_MOST])


def _folder_name(path: Path) -> str:
    return path.name if path.is_dir() else ""


def _toml_name(path: Path) -> str:
    return path.stem if path.suffix == ".toml" and path.is_file() else ""


def _chosen(named: str, offered: Mapping[str, Path], kind: str, variable: str) -> Path:
    """Return the one of that name; raise `WrongInput` with the names there are."""
    if named in offered:
        return offered[named]
    if not offered:
        raise WrongInput(
            f"No {kind} is offered here by name; set {variable} to a folder of them. Paths are for a terminal."
        )
    known = nearest(named, offered, most=_MOST) or f"; known: {', '.join(offered)}"
    raise WrongInput(
        f"'{shortened(named)}' is no {kind} offered here (paths are for a terminal){known}."
    )
