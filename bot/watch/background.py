"""Do a round of work every so often, apart from the ticks and from whoever asks."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any


class Background(ABC):
    """Implement `bot.ports.Listener`: a round, then `every_s` real seconds, until it is stopped."""

    def __init__(self, name: str, every_s: float) -> None:
        self._name, self._every_s = name, every_s
        self._task: asyncio.Task[None] | None = None

    def routes(self) -> Sequence[Any]:
        """Serve nothing."""
        return ()

    async def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._go(), name=self._name)

    async def stop(self) -> None:
        """End, whatever the round under way does; what it does in a thread is finished."""
        if self._task:
            self._task.cancel()

    async def _go(self) -> None:
        while True:
            await self.work()
            await asyncio.sleep(self._every_s)

    @abstractmethod
    async def work(self) -> None:
        """Do one round; what it raises ends them all."""
