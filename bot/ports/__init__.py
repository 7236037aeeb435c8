"""Say what the bot asks of the world: each port at most four methods, each call one question.

Calls that are plain `def` may block (files, SQL, HTTP): the doors run them off the event loop. The nouns that a port's callers
need beside it (`Changes`, `Memory`, `Check`, `CommandHint`) are found here as well.
"""

from bot.model.check import Check, CommandHint
from bot.model.memory import Changes, Memory
from bot.ports.all import Ports, Replays
from bot.ports.chat import Answer, Clock, Draw, Listener, People, Surface, Tell
from bot.ports.state import Shelf, Store, Turnstile, Versions
from bot.ports.world import Billing, Compiles, Detect, Knowledge, Prices, Source

__all__ = [
    "Answer",
    "Billing",
    "Changes",
    "Check",
    "Clock",
    "CommandHint",
    "Compiles",
    "Detect",
    "Draw",
    "Knowledge",
    "Listener",
    "Memory",
    "People",
    "Ports",
    "Prices",
    "Replays",
    "Shelf",
    "Source",
    "Store",
    "Surface",
    "Tell",
    "Turnstile",
    "Versions",
]
