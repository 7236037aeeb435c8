"""Hold dated facts about AWS products as data: every row with its source and the day it was read."""

from bot.knowledge.facts import Facts, load_knowledge

__all__ = ["Facts", "load_knowledge"]
