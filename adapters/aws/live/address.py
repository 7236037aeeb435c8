"""Read the address of a place in S3."""

from __future__ import annotations

import re

from bot.errors import WrongInput


def bucket_and_prefix(address: str, what: str) -> tuple[str, str]:
    """Return the two parts of `s3://BUCKET/PREFIX`; raise `WrongInput` naming `what` it should lead to."""
    found = re.fullmatch(r"s3://([a-z0-9.-]{3,63})(?:/(.*))?", address)
    if not found:
        raise WrongInput(f"'{address}' is no address of {what}; write s3://BUCKET/PREFIX.")
    return found[1], found[2] or ""
