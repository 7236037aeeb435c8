"""Lines of Neuron's compiler, as people and documentation show them, and lines that only look like it."""

import gzip
import json
from datetime import UTC, datetime, timedelta

import pytest

from adapters.aws.config import ReadingConfig
from adapters.aws.files import Problems
from adapters.aws.logs.logbook import (
    Logbook,
    compile_lines,
    filter_pattern,
    instance_of,
    marks_of,
    read_logs,
)
from adapters.aws.recording.recording import open_recording
from adapters.simulator import Files, SimulationTiming, generate
from bot.model.run import Mark

NODES = {"ip-10-0-1-2.us-west-2.compute.internal": "i-0abc"}
STREAM = "ip-10-0-1-2.us-west-2.compute.internal-application.var.log.containers.train-0_default_main-1f.log"
WRAPPER = "2024-04-12 07:13:06.000297:  271334  INFO ||NEURON_CC_WRAPPER||: "
PARALLEL = "2024-11-07 09:57:13.000144:  39810  INFO ||NEURON_PARALLEL_COMPILE||: "


def event(message, stream=STREAM, at=1_763_600_000_000):
    return {
        "logStreamName": stream,
        "timestamp": at,
        "message": message,
        "ingestionTime": at,
        "eventId": "1",
    }


@pytest.mark.parametrize(
    ("line", "mark", "module"),
    [
        (f"{WRAPPER}Call compiler with cmd: neuronx-cc compile /w/model.MODULE_165+d41d8cd9.hlo_module.pb", Mark.BEGUN, "MODULE_165+d41d8cd9"),
        ("Compiler status PASS", Mark.DONE, ""),
        (f"{WRAPPER}Compilation Successfully Completed for model.MODULE_0f71+8f34053f.hlo_module.pb", Mark.DONE, "MODULE_0f71+8f34053f"),
        ("ERROR ||NEURON_CC_WRAPPER||: Compilation failed for /tmp/x/model.hlo_module.pb after 0 retries", Mark.FAILED, ""),
        ("[F134] neuronx-cc terminated abnormally - Please open a support ticket", Mark.FAILED, ""),
        ("[ERROR]: Got a cached failed neff at /c/MODULE_9+aa/model.neff. Will skip compilation", Mark.SKIPPED, "MODULE_9+aa"),
        ("[INFO]: Another process must be compiling /c/MODULE_9+aa/model.neff, been waiting for: 3.0 minutes", Mark.WAITING, "MODULE_9+aa"),
        (f"{PARALLEL}Running trial run (add option to terminate trial run early)", Mark.BEGUN, ""),
        (f"{PARALLEL}Total failed compilations: 0", Mark.OVER, ""),
        ('{"log":"Compiler status PASS","kubernetes":{"host":"ip-10-0-1-2"}}', Mark.DONE, ""),
    ],
)  # fmt: skip
def test_a_known_line_says_what_it_says(line, mark, module):
    (found,) = marks_of([event(line)], NODES)
    assert (found.instance, found.mark, found.module, found.stream) == (
        "i-0abc",
        mark,
        module,
        STREAM,
    )


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Using a cached neff at /c/MODULE_9+aa/model.neff",
        "NCCL WARN compile",
        "epoch 3 loss 0.2",
    ],
)
def test_other_lines_say_nothing(line):
    assert list(marks_of([event(line)], NODES)) == []


@pytest.mark.parametrize(
    ("stream", "instance"),
    [
        ("i-0123456789abcdef0", "i-0123456789abcdef0"),
        ("train/i-01234567/stdout", "i-01234567"),
        (STREAM, "i-0abc"),
        ("ip-10-9-9-9.ec2.internal-application.var.log.containers.x.log", ""),
        ("api-01234567", ""),
        ("", ""),
    ],
)
def test_a_stream_names_its_instance_or_its_node(stream, instance):
    assert instance_of(stream, NODES) == instance


def test_the_pattern_asks_for_every_known_line():
    assert filter_pattern().count('?"') == len(compile_lines())
    assert len(filter_pattern()) <= 1024


def test_a_recordings_logs_are_read_line_by_line_and_a_broken_one_is_named(tmp_path):
    (tmp_path / "logs/us").mkdir(parents=True)
    good = json.dumps(event("Compiler status PASS"))
    (tmp_path / "logs/us/a.jsonl").write_text(f"{good}\n\n{{broken\n[1]\n{good}\n")
    (tmp_path / "logs/notes.txt").write_text("no event")
    (tmp_path / "logs/b.jsonl.gz").write_bytes(
        gzip.compress(json.dumps(event("Compiler status PASS") | {"eventId": "2"}).encode())
    )
    problems = Problems()
    book = read_logs(tmp_path, NODES, problems)
    assert len(book._marks) == 2
    assert [x.split(":")[0] for x in problems.sentences()] == [
        "logs/us/a.jsonl, line 3",
        "logs/us/a.jsonl, line 4",
    ]


def test_simulated_logs_set_the_state_and_change_nothing_else(tmp_path):
    for name, logs in (("with", True), ("without", False)):
        generate(tmp_path / name, 1, "compiles", SimulationTiming(days=1.0), Files(logs=logs))
    assert not (tmp_path / "without/logs").exists()
    one, other = (
        {
            p.relative_to(tmp_path / name): p.read_bytes()
            for p in (tmp_path / name).rglob("*")
            if p.is_file() and p.parent.name != "logs"
        }
        for name in ("with", "without")
    )
    assert one == other
    source = open_recording(tmp_path / "with", ReadingConfig(timedelta(minutes=5), {}))
    end = source.extent().end
    marks = source.read(end).marks
    assert {x.mark for x in marks} == {Mark.BEGUN, Mark.DONE}
    assert {x.instance for x in marks} < {x.instance for x in source.read(end).frame("node").things}


def test_what_is_older_than_it_is_kept_is_forgotten_and_known_no_more():
    book = Logbook()
    old, new = (
        event("Compiler status PASS"),
        event("Compiler status PASS", at=1_763_700_000_000) | {"eventId": "2"},
    )
    assert (book.add([old, new], NODES), book.add([old, new], NODES)) == (2, 0)
    day = timedelta(days=1)
    (kept,) = book.at(datetime.fromtimestamp(1_763_700_000, UTC), day)
    book.forget(kept.at)
    assert book.at(kept.at, 30 * day) == (kept,)
    assert book.add([old], NODES) == 1


def test_lines_of_a_node_that_no_metric_names_yet_wait_for_it():
    book = Logbook()
    assert (
        book.add(
            [event("Compiler status PASS"), event("no line of a compiler") | {"eventId": "2"}], {}
        )
        == 0
    )
    assert book.add([], NODES) == 1
    assert book.add([], NODES) == 0
