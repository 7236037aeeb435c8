"""Secrets are stored encrypted, keys change without a gap, and a wrong key says so and loses nothing."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from adapters.aws.services import DataKeys
from adapters.store.open import open_store
from adapters.store.sealing import Cipher, SealedDocuments, fresh_key, seal
from adapters.store.sql import SqlStore
from bot.__main__ import main
from bot.errors import Unavailable, WrongInput
from bot.settings.settings import read_settings
from bot.wiring.secrets import SECRET, cipher_of, sealed_documents

(SHELF,) = SECRET
OLD, NEW = fresh_key(), fresh_key()
TOKEN = "xoxb-1-2-S3CRETTOKEN"
DOCUMENT = {"name": "T1", "token": TOKEN}


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    opened = open_store(url)
    yield opened
    opened.close()


def vault(store: SqlStore, *keys: str) -> SealedDocuments:
    return SealedDocuments(store, Cipher(keys) if keys else None, SECRET)


def test_a_secret_is_stored_sealed_and_read_back(store: SqlStore) -> None:
    sealed = vault(store, OLD)
    sealed.put(SHELF, "T1", DOCUMENT)
    sealed.put("checklists", "c", {"sealed": "by a person"})
    assert TOKEN not in json.dumps(store.get(SHELF, "T1"))
    assert sealed.get(SHELF, "T1") == DOCUMENT
    assert sealed.newest(SHELF, 9) == [("T1", DOCUMENT)]
    assert (
        store.get("checklists", "c") == sealed.get("checklists", "c") == {"sealed": "by a person"}
    )
    sealed.drop(SHELF, "T1")
    assert sealed.get(SHELF, "T1") is None


def test_the_first_key_seals_and_each_opens(store: SqlStore) -> None:
    vault(store, OLD).put(SHELF, "T1", DOCUMENT)
    both = vault(store, NEW, OLD)
    assert both.get(SHELF, "T1") == DOCUMENT
    both.put(SHELF, "T2", DOCUMENT)
    assert vault(store, NEW).get(SHELF, "T2") == DOCUMENT
    found = seal(store, Cipher([NEW, OLD]), SECRET, older=True)
    assert (found.first, found.older, found.plain, found.locked) == (1, 1, 0, ())
    assert vault(store, NEW).get(SHELF, "T1") == DOCUMENT


def test_a_wrong_key_is_one_sentence_and_loses_nothing(store: SqlStore) -> None:
    vault(store, OLD).put(SHELF, "T1", DOCUMENT)
    before = store.get(SHELF, "T1")
    with pytest.raises(
        Unavailable,
        match=r"^No key of TRNBOT_SECRETS_KEY opens slack.installations T1, which stays as it is\.",
    ):
        vault(store, NEW).get(SHELF, "T1")
    assert seal(store, Cipher([NEW]), SECRET, older=True).locked == ((SHELF, "T1"),)
    assert store.get(SHELF, "T1") == before
    assert vault(store, OLD).get(SHELF, "T1") == DOCUMENT


def test_without_a_key_no_secret_is_written(store: SqlStore) -> None:
    with pytest.raises(Unavailable, match="set TRNBOT_SECRETS_KEY; 'trnbot secrets key' prints"):
        vault(store).put(SHELF, "T1", DOCUMENT)
    assert store.get(SHELF, "T1") is None


def test_a_sealed_secret_that_was_moved_to_another_workspace_is_refused(store: SqlStore) -> None:
    vault(store, OLD).put(SHELF, "T1", DOCUMENT)
    store.put(SHELF, "T2", store.get(SHELF, "T1") or {})
    with pytest.raises(Unavailable, match=r"opens slack.installations T2"):
        vault(store, OLD).get(SHELF, "T2")


def settings(url: str, *keys: str) -> Any:
    return read_settings({"TRNBOT_DATABASE_URL": url, "TRNBOT_SECRETS_KEY": ", ".join(keys)})


def test_plain_text_of_an_older_version_is_read_and_sealed_at_the_next_start(
    store: SqlStore, url: str
) -> None:
    store.put(SHELF, "T1", DOCUMENT)
    assert vault(store).get(SHELF, "T1") == vault(store, OLD).get(SHELF, "T1") == DOCUMENT
    documents = sealed_documents(settings(url, OLD), store)
    assert TOKEN not in json.dumps(store.get(SHELF, "T1"))
    assert documents.get(SHELF, "T1") == DOCUMENT


def test_a_start_seals_nothing_anew_but_refuses_what_it_cannot_open(
    store: SqlStore, url: str
) -> None:
    vault(store, OLD).put(SHELF, "T1", DOCUMENT)
    before = store.get(SHELF, "T1")
    assert sealed_documents(settings(url, NEW, OLD), store).get(SHELF, "T1") == DOCUMENT
    with pytest.raises(Unavailable, match=r"^No key .* opens slack.installations T1"):
        sealed_documents(settings(url, NEW), store)
    assert store.get(SHELF, "T1") == before


@pytest.mark.parametrize("key", ["x", "é" * 4, "A" * 43 + "!", "A" * 40])
def test_what_is_no_key_is_refused_by_its_number(key: str) -> None:
    with pytest.raises(
        WrongInput,
        match=r"^Key 2 of TRNBOT_SECRETS_KEY is not a key; 'trnbot secrets key' prints a fresh one\.$",
    ):
        Cipher([OLD, key])


def test_oauth_without_a_key_is_refused_in_one_sentence() -> None:
    oauth = {
        "SLACK_CLIENT_ID": "1.2",
        "SLACK_CLIENT_SECRET": "hush",
        "SLACK_SIGNING_SECRET": "hush",
        "TRNBOT_SLACK_WORKSPACES": "T1",
    }
    (sentence,) = read_settings(oauth).unservable
    assert sentence.endswith("set TRNBOT_SECRETS_KEY to what 'trnbot secrets key' prints.")
    assert read_settings(oauth | {"TRNBOT_SECRETS_KEY": OLD}).unservable == ()


@pytest.fixture
def terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """Return a function that types a line over a database of its own, with some keys."""
    url = f"sqlite:///{tmp_path}/state/trnbot.db"
    monkeypatch.setenv("TRNBOT_DATABASE_URL", url)

    def typed(line: str, *keys: str) -> tuple[int, str]:
        monkeypatch.setenv("TRNBOT_SECRETS_KEY", ",".join(keys))
        code = main(line.split())
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return typed


def stored(terminal: Any, *documents: str) -> SqlStore:
    opened = open_store(os.environ["TRNBOT_DATABASE_URL"])
    for team in documents:
        vault(opened, OLD).put(SHELF, team, DOCUMENT)
    return opened


def test_the_terminal_prints_a_fresh_key(terminal: Any) -> None:
    keys = {terminal("secrets key")[1].strip() for _ in range(2)}
    assert len(keys) == 2
    Cipher(list(keys))


def test_the_terminal_rotates_and_says_how_many_and_what_is_left_to_do(terminal: Any) -> None:
    opened = stored(terminal, "T1", "T2")
    vault(opened, NEW).put(SHELF, "T3", DOCUMENT)
    code, said = terminal("secrets rotate", NEW, OLD)
    assert (code, said) == (
        0,
        "2 secrets sealed with the first key; 1 were before. "
        "Left to do: take the other 1 key off the list, and start every process again.\n",
    )
    assert {document["token"] for _, document in vault(opened, NEW).newest(SHELF, 9)} == {TOKEN}
    assert terminal("secrets rotate", NEW) == (
        0,
        "0 secrets sealed with the first key; 3 were before.\n",
    )
    opened.close()


def test_the_terminal_refuses_to_rotate_with_a_wrong_key_or_none_and_forgets_only_when_told(
    terminal: Any,
) -> None:
    opened = stored(terminal, "T1")
    vault(opened, NEW).put(SHELF, "T2", DOCUMENT)
    code, said = terminal("secrets rotate", NEW)
    assert code == 1
    assert "Traceback" not in said
    assert (
        "No key of TRNBOT_SECRETS_KEY opens slack.installations T1, which stays as it is." in said
    )
    assert vault(opened, OLD).get(SHELF, "T1") == DOCUMENT
    assert terminal("secrets rotate")[1].startswith("trnbot: There is no key to seal with")
    assert terminal("secrets rotat", OLD)[1] == (
        "trnbot: 'secrets' takes one word more, such as 'trnbot secrets key'; did you mean 'rotate'?\n"
    )
    assert terminal("secrets forget", NEW) == (
        0,
        "slack.installations T1 is dropped\n1 secret dropped, 1 secret kept.\n",
    )
    assert [key for key, _ in opened.newest(SHELF, 9)] == ["T2"]
    opened.close()


def kms(*answers: tuple[str, dict[str, Any], dict[str, Any]]) -> Any:
    """Return the real client of KMS, which says so when it is asked for something else."""
    client = boto3.client(
        "kms", region_name="us-west-2", aws_access_key_id="x", aws_secret_access_key="y"
    )
    stubber = Stubber(client)
    for operation, answer, asked in answers:
        stubber.add_response(
            operation, answer, asked | {"EncryptionContext": {"purpose": "trnbot stored secrets"}}
        )
    stubber.activate()
    return client


def test_a_key_may_be_wrapped_by_kms(store: SqlStore) -> None:
    bare, blob = os.urandom(32), b"wrapped"
    asked = {"KeyId": "alias/trnbot", "NumberOfBytes": 32}
    client = kms(
        ("generate_data_key_without_plaintext", {"CiphertextBlob": blob}, asked),
        ("decrypt", {"Plaintext": bare}, {"CiphertextBlob": blob}),
    )
    keys = DataKeys(client=client)
    wrapped = keys.fresh("alias/trnbot")
    key = keys.unwrap(wrapped)
    assert key == base64.urlsafe_b64encode(bare).decode()
    vault(store, key, OLD).put(SHELF, "T1", DOCUMENT)
    assert vault(store, key).get(SHELF, "T1") == DOCUMENT


def test_what_kms_refuses_is_one_sentence() -> None:
    client = boto3.client(
        "kms", region_name="us-west-2", aws_access_key_id="x", aws_secret_access_key="y"
    )
    stubber = Stubber(client)
    stubber.add_client_error("decrypt", "AccessDeniedException", "no")
    stubber.activate()
    with pytest.raises(
        Unavailable,
        match=r"^AWS KMS refused kms:Decrypt with 'AccessDeniedException'; see 'Secrets at rest'",
    ):
        DataKeys(client=client).unwrap(base64.b64encode(b"wrapped").decode())
    with pytest.raises(WrongInput, match="begins with kms: is not base64"):
        cipher_of(read_settings({"TRNBOT_SECRETS_KEY": "kms:not base64"}))
