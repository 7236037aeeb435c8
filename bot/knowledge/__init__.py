"""Hold dated facts about AWS products as data: every row with its source and the day it was read."""

from bot.knowledge.facts import KnowledgeFiles, load_knowledge

__all__ = ["KnowledgeFiles", "load_knowledge"]
