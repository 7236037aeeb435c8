"""Stand in for AWS where a whole product is walked through."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.aws_live.conftest import World, models_are_read_once, requests, served
from tests.e2e.product import recording

__all__ = ["models_are_read_once", "requests"]


@pytest.fixture
def world() -> Iterator[World]:
    """Serve three nodes of which two idle from the third hour on."""
    with served(tiny()) as made:
        yield made


def tiny() -> Path:
    return recording("tiny")
