"""List the files of a bill, unpack zips, and read Cost Explorer's answers as rows of a report."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from adapters.billing.exports import ExportForm
from bot.errors import WrongInput
from bot.model.codec import table
from bot.model.limits import UNPACKED_FREE, ZIP_MEMBERS, too_much, unpacked_limit

TOP = "accounts"
TAG_VIEW = "tag="
TAGGED = ("team", "project", "cluster")
_REMEDY = "set TRNBOT_AWS_BILLING or TRNBOT_AWS_ATHENA to a billing export for that"
COLUMNS = (
    "cost_explorer",
    "bill_invoice_id",
    "bill_billing_period_start_date",
    "line_item_currency_code",
    "line_item_usage_account_id",
    "line_item_line_item_type",
    "line_item_product_code",
    "line_item_usage_type",
    "line_item_usage_start_date",
    "line_item_usage_end_date",
    "line_item_usage_amount",
    "line_item_unblended_cost",
    "line_item_line_item_description",
    "product_region_code",
    "resource_tags",
    "savings_plan_savings_plan_effective_cost",
    "savings_plan_total_commitment_to_date",
    "reservation_effective_cost",
    "reservation_unused_recurring_fee",
    "reservation_reservation_a_r_n",
)
_NAME = re.compile(r"(\d{8}T\d{6}Z)\.(.+)\.json")
_KEYS = {
    "LINKED_ACCOUNT": "account",
    "REGION": "region",
    "RECORD_TYPE": "type",
    "SERVICE": "service",
    "USAGE_TYPE": "usage_type",
}
_AMORTISED = {
    "SavingsPlanCoveredUsage": "savings_plan_savings_plan_effective_cost",
    "SavingsPlanRecurringFee": "savings_plan_total_commitment_to_date",
    "DiscountedUsage": "reservation_effective_cost",
    "RIFee": "reservation_unused_recurring_fee",
}
"""Where a report of AWS states the amortised cost of a type.

