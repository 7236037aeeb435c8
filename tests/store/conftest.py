import pytest

from adapters.store.memory import MemoryStore
from adapters.store.open import open_store


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request, tmp_path):
    """Return an empty store of each kind."""
    if request.param == "memory":
        yield MemoryStore()
        return
    kinds = {
        "sqlite": lambda: f"sqlite:///{tmp_path}/trnbot.db",
        "postgresql": lambda: request.getfixturevalue("postgres_url"),
    }
    opened = open_store(kinds[request.param]())
    yield opened
    opened.close()
