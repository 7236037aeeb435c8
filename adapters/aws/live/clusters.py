"""Describe the EKS clusters of every place and their node groups, once an hour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson

from adapters.aws.live.calls import Calls, Place
from adapters.aws.live.heard import Call, Heard
from bot.errors import Unavailable

_HOURLY = timedelta(minutes=59)


@dataclass
class Clusters:
    """Keep what EKS says fresh; a cluster that cannot be described costs only itself."""

    calls: Calls
    heard: Heard

    def refresh(self, places: Sequence[Place], now: datetime) -> Iterator[str]:
        """Ask again what is due; yield a sentence for each answer that could not be had."""
        for place in places:
            known = self.heard.newest(Call("eks", "list_clusters", place))
            if known and now - known[0] < _HOURLY:
                continue
            try:
                names = self._names(place, "list_clusters", "clusters", now)
            except Unavailable as error:
                yield str(error)
                continue
            for name in names:
                yield from self._describe(place, name, now)

    def _describe(self, place: Place, name: str, now: datetime) -> Iterator[str]:
        try:
            self._ask(place, "describe_cluster", name, now, name=name)
            for group in self._names(place, "list_nodegroups", "nodegroups", now, name, clusterName=name):
                about = f"{name}.{group}"
                self._ask(place, "describe_nodegroup", about, now, clusterName=name, nodegroupName=group)
        except Unavailable as error:
            yield str(error)

    def _ask(self, place: Place, operation: str, about: str, now: datetime, **given: Any) -> None:
        self.heard.put(Call("eks", operation, place, about), now, [self.calls.call(place, "eks", operation, **given)])

    def _names(self, place: Place, operation: str, member: str, now: datetime, about: str = "", **given: Any) -> list[str]:
        call = Call("eks", operation, place, about)
        self.heard.put(call, now, list(self.calls.pages(place, "eks", operation, **given)))
        newest = self.heard.newest(call)
        return [str(name) for page in orjson.loads(newest[1] if newest else b"[]") for name in page[member]]
