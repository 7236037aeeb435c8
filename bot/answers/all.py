"""Import every answer, so that the registry is full.

Whatever lies in this package is found, and listed nowhere.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

import bot.answers

ANSWERS = tuple(
    import_module(module.name)
    for module in walk_packages(bot.answers.__path__, "bot.answers.")
    if module.name != __name__
)
