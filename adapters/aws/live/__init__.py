"""Read a live account: boto3 responses become the same nouns as a recording's, by the same code."""

from __future__ import annotations

from adapters.aws.live.opening import open_live
from adapters.aws.live.source import Live

__all__ = ["Live", "open_live"]
