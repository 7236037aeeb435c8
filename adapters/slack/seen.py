"""Remember what was handled: Slack sends an event again when it believes the first try was lost."""

from __future__ import annotations

from collections import OrderedDict


class Seen:
    """Hold the last `most` keys."""

    def __init__(self, most: int = 5_000) -> None:
        self._keys: OrderedDict[str, None] = OrderedDict()
        self._most = most

    def again(self, key: str) -> bool:
        """Tell whether the key came before, and remember it; "" is never remembered."""
        if not key:
            return False
        if key in self._keys:
            return True
        self._keys[key] = None
        while len(self._keys) > self._most:
            self._keys.popitem(last=False)
        return False
