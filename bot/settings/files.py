"""Read text files that a person named, and no more of them than their kind may hold.

A device has no end.
"""

from __future__ import annotations

from pathlib import Path

from bot.errors import WrongInput


def read_text(path: Path, noun: str, most: int) -> str:
    """Return the text of a file of at most so many bytes.

    Raise one `WrongInput` that begins with `noun` otherwise.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(most + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else "it is no path"
        raise WrongInput(f"{noun} cannot be read: {reason}.") from None
    if len(raw) > most:
        raise WrongInput(f"{noun} has over {most:,} bytes; give a smaller one.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise WrongInput(f"{noun} cannot be read: it is not UTF-8 text.") from None
