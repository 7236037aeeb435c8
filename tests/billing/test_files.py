"""Broken, rewritten, copied: what a folder of exports goes through."""

import logging
import os
import threading
import zipfile
from datetime import timedelta
from decimal import Decimal

import pytest

from adapters.billing import database
from adapters.billing.bill import BillOptions, open_billing
from bot.errors import Unavailable
from bot.model.spend import Filter
from bot.model.window import EVER, NO_TIME
from bot.wiring.kept import AtMostEvery


def later(path, seconds=5):
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + seconds * 10**9))


def test_a_broken_file_is_named_and_the_rest_used(exports, november):
    (exports.folder / "billing" / "a.parquet").write_bytes(b"PAR1 not really")
    (exports.folder / "billing" / "b.csv.gz").write_bytes(b"\x1f\x8b cut off")
    (exports.folder / "billing" / "c.csv").write_text("day,euros\n2026-11-02,3\n")
    bill = exports.bill(exports.line())
    assert bill.tally(november, ()).total.net == 1
    assert [problem.split(" ")[0] for problem in bill.problems()] == [
        "a.parquet",
        "b.csv.gz",
        "c.csv",
    ]
    assert not any(str(exports.folder) in problem for problem in bill.problems())


def test_broken_rows_are_counted_named_and_skipped(exports, november):
    rows = [exports.line(), exports.line(cost="a lot"), exports.line(cost=""), exports.line(cost="nan"),
            exports.line(line_item_usage_start_date="soon"), exports.line(cost="2")]  # fmt: skip
    bill = exports.bill(*rows)
    assert bill.tally(november, ()).total.net == 3
    assert bill.problems() == [
        "bill.csv: 4 broken rows skipped (row 2: no readable amount; row 3: no readable amount; row 4: no readable amount; "
        "row 5: no readable start)."
    ]


def test_a_line_of_the_wrong_width_is_skipped(exports, november):
    path = exports.put("bill.csv", [exports.line(), exports.line(cost="2")])
    path.write_text(path.read_text() + "half,a,line\n")
    bill = exports.bill()
    assert bill.tally(november, ()).total.net == 3
    assert "1 broken row skipped (line 4" in bill.problems()[0]


def test_a_rewritten_file_replaces_its_month(exports, november):
    bill = exports.bill(exports.line(cost="1"))
    exports.put("2026-10/bill.csv", [exports.line(exports.day - timedelta(days=9), "100")])
    assert bill.tally(november, ()).total.net == 1
    later(
        exports.put(
            "bill.csv",
            [exports.line(cost="1.5"), exports.line(exports.day + timedelta(hours=1), "2")],
        )
    )
    assert bill.tally(november, ()).total.net == 3.5
    (exports.folder / "billing" / "bill.csv").unlink()
    assert bill.tally(november, ()).rows == ()


def hours(exports, n, cost="1"):
    return [exports.line(exports.day + timedelta(hours=h), cost) for h in range(n)]


def test_a_folder_is_looked_at_again_once_that_is_due(exports, november):
    path = exports.put("bill.csv", [exports.line(cost="1")])
    seconds = [0.0]
    bill = open_billing(exports.folder, BillOptions(due=AtMostEvery(1.0, lambda: seconds[0])))
    assert bill.tally(november, ()).total.net == 1
    later(exports.put(path.name, [exports.line(cost="2")]))
    seconds[0] = 0.9
    assert bill.tally(november, ()).total.net == 1
    seconds[0] = 1.0
    assert bill.tally(november, ()).total.net == 2


def test_a_newer_version_of_the_same_month_counts_alone(exports, november):
    exports.put("v1/bill.csv", hours(exports, 10))
    later(exports.put("v2/bill.csv", hours(exports, 14, "1.10")))
    bill = exports.bill()
    assert str(bill.tally(november, ()).total.net) == "15.40"
    assert bill.problems() == [
        "v1/bill.csv (CUR 2.0): 2026-11 is also in v2/bill.csv (CUR 2.0), which counts; this copy is left out."
    ]


def test_parts_of_one_export_are_added(exports, november):
    rows = hours(exports, 24)
    exports.put("bill-00001.parquet", rows[:12])
    exports.put("bill-00002.parquet", rows[12:])
    bill = exports.bill()
    assert bill.tally(november, ()).total.net == 24
    assert list(bill.problems()) == []


