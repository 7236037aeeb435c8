"""Join settings and bills: a recording's, or a live account's.

By export, Athena, Spark or Cost Explorer. A part of `build`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from adapters.aws.api.operations import Place, price_of
from bot.errors import Unavailable
from bot.knowledge import load_knowledge
from bot.model.fleet import Reservation
from bot.model.money import counted
from bot.model.window import Window
from bot.ports import Billing, NoOutlook, Outlook
from bot.settings.settings import Settings
from bot.wiring.environment import SCRATCH, STATE, wall_clock
from bot.wiring.kept import AtMostEvery, Once, place_of

if TYPE_CHECKING:
    from adapters.aws.api.responses import RecordedResponses
    from adapters.aws.bill.explorer import ExplorerAnswers
    from adapters.aws.bill.exports import RollupEngine, SparkTable
    from adapters.aws.live.source import Live
    from adapters.billing.bill import BillOptions


FOLDER = STATE / "aws"
"""Where copies of what a live account answered lie."""
_EXPORTS = (".parquet", ".csv", ".csv.gz", ".zip")
_MONTH = timedelta(days=30)
_LOOK_SECONDS = 1.0
"""How often the folder of a recording is looked at."""


def open_bill(settings: Settings, live: Live | None, folder: Path) -> Billing:
    """Return the bill of an account over local copies under `folder`, else of a recording there.

    That is its exports, or the answers of Cost Explorer where it has none.
    """
    if live:
        return open_account_bill(settings, live, folder)

    from adapters.billing.bill import ANSWERS, open_billing

    options = _bill_options(settings)
    if (folder / ANSWERS).is_dir() and not (folder / "billing").is_dir():
        from adapters.billing.explorer import open_explorer

        return open_explorer(folder, options)

    def responses() -> RecordedResponses:
        from adapters.aws.api.responses import RecordedResponses
        from adapters.aws.files import Problems

        return RecordedResponses(folder / "api", Problems())

    def recorded_blocks() -> Sequence[Reservation]:
        from adapters.aws.inventory.ownership import TagNames
        from adapters.aws.inventory.snapshots import capacity_blocks

        return capacity_blocks(responses(), TagNames())

    def recorded_ends() -> Mapping[str, datetime]:
        from adapters.aws.inventory.snapshots import commitment_ends

        return commitment_ends(responses())

    due = AtMostEvery(_LOOK_SECONDS, monotonic)
    options = replace(options, due=due, blocks=Once(recorded_blocks), ends=recorded_ends)
    return open_billing(folder, options)


def open_account_bill(settings: Settings, live: Live, folder: Path = FOLDER) -> Billing:
    """Return the bill over local copies under `folder`, brought up to date when it is asked.

    Hourly from S3, else less often.
    """
    from adapters.aws.bill.explorer import Explorer
    from adapters.aws.bill.exports import ExportCache, RollupCopy
    from adapters.billing.bill import open_billing
    from adapters.billing.explorer import open_explorer
    from adapters.billing.exports import DIALECTS, rollup_query

    engine, address, calls = engine_of(settings), settings["aws.billing"], live.calls
    if not (engine or address) and settings["aws.explorer_calls"]:
        home = folder / "cost-explorer"
        home.mkdir(parents=True, exist_ok=True)
        explorer = Explorer(open_answers(settings, live, folder))
        return open_explorer(home, _bill_options(settings), explorer.keep_fresh)

    options = replace(
        _bill_options(settings), blocks=live.capacity_blocks, ends=live.commitment_ends
    )
    home = folder_of_copies(settings, folder)
    (home / "billing").mkdir(parents=True, exist_ok=True)
    if engine:
        table, query = engine.table(settings, live), partial(rollup_query, DIALECTS[engine.name])
        copy = RollupCopy(table, home, query, calls.clock)
        name = engine.name
        options = replace(
            options,
            copy=copy,
            by_day=lambda: name if copy.has_days() else "",
            copied_from=table.table,
        )
        return open_billing(home, options)

    # Without an address only what was copied before is read.
    if address:
        exports = ExportCache(calls, address, home / "billing", _payer(settings, live))
        options = replace(options, copy=exports, copied_from=address)
    return open_billing(home, options)


@dataclass(frozen=True)
class Engine:
    """Describe an engine that rolls the export up where it lies."""

    name: str
    setting: str
    """It is used where this is set."""
    price: str
    """The price of a query, in words."""
    place: Callable[[Settings], str]
    """Names the folder of its copies, below that of the account's."""
    table: Callable[[Settings, Live], RollupEngine]


def athena_table(settings: Settings, live: Live) -> RollupEngine:
    """Return the export as Athena sees it."""
    from adapters.aws.bill.exports import AthenaTable

    group, output = settings["aws.athena_workgroup"], settings["aws.athena_output"]
    return AthenaTable(live.calls, settings["aws.athena"], group, output, _payer(settings, live))