Every other type's follows from its unblended cost.
"""
_AMOUNTS = ("line_item_unblended_cost", "line_item_usage_amount", *_AMORTISED.values())
_NOWHERE = ("NoRegion", "No Region")


_TOLD = {
    "account",
    "region",
    "service",
    "usage_type",
    "instance_type",
    "family",
    "purchase",
    "line",
    "day",
    "month",
    "currency",
}
_ANYWHERE = {"day", "month", "currency"}


def check_explorer_dimension(dimension: str, view: str = "") -> None:
    """Raise `WrongInput` for a dimension that Cost Explorer does not tell; name the remedy."""
    tag = dimension in TAGGED or dimension.startswith("tag:")
    if (tag and view) or dimension in (_ANYWHERE if view else _TOLD):
        return
    if view:
        raise WrongInput(
            f"Cost Explorer gives a tag only by itself, by day or month, not with '{dimension}';"
            f" {_REMEDY}."
        )
    raise WrongInput(f"Cost Explorer does not give '{dimension}'; {_REMEDY}.")


def newest_answers(folder: Path, view: str) -> list[Path]:
    """Return the files of the newest whole set.

    The one that has the answer all others are parts of; empty for none.
    """
    answers = [
        (match[1], match[2], path)
        for path in folder.glob("*/*.json")
        if (match := _NAME.fullmatch(path.name))
    ]
    whole = view or TOP
    newest = max((time for time, about, _ in answers if about == whole), default=None)
    files = [(about, path) for time, about, path in answers if time == newest]
    if view:
        return [path for about, path in files if about == view]
    return sorted(path for about, path in files if not about.startswith(TAG_VIEW))


def rows_in(
    files: Sequence[Path], services: Mapping[str, str]
) -> tuple[list[tuple[str, ...]], list[str]]:
    """Return the rows of a set in `COLUMNS`, and a sentence for each answer that cannot be read."""
    cells_of: dict[str, list[Mapping[str, Any]]] = {}
    problems = []
    for path in files:
        about = path.name.partition(".")[2].removesuffix(".json")
        try:
            cells_of[about] = list(_cells(json.loads(path.read_text(encoding="utf-8")), about))
        except (
            OSError,
            KeyError,
            TypeError,
            ValueError,
            InvalidOperation,
            AttributeError,
        ) as error:
            problems.append(
                f"Cost Explorer's answer about {about} cannot be read ({type(error).__name__}) "
                "and is left out."
            )

    rows = []
    answered = {about for about, cells in cells_of.items() if cells}
    for cell in (cell for cells in cells_of.values() for cell in cells):
        # Of what several answers tell, the one that splits it furthest counts.
        finer = ""
        if "account" in cell and "service" not in cell:
            parts = [cell["account"]]
            if "region" in cell:
                parts += [cell["region"], cell["type"]]
            finer = about_of(*parts)
        if finer in answered:
            continue
        columns = _columns_of(cell, services)
        if any(Decimal(columns.get(name) or 0) for name in _AMOUNTS):
            rows.append(tuple(columns.get(name, "") for name in COLUMNS))
    return rows, problems


def about_of(*parts: str) -> str:
    """Return the name of the answer that is filtered by these parts, in order.

    Account, region, record type.
    """
    return ".".join(quote(part, safe="").replace(".", "%2E") for part in parts)


def _cells(pages: Any, about: str) -> Iterator[dict[str, Any]]:
    """Yield each group of each day, with the keys that the answer is filtered by."""
    fixed: dict[str, str] = {}
    if about != TOP and not about.startswith(TAG_VIEW):
        words = [unquote(word) for word in about.split(".")]
        fixed = dict(zip(("account", "region", "type"), words, strict=False))

    defined: Sequence[Mapping[str, str]] = ()
    for page in pages if isinstance(pages, list) else [pages]:
        defined = page.get("GroupDefinitions") or defined
        for span in page["ResultsByTime"]:
            for group in span.get("Groups", ()):
                cell = {**fixed, "tags": ""}
                for definition, key in zip(defined, group["Keys"], strict=True):
                    if definition.get("Type") == "TAG":
                        name, _, value = key.partition("$")
                        cell["tags"] = json.dumps({name: value}) if value else ""
                    else:
                        cell[_KEYS[definition["Key"]]] = key
                yield {
                    **cell,
                    "day": span["TimePeriod"]["Start"][:10],
                    "estimated": span.get("Estimated", False),
                    "metrics": group["Metrics"],
                }


@cache
def line_type(name: str) -> str:
    """Return a charge type of Cost Explorer as a report names it: every `... discount` is one."""
    plain = re.sub(r"[^a-z]", "", name.lower())
    if plain.endswith("discount"):
        return "EdpDiscount"
    rows = table("adapters.billing", "record_types.csv")
    return next((row["line_type"] for row in rows if row["said"] == plain), name)


def _columns_of(cell: Mapping[str, Any], services: Mapping[str, str]) -> dict[str, str]:
    """Return a group of a day as columns of a report."""
    kind, day = line_type(cell["type"]), date.fromisoformat(cell["day"])
    cost, amortised = (_amount(cell, name) for name in ("UnblendedCost", "AmortizedCost"))
    region, service = cell.get("region", ""), cell.get("service", "")
    columns = {
        "cost_explorer": "1",
        "bill_invoice_id": "" if cell["estimated"] else "final",
        "bill_billing_period_start_date": f"{day:%Y-%m-01}",
        "line_item_currency_code": cell["metrics"]["UnblendedCost"].get("Unit", "USD"),
        "line_item_usage_account_id": cell.get("account", ""),
        "line_item_line_item_type": kind,
        "line_item_product_code": services.get(service, service),
        "line_item_usage_type": cell.get("usage_type", ""),
        "line_item_usage_start_date": str(day),
        "line_item_usage_end_date": str(day + timedelta(days=1)),
        "line_item_usage_amount": str(_amount(cell, "UsageQuantity")),
        "line_item_unblended_cost": str(cost),
        "product_region_code": "" if region in _NOWHERE else region,
        "resource_tags": cell["tags"],
    }
    if kind in _AMORTISED:
        columns[_AMORTISED[kind]] = str(amortised)
    if kind == "Fee" and cost and not amortised:
        columns["reservation_reservation_a_r_n"] = "said by its amortised cost of zero"
    return columns


def _amount(cell: Mapping[str, Any], metric: str) -> Decimal:
    """Return one amount; a cost that is missing is an error, a quantity may be."""
    if metric == "UsageQuantity" and metric not in cell["metrics"]:
        return Decimal(0)
    return Decimal(cell["metrics"][metric]["Amount"])


_READ = (".parquet", ".csv", ".csv.gz")
_BROKEN = (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError)
"""The exceptions that `zipfile` raises.

