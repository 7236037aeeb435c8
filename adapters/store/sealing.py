"""Seal documents that hold secrets.

Encrypted before they reach the database, opened when they are read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from bot.errors import Unavailable, WrongInput
from bot.ports import DocumentStore

KEY = "TRNBOT_SECRETS_KEY"
_SEALED = "sealed"


ChangedDocument = Callable[[str, Mapping[str, Any]], Mapping[str, Any] | None]
"""Makes of a key and its document the one to write in its place, or None."""


class Rewrites(Protocol):
    """Change the documents of a collection in one transaction."""

    def rewrite(self, collection: str, changed: ChangedDocument) -> None:
        """Write what `changed` makes of each document, over it; None leaves it as it is."""

    def scrub(self) -> None:
        """Leave nothing on disk of what was overwritten, as far as the database allows."""


class Cipher:
    """Encrypt with the first of several keys, decrypt with any of them.

    The place of a document is part of what is sealed.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        """Raise `WrongInput` for a text that is no key, by its number."""
        ciphers = []
        for number, key in enumerate(keys, 1):
            try:
                ciphers.append(Fernet(key.encode("ascii")))
            except ValueError:
                raise WrongInput(
                    f"Key {number} of {KEY} is not a key; 'trnbot secrets key' prints a fresh one."
                ) from None
        self._first, self._all = ciphers[0], MultiFernet(ciphers)

    def sealed(self, collection: str, key: str, document: Mapping[str, Any]) -> dict[str, str]:
        """Return a document as it is stored: one encrypted text."""
        text = json.dumps({"place": [collection, key], "document": dict(document)})
        return {_SEALED: self._first.encrypt(text.encode()).decode()}

    def opened(self, collection: str, key: str, stored: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a stored document.

        Raise `Unavailable` where no key opens it, or where it was sealed for another place.
        """
        if not is_sealed(stored):
            return stored
        try:
            content = json.loads(self._all.decrypt(str(stored[_SEALED])))
        except InvalidToken:
            raise _locked([(collection, key)]) from None
        # A document that somebody moved here was sealed for another place.
        if content["place"] != [collection, key]:
            raise _locked([(collection, key)])
        document: Mapping[str, Any] = content["document"]
        return document

    def newest(self, stored: Mapping[str, Any]) -> bool:
        """Return whether a stored document is sealed with the first key."""
        try:
            self._first.decrypt(str(stored[_SEALED]))
        except InvalidToken:
            return False
        return True


def fresh_key() -> str:
    """Return a new random key."""
    return Fernet.generate_key().decode()


def is_sealed(stored: Mapping[str, Any]) -> bool:
    """Return whether a stored document is sealed."""
    return set(stored) == {_SEALED}


def _locked(places: Sequence[tuple[str, str]]) -> Unavailable:
    secrets = ", ".join(f"{collection} {key}" for collection, key in places)
    return Unavailable(
        f"No key of {KEY} opens {secrets}, which stays as it is. Add the key that sealed it "
        "behind the first, with a comma between; if that key is lost, 'trnbot secrets forget' "
        "drops what no key opens."
    )


class SealedDocuments:
    """Implement `bot.ports.DocumentStore` over another one.

    Documents of the collections that hold secrets are sealed there.

    Without a cipher no secret is written; what older versions wrote in plain text is still read.
    """

    def __init__(
        self, documents: DocumentStore, cipher: Cipher | None, secret: Collection[str]
    ) -> None:
        self._documents, self._cipher, self._secret = documents, cipher, secret

    def put(self, collection: str, key: str, document: Mapping[str, Any]) -> None:
        """Write one document over the one before."""
        if collection in self._secret:
            document = self._given().sealed(collection, key, document)
        self._documents.put(collection, key, document)

    def get(self, collection: str, key: str) -> Mapping[str, Any] | None:
        """Return one document, or None."""
        stored = self._documents.get(collection, key)
        return None if stored is None else self._opened(collection, key, stored)

    def newest(self, collection: str, most: int) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Return up to `most` (key, document), the last written first."""
        return [
            (key, self._opened(collection, key, stored))
            for key, stored in self._documents.newest(collection, most)
        ]

    def drop(self, collection: str, key: str) -> None:
        """Forget one document."""
        self._documents.drop(collection, key)

    def _opened(self, collection: str, key: str, stored: Mapping[str, Any]) -> Mapping[str, Any]:
        secret = collection in self._secret and is_sealed(stored)
        return self._given().opened(collection, key, stored) if secret else stored

    def _given(self) -> Cipher:
        if self._cipher is None:
            raise Unavailable(
                f"This secret is stored sealed, so set {KEY}; "
                "'trnbot secrets key' prints a fresh one."
            )
        return self._cipher


@dataclass
class Inventory:
    """Count stored secrets by how they are kept.

    In plain text, sealed with the first key, with an older one, with none.
    """

    plain: int = 0
    first: int = 0
    older: int = 0
    locked: tuple[tuple[str, str], ...] = ()


def seal(store: Rewrites, cipher: Cipher, secret: Collection[str], *, older: bool) -> Inventory:
    """Seal what lies in plain text (and what `older` keys sealed) with the first key.

    Return how all were kept before.

    What no key opens stays as it is, and is named.
    """
    inventory = Inventory()

    def examined(collection: str, key: str, stored: Mapping[str, Any]) -> Mapping[str, Any] | None:
        try:
            document = cipher.opened(collection, key, stored)
        except Unavailable:
            inventory.locked = (*inventory.locked, (collection, key))
            return None
        if not is_sealed(stored):
            inventory.plain += 1
            return cipher.sealed(collection, key, document)

        # What the first key sealed is as it should be.
        if cipher.newest(stored):
            inventory.first += 1
            return None
        inventory.older += 1
        return cipher.sealed(collection, key, document) if older else None

    for collection in secret:
        store.rewrite(collection, partial(examined, collection))
    if inventory.plain:
        store.scrub()
    return inventory


def require_open(inventory: Inventory) -> None:
    """Raise `Unavailable`, with what to do, where secrets are sealed with a key that is gone."""
    if inventory.locked:
        raise _locked(inventory.locked)
