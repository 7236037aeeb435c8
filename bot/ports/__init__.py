"""Say what the bot asks of the world: each port at most four methods, each call one question.

Calls that are plain `def` may block (files, SQL, HTTP): the doors run them off the event loop. The nouns that a port's callers
need beside it (`StateUpdate`, `State`, `Check`, `CommandHint`) are found here as well.
"""

from bot.model.check import Check, CommandHint
from bot.model.state import State, StateUpdate
from bot.ports.all import Ports, Replays
from bot.ports.chat import Answer, ChatPorts, Clock, Draw, Listener, People, Surface, Tell
from bot.ports.state import DocumentStore, IdempotencyKeys, Store, Versions
from bot.ports.world import Billing, Compiles, Detect, Knowledge, Prices, Source

__all__ = [
    "Answer",
    "Billing",
    "ChatPorts",
    "Check",
    "Clock",
    "CommandHint",
    "Compiles",
    "Detect",
    "DocumentStore",
    "Draw",
    "IdempotencyKeys",
    "Knowledge",
    "Listener",
    "People",
    "Ports",
    "Prices",
    "Replays",
    "Source",
    "State",
    "StateUpdate",
    "Store",
    "Surface",
    "Tell",
    "Versions",
]