A `RuntimeError` where a password is asked, or a way of packing that it does not know.
"""


class Unreadable(Exception):
    """Report why a file is no export that can be read."""


@contextmanager
def unpacked(path: Path, scratch: Path) -> Iterator[Path]:
    """Yield a path that DuckDB can read.

    The file itself, or (for a zip) the CSV files within, under `scratch`, as one pattern.

    Raise `Unreadable` for another kind of file, for a zip that is broken or holds no CSV, and for
    what unpacks to too much.
    """
    if path.name.endswith(_READ):
        if path.suffix == ".gz":
            _measure(path)
        yield path
    elif path.suffix == ".zip":
        scratch.mkdir(mode=0o700)
        try:
            _extract(path, scratch)
            yield scratch / "*.csv"
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    else:
        raise Unreadable(
            f"'{path.suffix or path.name}' is not a kind of file that can be read; "
            "have it exported as parquet or csv"
        )


def _extract(path: Path, into: Path) -> None:
    """Write the members under names of our own: theirs may lead out of the folder."""
    try:
        with zipfile.ZipFile(path) as packed:
            members = [entry for entry in packed.infolist() if entry.filename.endswith(".csv")]
            if len(members) > ZIP_MEMBERS:
                raise Unreadable(
                    f"the zip holds {len(members):,} files; at most {ZIP_MEMBERS:,} are read"
                )
            # What a member says of its size is all that is read of it.
            if sum(member.file_size for member in members) > unpacked_limit(path.stat().st_size):
                raise Unreadable(too_much("the zip", path.stat().st_size))
            for number, member in enumerate(members):
                with packed.open(member) as source, (into / f"{number}.csv").open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
    except _BROKEN as problem:
        raise Unreadable(f"the zip is broken: {problem}") from problem
    if not members:
        raise Unreadable("the zip holds no .csv file")


def _measure(path: Path) -> None:
    """Raise `Unreadable` for a gzip file that unpacks to too much, as none says to how much."""
    packed = path.stat().st_size
    if packed * _DEFLATE <= UNPACKED_FREE:
        return
    limit, size = unpacked_limit(packed), 0
    try:
        with gzip.open(path) as file:
            while block := file.read(1 << 20):
                size += len(block)
                if size > limit:
                    raise Unreadable(too_much("the file", packed))
    except _BROKEN as problem:
        raise Unreadable(f"the gzip is broken: {problem}") from problem


_DEFLATE = 1032
"""Bytes that one byte of deflate can become at most."""
_NO_EXPORTS = (
    ".json", ".yml", ".yaml", ".sql", ".md", ".txt", ".etag", ".crc", ".asked", "_SUCCESS",
)  # fmt: skip
"""Files that AWS, people and copies put beside an export: manifests, table definitions, notes."""


@dataclass(frozen=True)
class File:
    """State one file as it stands in the folder; `stamp` changes when it is rewritten."""

    path: str
    stamp: str
    modified: int


@dataclass(frozen=True)
class ExplorerFiles:
    """State where Cost Explorer's answers are, which view counts, and its services' codes."""

    folder: Path
    view: str = ""
    services: Mapping[str, str] = field(default_factory=dict)


def list_files(folder: Path, answers: ExplorerFiles) -> dict[str, File]:
    """Return the files under the folder by relative path, and Cost Explorer's answers as one more.

    A file that is no export is listed too: what cannot be read is named, never passed over.
    """
    exports = sorted(_exports(str(folder)), key=lambda file: file.path.split("/"))
    listed = {file.path: file for file in exports}
    if paths := newest_answers(answers.folder, answers.view):
        written = [path.stat().st_mtime_ns for path in paths]
        stamp = ",".join(f"{path.name} {at}" for path, at in zip(paths, written, strict=True))
        listed[ExportForm.EXPLORER] = File(ExportForm.EXPLORER, stamp, max(written))
    return listed


def _exports(folder: str) -> Iterator[File]:
    """Yield every file below a folder that may be an export; links to folders are not followed."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            if name.startswith(".") or name.endswith(_NO_EXPORTS) or not os.path.isfile(path):
                continue
            stat = os.stat(path)
            yield File(
                path[len(folder) + 1 :], f"{stat.st_size}:{stat.st_mtime_ns}", stat.st_mtime_ns
            )
