"""Say who or what launched a resource, as far as AWS tells."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class LauncherKind(StrEnum):
    """Name what kind of principal a launcher is."""

    PERSON = "person"
    """A user, or a session that carries a person's name: someone who may own the thing."""
    ROLE = "role"
    """A role that a program or an unnamed person assumed."""
    MACHINE = "machine"
    """Auto Scaling, an EKS node group, Karpenter: nobody to ask."""


@dataclass(frozen=True)
class Launcher:
    """State one launch; `name` is text from AWS's records, never an address."""

    name: str
    kind: LauncherKind
    event: str = ""
    """CloudTrail's name of the call, "" where a tag says it."""
    at: datetime | None = None

    def __str__(self) -> str:
        """Read as `dana`, `role ci-deploy` or `EKS node group trn-a`."""
        return f"role {self.name}" if self.kind is LauncherKind.ROLE else self.name

    @property
    def person(self) -> str:
        """Return the name of a person, "" where it was none."""
        return self.name if self.kind is LauncherKind.PERSON else ""
