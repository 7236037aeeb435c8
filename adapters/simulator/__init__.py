"""Turn a seed into a recording."""

from adapters.simulator.generate import Files, SimulationTiming, generate
from adapters.simulator.scenario import SCENARIOS, Scenario

__all__ = ["SCENARIOS", "Files", "Scenario", "SimulationTiming", "generate"]
