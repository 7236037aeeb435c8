"""Declare the ports that the bot asks the world through.

Each has at most four methods, each call is one question.

Calls that are plain `def` may block (files, SQL, HTTP): the doors run them off the event loop. The
nouns that a port's callers need beside it (`StateUpdate`, `State`, `Check`, `CommandHint`) are
found here as well.
"""

from bot.model.notification import State, StateUpdate
from bot.model.request import Check, CommandHint
from bot.ports.chat import (
    WORKING,
    Answer,
    ChatPorts,
    Clock,
    Draw,
    Listener,
    People,
    Surface,
    Tell,
)
from bot.ports.stores import (
    REPORTS,
    SHARES,
    AlertStore,
    Deduplicator,
    Documents,
    DocumentStore,
    IdempotencyKeys,
    Outbox,
    Shards,
    Versions,
)
from bot.ports.world import (
    Actions,
    Billing,
    Compiles,
    Detect,
    Files,
    Inbox,
    Knowledge,
    NoFiles,
    NoInbox,
    NoOutlook,
    Outlook,
    Ports,
    Prices,
    Replays,
    Site,
    Source,
    Stores,
    World,
)

__all__ = [
    "REPORTS",
    "SHARES",
    "WORKING",
    "Actions",
    "AlertStore",
    "Answer",
    "Billing",
    "ChatPorts",
    "Check",
    "Clock",
    "CommandHint",
    "Compiles",
    "Deduplicator",
    "Detect",
    "DocumentStore",
    "Documents",
    "Draw",
    "Files",
    "IdempotencyKeys",
    "Inbox",
    "Knowledge",
    "Listener",
    "NoFiles",
    "NoInbox",
    "NoOutlook",
    "Outbox",
    "Outlook",
    "People",
    "Ports",
    "Prices",
    "Replays",
    "Shards",
    "Site",
    "Source",
    "State",
    "StateUpdate",
    "Stores",
    "Surface",
    "Tell",
    "Versions",
    "World",
]
