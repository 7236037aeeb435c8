"""Refuse a name that nothing has, or say so where it may come to be.

Instance types, regions, clusters, teams, accounts.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from bot.cards.card import Card, text
from bot.errors import TrnbotError, WrongInput, find_named, nearest, not_known
from bot.model.fleet import FileSystem, InstanceType, Reservation, Volume
from bot.model.labels import Labels
from bot.model.reading import Reading
from bot.model.request import Request
from bot.ports import Ports

SCOPES = ("cluster", "team", "account")
"""What a setting or a subscription can be narrowed to ahead of time."""
_FLEET = "'fleet' lists those that run"
_KNOWN = 90
"""Names of a scope offered to choose from; more are typed."""


def known_type(name: str, types: Mapping[str, InstanceType]) -> InstanceType:
    """Return the instance type of that name, however it is capitalised; raise `WrongInput`."""
    return find_named(
        f"'{name}' is not an instance type known here",
        name.lower(),
        types,
        most=0,
        otherwise="write it like trn1.32xlarge",
    )


def refuse_unwritable(name: str) -> None:
    """Raise `WrongInput` for a name under which nothing can be kept."""
    if not re.fullmatch(r"[\w.-]{1,60}", name):
        raise WrongInput(
            f"'{name[:60]}' cannot be a name; use letters, digits, dots and dashes, such as"
            " llama-70b."
        )


def known_region(name: str, ports: Ports) -> str:
    """Return a region's name as AWS writes it, "" for none.

    Raise `WrongInput` for one that AWS does not have.
    """
    region, regions = name.strip().lower(), ports.world.knowledge.claims().regions
    if region and region not in regions:
        raise not_known(
            f"'{name}' is not an AWS region known here",
            region,
            regions,
            most=0,
            otherwise="write it like us-east-2",
        )
    return region


def refuse_unseen(cluster: str, reading: Reading) -> None:
    """Raise `WrongInput` for a cluster that nothing carries, running or ended.

    Where the fleet was not read, none is refused.
    """
    inventory = reading.inventory
    stored: tuple[Volume | FileSystem | Reservation, ...] = (
        *inventory.volumes,
        *inventory.file_systems,
        *inventory.reservations,
    )
    clusters = sorted({*inventory.clusters(), *(thing.labels.cluster for thing in stored)} - {""})
    if cluster and cluster not in clusters and (clusters or not reading.gaps):
        hint = nearest(cluster, clusters, otherwise=_FLEET)
        raise WrongInput(f"No cluster is called '{cluster}'{hint}.", "cluster")


def no_cluster(name: str, clusters: Iterable[str]) -> WrongInput:
    """Return the refusal of a cluster that does not run."""
    return not_known(
        f"No running cluster is called '{name}'", name, list(clusters), otherwise=_FLEET
    )


def refuse_misspelt(ports: Ports, request: Request, cluster: str) -> None:
    """Raise `WrongInput` as `refuse_unseen` does, where a source can be read; may block."""
    try:
        reading = ports.world.source.read(request.at)
    except TrnbotError:
        return
    refuse_unseen(cluster, reading)


def scopes(ports: Ports, request: Request) -> Mapping[str, Sequence[str]]:
    """Return the clusters, teams and accounts that are seen now.

    None where the source cannot be read.
    """
    try:
        instances = ports.world.source.read(request.at).inventory.instances.values()
    except TrnbotError:
        return {}
    values = {
        name: sorted({instance.labels.get(name) for instance in instances} - {""})
        for name in SCOPES
    }
    return {name: words for name, words in values.items() if len(words) <= _KNOWN}


def unseen(ports: Ports, request: Request, scope: Labels) -> list[str]:
    """Say which names of a scope nothing carries now.

    They may be set up ahead, and a slip would change nothing; may block.
    """
    narrowed = [(name, value) for name, value in scope if name in SCOPES]
    values = scopes(ports, request) if narrowed else {}
    return [
        f"Nothing runs under {name}={value} now{nearest(value, values[name], most=0) or '.'}"
        for name, value in narrowed
        if value not in values.get(name, (value,))
    ]


async def noting_unseen(card: Card, ports: Ports, request: Request, scope: Labels) -> Card:
    """Return the card with a line before it for each name of a scope that nothing carries now."""
    notes = await asyncio.to_thread(unseen, ports, request, scope)
    return replace(card, blocks=(*(text(note) for note in notes), *card.blocks))
