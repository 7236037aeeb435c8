"""Read history between ticks: whole things together, what fails once more, and never in a tick's way."""

from threading import Event

from adapters.aws.api.operations import Place
from adapters.aws.live.frame_buffer import PastGrids
from adapters.aws.live.poller import Backfill
from adapters.aws.live.requests import SeriesBook
from adapters.aws.metrics.points import Points
from benchmarks.aws_bill import fleet
from bot.errors import Unavailable

HOME = Place("us-west-2", account="111122223333")
DAY = 86_400
NONE = PastGrids({}, Points.joined([]))


def backfill(fetch, nodes=20):
    book = SeriesBook()
    numbers = book.enter(fleet(nodes), 0)
    made = Backfill(book, fetch, lambda: 0.0)
    made.queue(HOME, numbers, 0, 15 * DAY)
    return made


def read_all(made):
    made.start(1.0, lambda _: NONE)
    made.join()


def test_the_series_of_a_node_are_read_together():
    made = backfill(lambda request, deadline: [])
    of_block = [
        {dict(made.book.series[n].dimensions)["InstanceId"] for n in block.numbers}
        for block in made.pending()
    ]
    assert len(of_block) > 1
    assert sum(map(len, of_block)) == len(set().union(*of_block)) == 20


def test_what_fails_is_read_after_all_others():
    asked = []

    def fetch(request, deadline):
        asked.append(request)
        if len(asked) == 1:
            raise Unavailable("throttled")
        return []

    made = backfill(fetch)
    before = made.pending()
    read_all(made)
    assert made.pending() == (*before[1:], before[0])
    read_all(made)
    assert len(made.taken()) == len(before)
    assert made.pending() == ()
    assert made.unread() == ()


def test_how_far_it_is_is_said():
    made = backfill(lambda request, deadline: [])
    assert made.unread() == (
        "The history of 0 of 320 series is read; alerts that need none are sent meanwhile.",
    )


def test_nobody_waits_for_it_and_what_is_under_way_is_pending():
    go_on = Event()

    def fetch(request, deadline):
        assert go_on.wait(5)
        return []

    made = backfill(fetch)
    wanted = set(made.pending())
    made.start(1.0, lambda _: NONE)
    assert made.taken() == []
    assert set(made.pending()) == wanted
    go_on.set()
    made.join()
    assert len(made.taken()) == len(wanted)
