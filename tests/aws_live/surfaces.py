"""Watch one fleet by each surface of metrics, and print what it found, asked and paid: `python -m tests.aws_live.surfaces`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from adapters.aws.api.operations import operations
from adapters.aws.api.promql import PrometheusServer
from adapters.simulator.generate import generate
from bot.model.frame import MetricsSurface
from bot.model.window import Window
from tests.aws_live.conftest import served
from tests.aws_live.ordeal import Watched, told, watch

SURFACES = {
    "classic": "Container Insights, GetMetricData",
    "otel": "CloudWatch's OTel store, PromQL",
    "prometheus": "a Prometheus server, PromQL",
}
_METRICS = ("ListMetrics", "GetMetricData", "GetLabels", "QueryMetrics")
_FROM, _UNTIL = timedelta(hours=2.5), timedelta(hours=4.5)


@dataclass(frozen=True)
class Watch:
    """Hold what a watch by one surface found, asked for and paid."""

    surface: str
    alerts: list[tuple[Any, ...]]
    requests: int
    usd: Decimal
    actions: tuple[str, ...]
    """What IAM must allow for its metrics."""

    def __str__(self) -> str:
        causes = ", ".join(
            f"{cause} of {len(things)} at {opened:%H:%M}"
            for cause, things, opened, *_ in self.alerts
        )
        allowed = ", ".join(self.actions) or "nothing of AWS"
        asked = f"{self.requests:,} requests for metrics, ${self.usd:.4f}"
        return f"{SURFACES[self.surface]}\n  alerts: {causes or 'none'}\n  {asked}\n  IAM allows: {allowed}"


def watched(folder: Path, surface: str, empty: Path) -> Watch:
    """Watch two hours of the recorded fleet, of which only that surface tells; EC2's own metrics are there on each."""
    with served(folder) as world:
        world.standin.publish(surface)
        server = PrometheusServer(f"{world.endpoint}/prometheus" if surface == "prometheus" else "")
        live = world.live(surface=MetricsSurface.AUTO, server=server)
        window = Window(world.extent.start + _FROM, world.extent.start + _UNTIL)
        seen = watch(Watched(world, live, window), empty)
        uses = [
            use
            for use in live.calls.meter.bill().uses
            if use.operation.partition(":")[2] in _METRICS
        ]
        named = {use.operation for use in uses if use.calls}
        actions = {
            action for one in operations().values() if one.action in named for action in one.allowed
        }
        return Watch(
            surface,
            told(seen),
            sum(x.calls for x in uses),
            sum((x.usd for x in uses), Decimal(0)),
            tuple(sorted(actions)),
        )


def all_watched(folder: Path, empty: Path) -> list[Watch]:
    """Watch the fleet by each surface."""
    return [watched(folder, surface, empty) for surface in SURFACES]


def main() -> None:
    """Print each watch; end with a failure where their alerts differ."""
    with tempfile.TemporaryDirectory(prefix="surfaces-") as made:
        folder = Path(made) / "recording"
        generate(folder, 7, "tiny")
        shutil.rmtree(folder / "neuron-monitor")
        watches = all_watched(folder, Path(made) / "no-bill")
    print(
        "One fleet of three nodes for two hours, ticks of five minutes, by each surface of metrics:",
        *watches,
        sep="\n\n",
    )
    alike = all(one.alerts == watches[0].alerts for one in watches)
    print(f"\n{'The alerts are the same.' if alike else 'THE ALERTS DIFFER.'}")
    sys.exit(0 if alike else 1)


if __name__ == "__main__":
    main()