def test_one_month_in_two_formats_counts_once(exports, november):
    focus = {
        "BillingAccountId": "111111111111",
        "ChargePeriodStart": "2026-11-02 00:00:00",
        "BilledCost": "1.00",
        "ServiceName": "x",
    }
    exports.put(
        "focus.csv",
        [focus, {**focus, "ChargePeriodStart": "2026-10-02 00:00:00", "BilledCost": "5"}],
    )
    bill = exports.bill(exports.line(cost="1.00"))
    assert bill.tally(november, ()).total.net == 1
    assert bill.tally(november.previous(), ()).total.net == 5
    assert [p.split(":")[0] for p in bill.problems()] == ["focus.csv (FOCUS 1.0)"]


def test_another_payer_is_no_copy(exports, november):
    exports.put("other.csv", [exports.line(bill_payer_account_id="999999999999", cost="7")])
    assert exports.bill(exports.line()).tally(november, ()).total.net == 8


def test_a_left_out_copy_counts_again_when_the_better_goes(exports, november):
    exports.put("v1/bill.csv", hours(exports, 10))
    better = exports.put("v2/bill.csv", hours(exports, 10, "2"))
    later(better)
    bill = exports.bill()
    assert bill.tally(november, ()).total.net == 20
    better.unlink()
    assert bill.tally(november, ()).total.net == 10
    assert list(bill.problems()) == []


@pytest.fixture
def loaded(monkeypatch):
    """Return the names of the files that are loaded from here on."""
    from adapters.billing import load as module

    names, real = [], module.load

    def load(run, place):
        names.append(run.shown)
        return real(run, place)

    monkeypatch.setattr(module, "load", load)
    return names


def test_the_cache_spares_the_loading(exports, november, tmp_path, loaded):
    cache = tmp_path / "cache" / "bill"
    exports.put("other.csv", [exports.line(bill_payer_account_id="999999999999", cost="5")])
    first = exports.bill(exports.line(cost="3"), cache=cache)
    assert first.tally(november, ("team",)).total.net == 8
    loaded.clear()

    # Any number of processes read the copy at once, and it is this user's alone.
    second, third = exports.bill(cache=cache), exports.bill(cache=cache)
    for bill in (second, third):
        assert bill.tally(november, ("team",)) == first.tally(november, ("team",))
        assert bill.rates(november.end) == first.rates(november.end)
    assert loaded == []
    (copy,) = cache.parent.iterdir()
    assert copy.stat().st_mode & 0o777 == 0o600

    # What changed is loaded beside what the copy holds, and the next start has both.
    later(exports.put("bill.csv", [exports.line(cost="4")]))
    assert second.tally(november, ()).total.net == 9
    assert exports.bill(cache=cache).tally(november, ()).total.net == 9
    assert loaded == ["bill.csv"]

    # Where the copy that a process reads has gone, it loads all.
    copy.unlink()
    later(exports.put("bill.csv", [exports.line(cost="6")]))
    assert third.tally(november, ()).total.net == 11


def test_what_the_tables_depend_on_names_the_cache(exports, november, tmp_path, loaded):
    cache = tmp_path / "bill"
    line = exports.line(resource_tags={"user_squad": "blue"})
    assert exports.bill(line, cache=cache).tally(november, ()).total.net == 1
    bill = exports.bill(cache=cache, tags={"team": ("squad",)})
    assert bill.tally(november, ("team",)).rows[0].key == {"team": "blue"}
    exports.bill(cache=cache, services={"Amazon Elastic Compute Cloud": "x"}).problems()
    open_billing(exports.folder, BillOptions(cache=cache), "TAG squad").problems()
    assert len(list(tmp_path.glob("bill-*"))) == 4 == len(loaded)


def test_a_cache_that_cannot_be_trusted_is_made_anew(exports, november, tmp_path, loaded):
    exports.bill(exports.line(), cache=tmp_path / "bill").problems()
    (copy,) = tmp_path.glob("bill-*")
    copy.chmod(0o622)
    exports.bill(cache=tmp_path / "bill").problems()
    copy.write_text("hello" * 9999)
    bill = exports.bill(cache=tmp_path / "bill")
    assert bill.tally(november, ()).total.net == 1
    assert (list(bill.problems()), len(loaded)) == ([], 3)
    exports.bill(cache=tmp_path / "bill").problems()
    assert len(loaded) == 3


