import pytest

from adapters.store.memory import MemoryStore
from adapters.store.open import open_store


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request, tmp_path):
    """Return the address of an empty database of either kind."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path}/state/trnbot.db"


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request):
    """Return an empty store of each kind."""
    if request.param == "memory":
        yield MemoryStore()
        return
    opened = open_store(request.getfixturevalue(f"{request.param}_url"))
    yield opened
    opened.close()
