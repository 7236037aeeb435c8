"""Stand in for SQS: messages that hide once received and come back unless they are deleted, as a standard queue's do."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import md5
from itertools import count
from typing import Any


@dataclass
class Queue:
    """Hold the messages of one queue: body and the time from which each may be received, by message id."""

    bodies: dict[str, str] = field(default_factory=dict)
    visible: dict[str, float] = field(default_factory=dict)
    handles: dict[str, str] = field(default_factory=dict)
    _numbers: Any = field(default_factory=count)

    def put(self, body: str | dict[str, Any]) -> str:
        name = f"m-{next(self._numbers)}"
        self.bodies[name] = body if isinstance(body, str) else json.dumps(body)
        self.visible[name] = 0.0
        return name

    def answer(self, operation: str, given: dict[str, Any], now: float) -> dict[str, Any]:
        match operation:
            case "ReceiveMessage":
                return self._receive(given, now)
            case "DeleteMessageBatch":
                return self._delete(given)
        return {
            "Attributes": {
                "ApproximateNumberOfMessages": str(sum(at <= now for at in self.visible.values()))
            }
        }

    def _receive(self, given: dict[str, Any], now: float) -> dict[str, Any]:
        there = [name for name, at in self.visible.items() if at <= now][
            : given.get("MaxNumberOfMessages", 1)
        ]
        messages = []
        for name in there:
            self.visible[name] = now + given.get("VisibilityTimeout", 30)
            handle = f"{name}/{next(self._numbers)}"
            self.handles[handle] = name
            body = self.bodies[name]
            digest = md5(body.encode(), usedforsecurity=False).hexdigest()
            messages.append(
                {"MessageId": name, "ReceiptHandle": handle, "MD5OfBody": digest, "Body": body}
            )
        return {"Messages": messages} if messages else {}

    def _delete(self, given: dict[str, Any]) -> dict[str, Any]:
        done = []
        for entry in given["Entries"]:
            name = self.handles.pop(entry["ReceiptHandle"], "")
            self.bodies.pop(name, None)
            self.visible.pop(name, None)
            done.append({"Id": entry["Id"]})
        return {"Successful": done, "Failed": []}
