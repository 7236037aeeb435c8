"""Keep stored secrets sealed: make keys, seal anew, forget what no key opens."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from adapters.chat.config import INSTALLATIONS
from adapters.store.open import open_store
from adapters.store.sealing import (
    KEY,
    Cipher,
    Inventory,
    SealedDocuments,
    fresh_key,
    require_open,
    seal,
)
from adapters.store.sql import SqlStore
from bot.errors import WrongInput, find_named
from bot.model.money import counted
from bot.ports import DocumentStore
from bot.settings.routes import words
from bot.settings.settings import Settings
from bot.wiring.environment import settings_of
from bot.wiring.verbs import Options

if TYPE_CHECKING:
    from adapters.aws.services import DataKeys

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
    if any(key.startswith(_KMS) for key in keys):
        wrapped = _data_keys(settings)
        keys = tuple(
            wrapped.unwrap(key.removeprefix(_KMS)) if key.startswith(_KMS) else key for key in keys
        )
    return Cipher(keys)


def _data_keys(settings: Settings) -> DataKeys:
    """Return the keys of AWS KMS, in the first region of the settings."""
    from adapters.aws.services import DataKeys

    return DataKeys(next(iter(settings["aws.regions"]), ""))


def sealed_documents(settings: Settings, store: SqlStore) -> DocumentStore:
    """Return the documents of the database with secrets sealed.

    What an older version left in plain text is sealed first.

    Raises `Unavailable`, with what to do, where a stored secret is sealed with none of the keys.
    """
    cipher = cipher_of(settings)
    if cipher:
        before = seal(store, cipher, SECRET, older=False)
        require_open(before)
        if before.plain:
            _log.info(
                "sealed %s that lay in the database in plain text", counted(before.plain, "secret")
            )
        if before.older:
            _log.info(
                "%s sealed with an older key; 'trnbot secrets rotate' seals them again",
                counted(before.older, "secret"),
            )
    return SealedDocuments(store, cipher, SECRET)


def manage_secrets(options: Options) -> None:
    """Make a key, seal every stored secret with the first key, or forget what no key opens."""
    doing = {"key": print_key, "rotate": rotate, "forget": forget}
    word = " ".join(options.words[1:]).lower()
    find_named("'secrets' takes one word more, such as 'trnbot secrets key'", word, doing)(options)


def print_key(options: Options) -> None:
    """Print a fresh key: a random one, or one that a KMS key wraps."""
    name = options.values.get("kms", "")
    if name:
        print(f"{_KMS}{_data_keys(settings_of(options.values)).fresh(name)}")
    else:
        print(fresh_key())


def rotate(options: Options) -> None:
    """Seal every stored secret with the first key, and say what is left to do."""
    settings = settings_of(options.values)
    with _resealed(settings) as (store, before):
        store.scrub()  # what was overwritten would stay in SQLite's file

    resealed = counted(before.plain + before.older, "secret")
    done = f"{resealed} sealed with the first key; {before.first} were before."
    older_keys = len(words(settings.text("secrets.key"))) - 1
    if older_keys and not before.locked:
        unused = counted(older_keys, "key")
        done += f" Left to do: take the other {unused} off the list, and start every process again."
    print(done)
    require_open(before)


def forget(options: Options) -> None:
    """Drop the stored secrets that no key opens, and name them: their workspaces install again."""
    with _resealed(settings_of(options.values)) as (store, before):
        for collection, key in before.locked:
            store.drop(collection, key)
            print(f"{collection} {key} is dropped")
    dropped = counted(len(before.locked), "secret")
    remaining = counted(before.plain + before.older + before.first, "secret")
    print(f"{dropped} dropped, {remaining} kept.")


@contextmanager
def _resealed(settings: Settings) -> Iterator[tuple[SqlStore, Inventory]]:
    """Seal everything with the first key; give the database, and how its secrets were kept."""
    cipher = cipher_of(settings)
    if cipher is None:
        raise WrongInput(
            f"There is no key to seal with: set {KEY} to one that 'trnbot secrets key' prints."
        )
    with closing(open_store(settings.text("database_url"))) as store:
        yield store, seal(store, cipher, SECRET, older=True)
