"""What a recording and the journal hold of people: no key and no address, and aliases unless names are asked for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.aws.live.record import record
from bot.__main__ import main
from tests.aws_live.conftest import World, open_tiny, served

SECRETS = (
    "AKIAIOSFODNN7EXAMPLE",
    "203.0.113.77",
    "aws-cli/2.17",
    "4b0f3f1c-request",
    "AIDAPRINCIPAL",
    "ASIAQSESSIONKEY0",
)


@pytest.fixture
def rich(tiny: Path, tmp_path: Path) -> Iterator[World]:
    """Serve a recording whose events hold all that CloudTrail tells."""
    folder = tmp_path / "rich"
    shutil.copytree(tiny, folder)
    for path in (folder / "api/cloudtrail/lookup_events").rglob("*.json"):
        pages = json.loads(path.read_text())
        for event in pages["Events"]:
            told = json.loads(event["CloudTrailEvent"])
            told["userIdentity"] |= {
                "accessKeyId": SECRETS[5],
                "principalId": f"{SECRETS[4]}:ada@example.com",
            }
            told |= {
                "sourceIPAddress": SECRETS[1],
                "userAgent": SECRETS[2],
                "requestID": SECRETS[3],
            }
            event |= {"AccessKeyId": SECRETS[0], "CloudTrailEvent": json.dumps(told)}
            event["Resources"].append(
                {"ResourceType": "AWS::IAM::AccessKey", "ResourceName": SECRETS[5]}
            )
        path.write_text(json.dumps(pages))
    with served(folder) as world:
        yield world


def texts(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.rglob("*.json*") if path.is_file())


@pytest.mark.parametrize("keep", [False, True])
def test_record_keeps_no_access_key_ids_and_addresses_from_cloudtrail(
    rich: World, tmp_path: Path, keep: bool
) -> None:
    live = rich.live(journal=tmp_path / "journal")
    (now,) = rich.ticks(2, 2)
    live.read(now)
    done = record(
        live,
        tmp_path / "made",
        rich.extent.start,
        now,
        **({"keep_identities": True} if keep else {}),
    )
    assert "lookup_events" in {
        path.parent.parent.name for path in (tmp_path / "made").rglob("*.json")
    }
    for folder in ("made", "journal"):
        assert not [secret for secret in SECRETS if secret in texts(tmp_path / folder)], folder
    owners = {
        str(one.launched_by)
        for one in open_tiny(tmp_path / "made").read(now).inventory.instances.values()
    }
    assert owners == ({"ada@example.com"} if keep else {"person-1@redacted.invalid"})
    assert ("ada@example.com" in texts(tmp_path / "made")) == keep
    assert ("people's names are" if keep else "1 person became aliases") in done.kept()


def test_what_an_older_journal_holds_is_redacted_too(rich: World, tmp_path: Path) -> None:
    kept = tmp_path / "journal/api/cloudtrail/lookup_events/us-west-2"
    kept.mkdir(parents=True)
    for path in (tmp_path / "rich/api/cloudtrail/lookup_events/us-west-2").glob("*.json"):
        shutil.copy(path, kept)
    (now,) = rich.ticks(2, 2)
    record(rich.live(journal=tmp_path / "journal"), tmp_path / "made", rich.extent.start, now)
    made = texts(tmp_path / "made")
    assert "person-1@redacted.invalid" in made
    assert not [secret for secret in (*SECRETS, "ada@example.com") if secret in made]


def test_the_switch_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "--help"]) == 0
    assert "--keep-identities" in capsys.readouterr().out
