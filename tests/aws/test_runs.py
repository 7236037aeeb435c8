import pytest

RUN = {"Run": "llama-70b", "ClusterName": "llama"}


def report(build, metric, values):
    build.add(
        metric, RUN, {m: (1, value) for m, value in enumerate(values)}, namespace="Trn/Training"
    )


@pytest.fixture
def steps(build):
    """Sixty minutes, back to step 20 at minute 30."""
    values = [*range(30), *range(20, 50)]
    report(build, "Step", values)
    report(build, "Tokens", [value * 1000 for value in values])
    report(build, "Epoch", [value / 10 for value in values])
    report(build, "Loss", [9 - value / 10 for value in values])
    return values


def test_a_run_is_as_last_reported(build, at, steps):
    (run,) = build.open().read(at(25)).runs
    assert (run.labels.job, run.labels.cluster) == ("llama-70b", "llama")
    assert (run.steps, run.tokens, run.epochs, run.loss) == (23, 23_000, 2.3, pytest.approx(6.7))
    assert (run.started_at, run.seen_at, run.attempts) == (at(0), at(24), 1)
    assert (run.parameters, run.checkpoint_age_seconds) == (None, None)


def test_a_falling_step_is_another_attempt(build, at, steps):
    recording = build.open()
    assert [recording.read(at(m)).runs[0].attempts for m in (30, 35, 60)] == [1, 2, 2]


def test_a_run_is_unknown_before_its_first_report(build, at, steps):
    assert build.open(interval_minutes=1).read(at(1)).runs == ()


def test_the_run_frame_keeps_the_newest_value_of_a_step(build, at, steps):
    frame = build.open().read(at(35)).frames["run"]
    assert frame.of("run_step_count")[0].tolist() == [3, 8, 13, 18, 23, 28, 23]
