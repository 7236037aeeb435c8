"""State a change of the fleet that admins press for, and how far it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from bot.model.labels import Labels
from bot.model.money import counted
from bot.model.request import SignedBy


class ActionKind(StrEnum):
    """Name the kinds of action; of each, a step that was taken is not taken again."""

    STOP = "stop"
    """Stop instances that no group would start anew; their volumes stay."""
    SCALE = "scale"
    """Give a managed node group of EKS another number of nodes."""
    DELETE = "delete"
    """Delete volumes that are attached to nothing, each once a snapshot of it is whole."""
    CORDON = "cordon"
    """Let Kubernetes place no new pod on nodes; the pods that run there go on."""
    NOTEBOOK = "notebook"
    """Stop a notebook instance of SageMaker; its volume stays."""

    @property
    def patience(self) -> timedelta:
        """Return how long it may take until it has not worked."""
        return _PATIENCE.get(self, timedelta(hours=1))


_PATIENCE: Mapping[ActionKind, timedelta] = {ActionKind.DELETE: timedelta(hours=12)}
"""A snapshot of many TiB takes hours."""


_SESSION_MOST = 64


class ActionState(StrEnum):
    """Name how far an action is."""

    PREPARED = "prepared"
    CONFIRMED = "waits for a second admin"
    UNDER_WAY = "under way"
    WORKED = "worked"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def waits(self) -> bool:
        """Return whether a press decides what comes of it."""
        return self in (ActionState.PREPARED, ActionState.CONFIRMED)

    @property
    def ended(self) -> bool:
        """Return whether nothing more is done."""
        return self in (ActionState.WORKED, ActionState.FAILED, ActionState.CANCELLED)


@dataclass(frozen=True)
class Progress:
    """State how far the provider is with an action, in a sentence."""

    state: ActionState
    words: str
    ordered: tuple[str, ...] = ()
    """Targets that it was asked to change by this step."""


@dataclass(frozen=True)
class Action(SignedBy):
    """State one action: the things it changes, their cost, and who pressed for it."""

    id: str
    kind: ActionKind
    targets: tuple[str, ...]
    """Ids of instances or volumes, `CLUSTER/GROUP` of a node group, the name of a notebook."""
    place: Labels
    """Account and region, and the cluster that the targets are of."""
    size: int | None
    """Nodes that a group is to have."""
    usd_per_hour: Decimal | None
    """What an hour of all that is touched costs, None where that is not known."""
    saved_usd_per_hour: Decimal
    """What is no longer billed once it worked: commitments are billed all the same."""
    at: datetime
    by: str
    by_name: str
    channel: str = ""
    thread: str = ""
    confirmed_by: tuple[str, ...] = ()
    """Names of the admins who pressed, in their order; their addresses are in `pressed`."""
    pressed: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    """A digest of each one's e-mail address, for this action alone; "" where it is not known."""
    private: bool = False
    """The outcome goes to who pressed: people of another organization read where they did."""
    state: ActionState = ActionState.PREPARED
    began_at: datetime | None = None
    words: str = ""
    """The provider's side of the story, in the newest sentence."""
    before: int | None = None
    """Nodes that the group was to have when it was weighed."""
    ordered: tuple[str, ...] = ()
    """Targets that the provider was asked to change: once each, whoever changes them back."""
    answered: bool = False
    """Whether those who pressed were told what came of it."""

    @property
    def session(self) -> str:
        """Return the name under which the provider notes who pressed, else who prepared it.

        AWS takes 2 to 64 letters, digits and `_=,.@+-` for a role's session (STS API, AssumeRole).
        """
        people = self.pressed or (self.by,)
        name = f"trnbot-{self.id}-"
        most = (_SESSION_MOST - len(name) - len(people) + 1) // len(people)
        plain = (re.sub(r"[^\w=,.@-]+", ".", person, flags=re.ASCII)[:most] for person in people)
        return name + "+".join(plain)

    @property
    def title(self) -> str:
        """Read as `Stop i-0abc and 2 more of llama`."""
        first, more = self.targets[0], len(self.targets) - 1
        things = f"{first} and {more} more" if more else first
        if self.kind is ActionKind.SCALE:
            return f"Scale {first} to {counted(self.size or 0, 'node')}"
        noun = "notebook " if self.kind is ActionKind.NOTEBOOK else ""
        verb = "stop" if noun else self.kind.value
        of = f" of {self.place.cluster}" if self.place.cluster else ""
        return f"{verb.capitalize()} {noun}{things}{of}"