def spark_table(settings: Settings) -> SparkTable:
    """Return the export as the Spark that the settings name sees it."""
    from adapters.aws.bill.exports import SparkTable

    address = settings["spark.server"].reveal
    return SparkTable(urlsplit(address()).netloc, address, settings["spark.table"])


def spark_place(settings: Settings) -> str:
    """Return the folder of a table's copies: two tables may hold the same months."""
    from adapters.aws.bill.exports import file_stem

    return f"spark/{file_stem(settings['spark.table'])}"


ENGINES = (
    Engine(
        "Spark",
        "spark.server",
        "a query that your Spark works on",
        spark_place,
        lambda settings, _: spark_table(settings),
    ),
    Engine(
        "Athena",
        "aws.athena",
        "a query that Athena bills by the bytes it scans",
        lambda _: "athena",
        athena_table,
    ),
)


def engine_of(settings: Settings) -> Engine | None:
    """Return the engine that the settings name, if they name one."""
    return next((engine for engine in ENGINES if settings[engine.setting]), None)


def folder_of_copies(settings: Settings, folder: Path) -> Path:
    """Return the folder of an account's copies in which those of its bill lie under `billing`."""
    engine = engine_of(settings)
    return folder / engine.place(settings) if engine else folder


def _payer(settings: Settings, live: Live) -> Place:
    """Return where the bill is read: often by a role of the account that pays for the others."""
    return Place(live.home, settings["aws.billing_role"])


def open_answers(settings: Settings, live: Live, folder: Path = FOLDER) -> ExplorerAnswers:
    """Return the keeper of Cost Explorer's answers, for the bill and for AWS's own outlook."""
    from adapters.aws.bill.explorer import ExplorerAnswers

    return ExplorerAnswers(
        live.calls,
        folder / "cost-explorer",
        _payer(settings, live),
        settings["aws.explorer_calls"],
    )


def open_outlook(settings: Settings, live: Live | None, folder: Path) -> Outlook:
    """Return AWS's own outlook on the bill.

    Asked once a day of a live account, else read from a recording's `folder`.
    """
    from adapters.aws.bill.outlook import RecordedOutlook

    services = load_knowledge().services()
    if live is None:
        # Ticks of a replay ask hundreds of times a second.
        return RecordedOutlook(folder, services, due=AtMostEvery(_LOOK_SECONDS, monotonic))
    if not settings["aws.explorer_calls"]:
        return NoOutlook()
    from adapters.aws.bill.explorer import OutlookPoller

    answers = open_answers(settings, live)
    return RecordedOutlook(answers.folder, services, OutlookPoller(answers).refresh)


@dataclass(frozen=True)
class AskingCost:
    """State the price of a look at the bill, and at AWS's outlook on it, now.

    In words, "" where it costs nothing.
    """

    bill: str = ""
    outlook: str = ""


def asking_cost(settings: Settings, live: Live) -> AskingCost:
    """Return what a look at the bill would take now: nothing where all answers are fresh."""
    from adapters.aws.bill.explorer import Explorer, OutlookPoller

    engine = engine_of(settings)
    bill = engine.price if engine else ""
    if not settings["aws.explorer_calls"]:
        return AskingCost(bill)
    answers = open_answers(settings, live)
    if not (engine or settings["aws.billing"]):
        bill = _explorer_price(Explorer(answers).due())
    return AskingCost(bill, _explorer_price(OutlookPoller(answers).due(wall_clock())))


def _explorer_price(calls: int) -> str:
    usd = price_of("ce", "get_cost_and_usage", calls)
    return f"up to {counted(calls, 'call')} to Cost Explorer (${usd:.2f})" if calls else ""


def record_bill(
    settings: Settings, live: Live, folder: Path, end: datetime
) -> tuple[int, list[str]]:
    """Write the bill and AWS's outlook into a recording that ends at `end`.

    Return the count of files, and the failures.
    """
    billed = open_account_bill(settings, live)
    outlook = open_outlook(settings, live, FOLDER)
    missing = []
    try:
        billed.tally(Window(end - _MONTH, end), ())
    except Unavailable as error:
        missing.append(str(error))
    outlook.findings(end)

    copies = folder_of_copies(settings, FOLDER) / "billing"
    files = [path for path in copies.rglob("*") if path.name.endswith(_EXPORTS)]
    for path in files:
        target = folder / "billing" / path.relative_to(copies)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)

    # Figures of whole days, so the hour is enough; metrics may end some minutes before the
    # recording does.
    copied = open_answers(settings, live).copy_to(folder, end.replace(minute=0))
    return len(files) + copied, [*missing, *outlook.problems()]


def _bill_options(settings: Settings) -> BillOptions:
    """Return the options of every bill.

    When rows are seen, who owns them, and which services they name.
    """
    from adapters.billing.bill import BillOptions

    tags = {name: settings.tags()[name] for name in ("team", "project", "cluster")}
    services = load_knowledge().services()
    return BillOptions(settings["billing.lag"], tags, services, SCRATCH, place_of("bill"))
