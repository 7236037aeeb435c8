"""Hold a secret so that it shows only to who asks for it."""

from __future__ import annotations

import hmac
from typing import NoReturn


class Secret:
    """Print as `****` wherever text is made of it.

    Str, repr, format, logs, `json.dumps(default=str)`.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the secret itself, only where it is handed to its user."""
        return self._value

    def __str__(self) -> str:
        """Show nothing, not even the length."""
        return "****"

    __repr__ = __str__

    def __format__(self, _: str) -> str:
        """Show nothing in any format."""
        return "****"

    def __bool__(self) -> bool:
        """Tell whether it is set."""
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        """Compare in constant time."""
        return isinstance(other, Secret) and hmac.compare_digest(
            self._value.encode(), other._value.encode()
        )

    __hash__ = None  # type: ignore[assignment] # a hash of a secret tells something of it

    def __deepcopy__(self, _: object) -> Secret:
        """Return itself, so that `dataclasses.asdict` keeps it closed."""
        return self

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled."""
        raise TypeError("a secret is not written down")