def test_a_file_that_could_not_be_read_is_tried_again_by_the_next_start(
    exports, november, tmp_path, loaded
):
    (exports.folder / "billing" / "a.parquet").write_bytes(b"PAR1 not really")
    for _ in range(2):
        assert exports.bill(exports.line(), cache=tmp_path / "bill").problems()
    assert loaded.count("a.parquet") == 2


def test_many_threads_ask_at_once(exports, november):
    bill = exports.bill(*hours(exports, 50))
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(bill.tally(november, ("team",)).total.net))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [50] * 8


@pytest.mark.parametrize("name", [".bill.csv", "notes.txt", "manifest.json"])
def test_other_files_are_not_the_bills_business(exports, november, name):
    (exports.folder / "billing" / name).write_text("whatever")
    bill = exports.bill(exports.line())
    assert bill.tally(november, ()).total.net == 1
    assert list(bill.problems()) == []


def test_an_export_of_which_nothing_can_be_read_is_no_bill_of_nothing(exports, november):
    (exports.folder / "billing" / "a.parquet").write_bytes(b"PAR1 not really")
    (exports.folder / "billing" / "c.csv").write_text("day,euros\n2026-11-02,3\n")
    bill = open_billing(exports.folder, BillOptions(lag=timedelta(hours=24)))
    with pytest.raises(
        Unavailable,
        match=r"can be read as a bill: a.parquet could not be read .* And 1 more such files",
    ):
        bill.tally(november, ())
    (exports.folder / "billing" / "d.csv").write_text(",".join(exports.line()) + "\n")
    assert bill.tally(november, ()).total.net == 0


def test_how_far_a_bill_reaches_is_told_whatever_its_currencies(exports):
    bill = exports.bill(exports.line(), exports.line(line_item_currency_code="EUR"))
    found = bill.tally(NO_TIME, ())
    assert (found.rows, found.billed_through) == (
        (),
        bill.tally(EVER, ("currency",), [Filter("currency", ("USD",))]).billed_through,
    )
    assert found.billed_through


