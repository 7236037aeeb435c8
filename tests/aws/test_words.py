"""A model of Bedrock chooses among lines by a number, and whatever else it does is no choice."""

from __future__ import annotations

import logging

import boto3
import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.stub import ANY, Stubber

from adapters.aws.services import BedrockReader

LINES = [("cost 7d", "what it cost"), ("why", "why an alert fires"), ("ack", "take it")]


def reader(*written: str) -> BedrockReader:
    """Return a reader whose model writes these answers, each held against botocore's model."""
    client = boto3.client(
        "bedrock-runtime", "us-west-2", aws_access_key_id="x", aws_secret_access_key="y"
    )
    stubber = Stubber(client)
    for text in written:
        answer = {
            "output": {"message": {"role": "assistant", "content": [{"text": text}]}},
            "stopReason": "end_turn",
            "usage": {"inputTokens": 9, "outputTokens": 1, "totalTokens": 10},
            "metrics": {"latencyMs": 5},
        }
        asked = {
            "modelId": "m",
            "system": ANY,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "text": "Lines:\n1. cost 7d: what it cost\n2. why: why an alert fires\n"
                            "3. ack: take it\n\nMessage:\nwhats up"
                        }
                    ],
                }
            ],
            "inferenceConfig": {"maxTokens": 8, "temperature": 0.0},
        }
        stubber.add_response("converse", answer, asked)
    if not written:
        stubber.add_client_error("converse", "AccessDeniedException", "no")
    stubber.activate()
    return BedrockReader("m", client=client)


@pytest.mark.parametrize(
    ("written", "chosen"),
    [
        ("2", "why"),
        (" 3\n", "ack"),
        ("0", ""),
        ("4", ""),
        ("-1", ""),
        ("why", ""),
        ("2. why", ""),
        ("", ""),
        ("\u00b2", ""),
    ],
)
def test_only_the_number_of_a_line_is_a_choice(written: str, chosen: str) -> None:
    assert reader(written).choose("whats up", LINES) == chosen


def test_a_refusal_is_no_choice_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert reader().choose("whats up", LINES) == ""
    assert caplog.messages == ["m chose no line: AccessDeniedException"]


class Silent:
    """Never answers."""

    def converse(self, **_: object) -> object:
        raise ReadTimeoutError(endpoint_url="x")


def test_a_silent_model_is_no_choice() -> None:
    assert BedrockReader("m", client=Silent()).choose("whats up", LINES) == ""
