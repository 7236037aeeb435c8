"""A recording with a spot notice gives one alert, with the job, the checkpoint's age and dollars at risk, and nothing else changes."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.model.causes import Cause
from bot.settings.settings import read_settings
from bot.watch.preview import replay
from bot.wiring.source import OpenedSource, memory_stores
from tests.e2e.product import recording


def replayed(folder):
    settings = read_settings({"TRNBOT_SOURCE": f"recording:{folder}"})
    return replay(
        OpenedSource(settings.source, settings).ports(memory_stores(), settings.policy),
        ("default",),
    )


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notices") / "recording"
    shutil.copytree(recording("tiny"), folder)
    (folder / "metrics/runs.jsonl").write_text("".join(lines()))
    return folder


def lines():
    """Yield what a run publishes each minute of two hours, with a checkpoint every half hour."""
    begin = datetime(2026, 11, 17, tzinfo=UTC).timestamp()
    for minute in range(120):
        for name, value in (("CheckpointAgeSeconds", minute % 30 * 60.0), ("Step", minute * 10.0)):
            yield (
                json.dumps(
                    {
                        "account_id": "111122223333",
                        "region": "us-west-2",
                        "namespace": "Trn/Training",
                        "metric_name": name,
                        "dimensions": {"Run": "pretrain", "ClusterName": "tiny"},
                        "timestamp": int(begin + minute * 60) * 1000,
                        "value": {"count": 1, "sum": value, "max": value, "min": value},
                        "unit": "None",
                    }
                )
                + "\n"
            )


@pytest.fixture(scope="module")
def calm(tiny):
    return replayed(tiny)


def message(instance, at):
    """Return what `aws sqs receive-message --output json` prints of a notice."""
    event = {
        "version": "0",
        "id": "12345678-1234-1234-1234-123456789012",
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "source": "aws.ec2",
        "account": "111122223333",
        "time": f"{at:%Y-%m-%dT%H:%M:%SZ}",
        "region": "us-west-2",
        "resources": [f"arn:aws:ec2:us-west-2:111122223333:instance/{instance}"],
        "detail": {"instance-id": instance, "instance-action": "terminate"},
    }
    return {"MessageId": "m-1", "ReceiptHandle": "h-1", "MD5OfBody": "", "Body": json.dumps(event)}


def test_one_alert_in_the_next_tick_and_every_other_alert_as_it_was(
    tiny: Path, calm, tmp_path: Path
) -> None:
    folder = tmp_path / "noticed"
    shutil.copytree(tiny, folder)
    described = json.loads(
        next((folder / "api/ec2/describe_instances/us-west-2").glob("*.json")).read_text()
    )
    instance = described["Reservations"][0]["Instances"][0]["InstanceId"]
    at = calm.window.start + timedelta(hours=1, minutes=22)
    for minutes in (0, 7):  # delivered twice, the second time late
        path = (
            folder
            / f"api/sqs/receive_message/us-west-2/{at + timedelta(minutes=minutes):%Y%m%dT%H%M%SZ}.json"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"Messages": [message(instance, at)]}))
    seen = replayed(folder)
    (told,) = (a for a in seen.alerts.values() if a.cause is Cause.INTERRUPTION_NOTICE)
    assert at <= told.opened <= at + timedelta(minutes=5)
    assert told.anomaly.things == (instance,)
    assert "the newest checkpoint of" in told.anomaly.why
    assert told.anomaly.labels.job == "pretrain"
    assert len(told.anomaly.at_risk.things) == 3
    assert told.at_risk_usd
    assert 10 < told.at_risk_usd < 30
    assert told.waste is None
    assert told.id in {a.id for notice in seen.notifications for a in notice.alerts}
    rest = {key: a.anomaly for key, a in seen.alerts.items() if a is not told}
    assert rest == {key: a.anomaly for key, a in calm.alerts.items()}
