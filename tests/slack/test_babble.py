"""Two thousand signed payloads that Slack would not send: no server error, no traceback, no change without leave."""

import json
import logging
import random
from urllib.parse import parse_qs, urlencode

import pytest

from tests.babble import lines, spoilt
from tests.slack.test_forged import BODIES, JSON, door, signed

assert door, "a fixture of the tests of forgeries"
PAYLOADS = (200, pytest.param(2_000, marks=pytest.mark.slow))


def payload(dice, made, alert, n):
    """Return one request's body, spoilt, signed all the same, with an id of its own."""
    body, kind = made
    if kind == JSON:
        event = json.loads(body)
        event["event"] = event["event"] | {"ts": f"{n}.0"}
        return json.dumps(spoilt(dice, event, alert)), kind
    fields = {name: found[0] for name, found in parse_qs(body, keep_blank_values=True).items()}
    if "payload" in fields:
        fields = {
            "payload": json.dumps(
                spoilt(dice, json.loads(fields["payload"]) | {"trigger_id": f"t{n}"}, alert)
            )
        }
        return urlencode(fields), kind
    fields = spoilt(
        dice, fields | {"trigger_id": f"t{n}", "user_id": dice.choice(("U1", "U2"))}, alert
    )
    return urlencode(fields if isinstance(fields, dict) else {"x": str(fields)}), kind


@pytest.mark.timeout(300)
@pytest.mark.parametrize("payloads", PAYLOADS)
async def test_no_signed_payload_breaks_the_door_or_changes_what_its_person_may_not(
    door, caplog, payloads
):
    caplog.set_level(logging.INFO)
    dice, behind = random.Random(6), door.behind
    for n, line in zip(range(payloads), lines(dice, behind.alert), strict=False):
        body, kind = payload(dice, dice.choice(BODIES)(line), behind.alert, n)
        answer = await door.post(
            "/slack/events", data=body.encode(), headers=signed(body) | {"Content-Type": kind}
        )
        assert answer.status < 500, body
        assert "Traceback" not in await answer.text()
        if n % 50 == 0:
            await door.drain()
    await door.drain()
    assert len(behind.asked) > payloads / 4
    assert behind.wrong == []
    assert behind.kept_by_the_door() <= {"slack.installations", "slack.seen"}
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
