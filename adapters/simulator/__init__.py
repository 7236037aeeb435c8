"""Turn a seed into a recording."""

from adapters.simulator.generate import generate
from adapters.simulator.scenario import Scenario
from adapters.simulator.scenarios import SCENARIOS

__all__ = ["SCENARIOS", "Scenario", "generate"]
