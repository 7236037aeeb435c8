"""Join settings and bills: a recording's, or a live account's.

By export, Athena, Spark or Cost Explorer. A part of `build`.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from adapters.aws.api.operations import Place, price_of
from bot.errors import Unavailable
from bot.knowledge import load_knowledge
from bot.model.fleet import Reservation
from bot.model.money import counted
from bot.model.price import AccountRates
from bot.model.reading import Reading
from bot.model.spend import Filter, Tally
from bot.model.window import Window
from bot.ports import Billing, NoOutlook, Outlook
from bot.settings.settings import Settings
from bot.wiring.environment import SCRATCH, STATE, wall_clock
from bot.wiring.kept import AtMostEvery, Once, place_of

if TYPE_CHECKING:
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
    """Return the bill of an account over local copies under `folder`, else of a recording there."""
    if live:
        return open_account_bill(settings, live, folder)
    return open_recorded_bill(settings, folder)


def open_recorded_bill(settings: Settings, folder: Path) -> Billing:
    """Return the bill of a recording.

    Its exports, or the answers of Cost Explorer where it has none.
    """
    from adapters.billing.bill import has_only_answers, open_billing, open_explorer

    options = _bill_options(settings)
    if has_only_answers(folder):
        return open_explorer(folder, options)

    def recorded_blocks() -> Sequence[Reservation]:
        from adapters.aws.api.responses import RecordedResponses
        from adapters.aws.files import Problems
        from adapters.aws.inventory.ownership import TagNames
        from adapters.aws.inventory.snapshots import capacity_blocks

        return capacity_blocks(RecordedResponses(folder / "api", Problems()), TagNames())

    due = AtMostEvery(_LOOK_SECONDS, monotonic)
    return open_billing(folder, replace(options, due=due, blocks=Once(recorded_blocks)))


def open_account_bill(settings: Settings, live: Live, folder: Path = FOLDER) -> Billing:
    """Return the bill over local copies under `folder`, brought up to date when it is asked.

    Hourly from S3, else less often.
    """
    from adapters.aws.bill.explorer import Explorer
    from adapters.aws.bill.exports import ExportCache, RollupCopy
    from adapters.billing.bill import open_billing, open_explorer
    from adapters.billing.exports import SPARK, TRINO, rollup_query

    options = replace(_bill_options(settings), blocks=live.capacity_blocks)
    address, calls = settings["aws.billing"], live.calls

    engine = rollup_engine(settings, live)
    if engine:
        home = folder_of_copies(settings, folder)
        (home / "billing").mkdir(parents=True, exist_ok=True)
        name, dialect = ("Spark", SPARK) if settings["spark.server"] else ("Athena", TRINO)
        copy = RollupCopy(engine, home, partial(rollup_query, dialect), calls.clock)
        options = replace(
            options,
            by_day=lambda: name if copy.has_days() else "",
            copied_from=engine.table,
        )
        return FreshBilling(open_billing(home, options), copy)

    if address or not settings["aws.explorer_calls"]:
        home = folder / "billing"
        home.mkdir(parents=True, exist_ok=True)
        bill = open_billing(home, replace(options, copied_from=address))
        # Without an address only what was copied before is read.
        if not address:
            return bill
        return FreshBilling(bill, ExportCache(calls, address, home, _payer(settings, live)))

    home = folder / "cost-explorer"
    home.mkdir(parents=True, exist_ok=True)
    explorer = Explorer(open_answers(settings, live, folder))
    return open_explorer(home, _bill_options(settings), explorer.keep_fresh)


def rollup_engine(settings: Settings, live: Live) -> RollupEngine | None:
    """Return the engine that rolls the export up where it lies, if the settings name one."""
    from adapters.aws.bill.exports import AthenaTable

    if settings["spark.server"]:
        return spark_table(settings)
    if settings["aws.athena"]:
        return AthenaTable(
            live.calls,
            settings["aws.athena"],
            settings["aws.athena_workgroup"],
            settings["aws.athena_output"],
            _payer(settings, live),
        )
    return None


def spark_table(settings: Settings) -> SparkTable:
    """Return the export as the Spark that the settings name sees it."""
    from adapters.aws.bill.exports import SparkTable

    address = settings["spark.server"].reveal
    return SparkTable(urlsplit(address()).netloc, address, settings["spark.table"])


def folder_of_copies(settings: Settings, folder: Path) -> Path:
    """Return the folder of an account's copies in which those of its bill lie under `billing`."""
    from adapters.aws.bill.exports import file_stem

    if settings["spark.server"]:
        # Two tables may hold the same months.
        return folder / "spark" / file_stem(settings["spark.table"])
    return folder / "athena" if settings["aws.athena"] else folder


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
    """State what looking at the bill and at AWS's outlook on it would take now."""

    bill_calls: int = 0
    """Calls to Cost Explorer, at most."""
    outlook_calls: int = 0
    scans: str = ""
    """The query of an engine that rolls the export up, in words."""

    @property
    def bill(self) -> str:
        """Return the price of the bill in words, "" where it costs nothing."""
        if self.scans:
            return self.scans
        return _explorer_price(self.bill_calls)

    @property
    def outlook(self) -> str:
        """Return the price of AWS's own outlook in words, "" where it costs nothing."""
        return _explorer_price(self.outlook_calls)


def asking_cost(settings: Settings, live: Live) -> AskingCost:
    """Return what a look at the bill would take now: nothing where all answers are fresh."""
    from adapters.aws.bill.explorer import Explorer, OutlookPoller

    scans = ""
    if settings["spark.server"]:
        scans = "a query that your Spark works on"
    elif settings["aws.athena"]:
        scans = "a query that Athena bills by the bytes it scans"
    if not settings["aws.explorer_calls"]:
        return AskingCost(scans=scans)
    answers = open_answers(settings, live)
    bill_calls = 0 if scans or settings["aws.billing"] else Explorer(answers).due()
    return AskingCost(bill_calls, OutlookPoller(answers).due(wall_clock()), scans)


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


class LocalCopy(Protocol):
    """Hold a local copy of a bill."""

    def keep_fresh(self) -> None:
        """Bring the copy up to date where it is old."""
        ...

    def problems(self) -> Sequence[str]:
        """Return why the copy is old where it is."""
        ...


class FreshBilling:
    """Implement `bot.ports.Billing` over a copy that is brought up to date before it is asked."""

    def __init__(self, bill: Billing, copy: LocalCopy) -> None:
        self._bill, self._copy = bill, copy

    def tally(
        self,
        window: Window,
        by: Sequence[str],
        where: Sequence[Filter] = (),
        most: int | None = None,
    ) -> Tally:
        """Sum the rows of a window, those beyond `most` in one.

        Raise `Unavailable` with why there is no copy yet.
        """
        self._copy.keep_fresh()
        try:
            return self._bill.tally(window, by, where, most)
        except Unavailable as error:
            raise Unavailable(" ".join(self._copy.problems()) or str(error)) from None

    def deltas(self, now: datetime, days: int) -> Reading:
        """Return the daily spend seen at `now`."""
        self._copy.keep_fresh()
        return self._bill.deltas(now, days)

    def rates(self, now: datetime) -> AccountRates:
        """Return the account's own rates."""
        self._copy.keep_fresh()
        return self._bill.rates(now)

    def problems(self) -> Sequence[str]:
        """Return the failures of reading, and why the copy is old where it is."""
        return (*self._copy.problems(), *self._bill.problems())