def zipped(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, source in members.items():
            file.writestr(f"{name}.csv", source)
    return path


def test_a_zip_of_aws_is_read(exports, november):
    plain = exports.put("bill.csv", [exports.line(cost="1.5"), exports.line(cost="half")])
    folder = exports.folder / "billing" / "20261101-20261201" / "0a1b"
    folder.mkdir(parents=True)
    zipped(folder / "report-1.csv.zip", report=plain.read_text())
    plain.unlink()
    bill = exports.bill()
    assert bill.tally(november, ()).total.net == Decimal("1.5")
    assert bill.problems() == [
        "20261101-20261201/0a1b/report-1.csv.zip: 1 broken row skipped (row 2: no readable amount)."
    ]


def test_what_cannot_be_read_is_named_and_logged_once(exports, november, caplog):
    billing = exports.folder / "billing"
    (billing / "torn.zip").write_bytes(b"PK\x03\x04 torn")
    zipped(billing / "empty.csv.zip")
    (billing / "bill.xlsx").write_bytes(b"PK")
    for beside in ("report-Manifest.json", "create_table.sql", "README.md", "_SUCCESS"):
        (billing / beside).write_text("{}")
    bill = exports.bill(exports.line())
    with caplog.at_level(logging.WARNING, "trnbot.billing"):
        assert bill.tally(november, ()).total.net == 1
        exports.put("more.csv", [exports.line(exports.day + timedelta(hours=7))])
        assert bill.tally(november, ()).total.net == 2
    assert bill.problems() == [
        "bill.xlsx could not be read and is left out: '.xlsx' is not a kind of file that can be read; have it exported as parquet or csv.",
        "empty.csv.zip could not be read and is left out: the zip holds no .csv file.",
        "torn.zip could not be read and is left out: the zip is broken: File is not a zip file.",
    ]
    assert [record.getMessage() for record in caplog.records] == bill.problems()


def warned(caplog):
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_a_copy_that_is_damaged_while_it_is_read_is_left_for_the_files_with_one_warning(
    exports, tmp_path, loaded, caplog
):
    cache, many = tmp_path / "bill", hours(exports, 3_000)
    exports.bill(*many, cache=cache).problems()
    (copy,) = tmp_path.glob("bill-*")
    second = exports.bill(cache=cache)
    assert second.problems() == []

    # What stands at the beginning is read already; what is summed up is not.
    with copy.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(b"\xff" * (copy.stat().st_size - 4096 * 3))
    assert second.tally(EVER, ("resource", "hour")).total.net == 3_000
    assert second.tally(EVER, ("team",)).total.net == 3_000
    assert loaded == ["bill.csv"] * 2
    (warning,) = warned(caplog)
    assert warning.startswith("The copy of the bill on disk is unreadable and made anew: ")
    # The copy that was made anew serves the next start.
    assert exports.bill(cache=cache).tally(EVER, ()).total.net == 3_000
    assert loaded == ["bill.csv"] * 2


def test_a_bill_that_cannot_be_written_to_disk_is_answered_from_memory_with_one_warning(
    exports, november, tmp_path, caplog
):
    (tmp_path / "full").write_text("a file where a folder should be")
    bill = exports.bill(exports.line(cost="3"), cache=tmp_path / "full" / "bill")
    assert bill.tally(november, ()).total.net == 3
    later(exports.put("bill.csv", [exports.line(cost="4")]))
    assert bill.tally(november, ()).total.net == 4
    (warning,) = warned(caplog)
    assert warning.startswith("The bill is not kept on disk, and read again at each start: ")


def test_copies_make_room_for_each_other_and_what_a_killed_process_left_is_removed(
    exports, tmp_path, monkeypatch
):
    made = tmp_path / "cache"
    made.mkdir()
    names = ("bill-of-older-code", "bill-used-lately", ".bill-killed", ".bill-under-way", "fleet-1")
    for age, name in enumerate(reversed(names)):
        (made / name).touch()
        os.truncate(made / name, 64 << 20)
        if name != ".bill-under-way":
            os.utime(made / name, (1e9 + age, 1e9 + age))
    os.utime(made / "bill-of-older-code", (1, 1))
    exports.bill(exports.line(), cache=made / "bill").problems()
    assert {path.name for path in made.iterdir()} >= {*names} - {".bill-killed"}

    monkeypatch.setattr(database, "BILL_COPIES_BYTES", 100 << 20)
    later(exports.put("bill.csv", [exports.line(cost="4")]))
    exports.bill(cache=made / "bill").problems()
    assert {path.name for path in made.iterdir()} & {*names} == {
        "bill-used-lately",
        ".bill-under-way",
        "fleet-1",
    }


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_month_that_is_delivered_again_gives_the_tables_of_a_first_reading(
    exports, tmp_path, loaded, on_disk
):
    def month(n, cost, service):
        return [
            exports.line(
                exports.day + timedelta(days=30 * n + k, hours=k),
                f"{cost + k}",
                bill_billing_period_start_date=f"2026-{11 + n}-01T00:00:00.000Z",
                line_item_product_code=service,
                line_item_resource_id=f"i-{k % 3}",
            )
            for k in range(6)
        ]

    for n in range(2):
        exports.put(f"month-{n}.csv", month(n, 3, "AmazonEC2"))
    bill = exports.bill(**({"cache": tmp_path / "bill"} if on_disk else {}))
    assert bill.problems() == []
    loaded.clear()
    later(exports.put("month-1.csv", month(1, 5, "AmazonS3")))
    first = exports.bill()
    for by in (("service",), ("resource", "day"), ("month", "team"), ("hour", "usage_type")):
        assert bill.tally(EVER, by) == first.tally(EVER, by)
    assert bill.rates(exports.day + timedelta(days=9)) == first.rates(
        exports.day + timedelta(days=9)
    )
    assert loaded == ["month-1.csv", "month-0.csv", "month-1.csv"]
    (exports.folder / "billing" / "month-0.csv").unlink()
    assert bill.tally(EVER, ("service",)) == first.tally(EVER, ("service",))


class Away:
    """A copy that cannot be had."""

    asked = 0

    def keep_fresh(self):
        self.asked += 1

    def problems(self):
        return ("Athena is away.",)


def test_a_copy_is_brought_up_to_date_before_a_question_and_says_why_it_is_not_there(tmp_path):
    copy = Away()
    bill = open_billing(tmp_path, BillOptions(copy=copy))
    with pytest.raises(Unavailable, match=r"^Athena is away\.$"):
        bill.tally(EVER, ())
    assert (bill.problems(), copy.asked) == (["Athena is away."], 1)
