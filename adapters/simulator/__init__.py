"""Turn a seed into a recording."""

from adapters.simulator.generate import Files, SimulationTiming, generate
from adapters.simulator.scenario import Scenario
from adapters.simulator.scenarios import SCENARIOS

__all__ = ["SCENARIOS", "Files", "Scenario", "SimulationTiming", "generate"]
