"""Turn a seed into a recording."""

from adapters.simulator.generate import Files, Timing, generate
from adapters.simulator.scenario import Scenario
from adapters.simulator.scenarios import SCENARIOS

__all__ = ["SCENARIOS", "Files", "Scenario", "Timing", "generate"]
