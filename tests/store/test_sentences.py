"""Whatever a driver says, one sentence names the database, the reason and what a person can do."""

from __future__ import annotations

import errno
import sqlite3

import pytest
from sqlalchemy.exc import DatabaseError, NoSuchTableError

from adapters.store import backup
from adapters.store.sql import _REMEDIES, explained, reason_of, remedy
from bot.errors import StoreFailed, Unavailable
from tests.cases import in_one_run


def driver_error(words: str) -> DatabaseError:
    return DatabaseError("SELECT 1", {}, sqlite3.DatabaseError(words))


@in_one_run
@pytest.mark.parametrize("sign", _REMEDIES)
def test_each_sign_has_its_remedy_in_a_question_and_in_a_copy(sign: str) -> None:
    words = f"driver: {sign.upper()} here.\nSECOND LINE with hunter2"
    sentence = f"driver: {sign.upper()} here{remedy(sign)}."
    assert remedy(sign)
    with pytest.raises(StoreFailed) as failed, explained("x"):
        raise driver_error(words)
    assert str(failed.value) == f"The database x failed: {sentence}"
    with pytest.raises(Unavailable) as uncopied, backup._explained("x"):
        raise driver_error(words)
    assert str(uncopied.value) == f"x cannot be copied: {sentence}"
    with pytest.raises(Unavailable, match=r"x cannot be copied: .*; "), backup._explained("x"):
        raise sqlite3.OperationalError(sign)


def test_what_has_no_remedy_is_said_as_it_is() -> None:
    assert remedy("something else") == ""
    assert reason_of(OSError(errno.EACCES, "Permission denied")) == "Permission denied"
    assert reason_of(OSError()) == "OSError"
    assert reason_of(NoSuchTableError("t")) == "NoSuchTableError"
    with (
        pytest.raises(StoreFailed, match="something stored in it cannot be read; stop trnbot"),
        explained("x"),
    ):
        b"\xff".decode()
    with pytest.raises(KeyError), explained("x"):
        raise KeyError("a fault of ours")
