"""Answer with the table of another line's answer as a CSV file."""

from __future__ import annotations

from dataclasses import replace

from bot.answers.as_csv import csv_text
from bot.answers.line import CommandLine, read_line, typed
from bot.answers.registry import Needs, Topic, arg, command
from bot.cards.card import Attachment, Card, Tone
from bot.cards.lines import file_name
from bot.errors import WrongInput
from bot.model.request import Effect, Request
from bot.ports import Ports


@command(
    "csv",
    "The table of an answer as a CSV file: unrounded, units in the names of columns.",
    needs=Needs.SOURCE,
    may=Needs.BILL | Needs.METRICS | Needs.DETECTOR | Needs.STATE,
    topic=Topic.COSTS,
    examples=("csv cost 30d by team", "csv idle"),
    carries=True,
)
async def csv_(
    ports: Ports,
    request: Request,
    line: str = arg(None, "the line whose table is meant", rest=True),
) -> Card:
    """Answer the line, and give its table."""
    read = _carried(read_line(request.line).rest)
    call = typed(read, request.at)
    card: Card = await call.command.handler(
        ports, replace(request, line=read.text), **call.arguments
    )
    file = Attachment(
        file_name(read.text), csv_text(read.text, card), read.text, ports.site.download(read.text)
    )
    return Card(
        f"The table of '{read.text}'", Tone.INFO, (file,), {"line": read.text, "file": file.name}
    )


def _carried(words: str) -> CommandLine:
    """Return the line whose table is asked for.

    Raise `WrongInput` for one that does more than read.
    """
    read = read_line(words)
    if read.runs.carries or read.effect not in (Effect.READS, Effect.WORKS) or read.runs.audited:
        raise WrongInput(
            f"A file is of a line that only reads, such as 'csv cost 7d'; '{read.command.name}' is none."
        )
    if read.effect is Effect.WORKS:
        raise WrongInput(
            f"'{read.command.name}' works for long; in a terminal type trnbot {read.text} --csv."
        )
    return read
