"""Tell how likely spot capacity is to be had and kept: placement scores, and the Spot Advisor's bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from adapters.aws.responses import Answer, Heard, Pages, members, newest
from bot.model.price import Interruption, PlacementScore

SERVICE, OPERATION = "spot-advisor", "get_data"
"""Where a recording keeps the advisor's file: it is no API of AWS, but it is answered and dated like one."""
_SYSTEM = "Linux"


class Chances:
    """Answer what was said of spot capacity by a time."""

    def __init__(self, responses: Heard) -> None:
        self._scores = responses.histories("ec2", "get_spot_placement_scores", scores)
        self._bands = responses.histories(SERVICE, OPERATION, interruptions)

    def placement(self, instance_type: str, now: datetime) -> Sequence[PlacementScore]:
        """Return a type's scores known at `now`, the best first."""
        found = [x for history in self._scores for x in history[newest(history, now)][1] if x.instance_type == instance_type]
        return tuple(sorted(found, key=lambda x: (-x.score, x.region, x.zone_id)))

    def interruptions(self, instance_type: str, now: datetime) -> Sequence[Interruption]:
        """Return a type's bands known at `now`, by region."""
        return tuple(x for history in self._bands for x in history[newest(history, now)][1].get(instance_type, ()))


def scores(pages: Pages, answer: Answer) -> tuple[PlacementScore, ...]:
    """Translate GetSpotPlacementScores; the answer does not name the type it was asked for."""
    return tuple(
        PlacementScore(answer.argument, str(x["Region"]), str(x.get("AvailabilityZoneId", "")), int(x["Score"]), answer.at)
        for x in members(pages, "SpotPlacementScores")
    )


def interruptions(pages: Pages, answer: Answer) -> Mapping[str, tuple[Interruption, ...]]:
    """Translate the advisor's file: `spot_advisor[region][Linux][type] = {s: savings %, r: index into ranges}`."""
    (page,) = pages
    bands = {int(x["index"]): str(x["label"]) for x in page["ranges"]}
    found: dict[str, list[Interruption]] = {}
    for region, systems in sorted(page["spot_advisor"].items()):
        for name, told in systems.get(_SYSTEM, {}).items():
            band = Interruption(str(name), str(region), bands[int(told["r"])], float(told["s"]) / 100, answer.at)
            found.setdefault(band.instance_type, []).append(band)
    return {name: tuple(bands_of) for name, bands_of in found.items()}
