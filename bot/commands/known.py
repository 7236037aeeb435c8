"""Look up what a line names; what is not known here is refused with the nearest that is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bot.errors import WrongInput, nearest
from bot.model.fleet import InstanceType


def known_type(name: str, types: Mapping[str, InstanceType]) -> InstanceType:
    """Return the instance type of that name, however it is capitalised; raise `WrongInput`."""
    found = types.get(name.lower())
    if found is None:
        raise WrongInput(f"'{name}' is not an instance type known here{nearest(name, types, most=0)}.")
    return found


def no_cluster(name: str, known: Iterable[str]) -> WrongInput:
    """Return what to raise for a cluster that does not run."""
    return WrongInput(f"No running cluster is called '{name}'{nearest(name, list(known))}.")
