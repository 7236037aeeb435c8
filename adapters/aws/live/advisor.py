"""Read the Spot Advisor's public data from where a setting says; it is not part of AWS's API."""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from bot.errors import Unavailable

_TIMEOUT_SECONDS = 20
_MOST_BYTES = 64 << 20
_WORTH = ("ranges", "spot_advisor")


def read_advisor(place: str) -> Mapping[str, Any]:
    """Return the parts of the file that mean something; raise `Unavailable` with one sentence where it cannot be had."""
    try:
        found = orjson.loads(_fetched(place) if place.startswith(("https://", "http://")) else Path(place).read_bytes())
        return {name: found[name] for name in _WORTH}
    except OSError as error:
        raise Unavailable(
            f"The Spot Advisor's data cannot be read ({type(error).__name__}); see TRNBOT_AWS_SPOT_ADVISOR."
        ) from None
    except (ValueError, KeyError, TypeError):
        raise Unavailable("TRNBOT_AWS_SPOT_ADVISOR does not lead to the Spot Advisor's data.") from None


def _fetched(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310 - the scheme is checked by the caller
        body: bytes = answer.read(_MOST_BYTES)
        return body
