"""Build small recordings by hand, record by record."""

import gzip
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from adapters.aws.config import ReadingConfig
from adapters.aws.recording.recording import Recording, open_recording
from bot.model.fleet import InstanceType

START = datetime(2026, 11, 17, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TRN1 = InstanceType(
    "trn1.32xlarge",
    "trn1",
    "neuron",
    16,
    32,
    512,
    512,
    128,
    800,
    3040,
    3040,
    "test",
    date(2026, 11, 20),
)


@dataclass
class Builder:
    """Write records into a folder and open it."""

    folder: Path
    records: list[dict[str, Any]] = field(default_factory=list)

    start: datetime = START

    def add(
        self,
        metric: str,
        dimensions: Mapping[str, str],
        points: Mapping[int, tuple[float, float]] | Iterable[tuple[int, tuple[float, float]]],
        namespace: str = "ContainerInsights",
        peak: float | None = None,
    ) -> None:
        """Add points given as minute -> (count, sum)."""
        for minute, (count, total) in dict(points).items():
            self.records.append(
                {
                    "account_id": "111122223333",
                    "region": "us-west-2",
                    "namespace": namespace,
                    "metric_name": metric,
                    "dimensions": dict(dimensions),
                    "timestamp": int((START + minute * MINUTE).timestamp() * 1000),
                    "value": {
                        "count": count,
                        "sum": total,
                        "max": total if peak is None else peak,
                        "min": 0,
                    },
                    "unit": "None",
                }
            )

    def node(
        self, metric: str, points: Mapping[int, tuple[float, float]], instance: str = "i-1"
    ) -> None:
        """Add points of the set that a whole node reports under."""
        self.add(
            metric,
            {"ClusterName": "llama", "InstanceId": instance, "NodeName": f"ip-{instance}"},
            points,
        )

    def lines(self) -> list[str]:
        return [json.dumps(record) for record in self.records]

    def write(self, name: str = "metrics/a.jsonl", lines: list[str] | None = None) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{line}\n" for line in (self.lines() if lines is None else lines)).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
        return path

    def api(self, name: str, response: Any) -> Path:
        path = self.folder / "api" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(response if isinstance(response, str) else json.dumps(response))
        return path

    def open(self, interval_minutes: int = 5, write: bool = True, **keywords: Any) -> Recording:
        if write and self.records:
            self.write()
        types = keywords.pop("types", {"trn1.32xlarge": TRN1})
        return open_recording(
            self.folder, ReadingConfig(interval_minutes * MINUTE, types, **keywords)
        )


@pytest.fixture
def build(tmp_path: Path) -> Builder:
    return Builder(tmp_path)


@pytest.fixture
def at() -> Callable[[int], datetime]:
    """Return the time so many minutes after the start."""
    return lambda minutes: START + minutes * MINUTE
