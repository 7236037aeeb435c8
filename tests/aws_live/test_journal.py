"""Remember answers over a restart, and keep no more of them than a history needs."""

from datetime import UTC, datetime, timedelta

from adapters.aws.api.operations import Place
from adapters.aws.api.responses import KEPT, ApiCall, ResponseHistory, thinned
from adapters.aws.files import Problems
from adapters.aws.inventory.ownership import TagNames
from adapters.aws.inventory.snapshots import Snapshots
from tests.aws_live.conftest import FIVE, TYPES

HOME = Place("us-west-2", account="111122223333")
CALL = ApiCall("ec2", "describe_instances", HOME)
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def named(*names: str) -> list[dict]:
    state = {"Code": 16, "Name": "running"}
    nodes = [
        {
            "InstanceId": x,
            "InstanceType": "trn1.32xlarge",
            "LaunchTime": NOON - HOUR,
            "State": state,
        }
        for x in names
    ]
    return [{"Reservations": [{"OwnerId": HOME.account, "Instances": nodes}]}]


def inventory(heard, at):
    return Snapshots(heard, TagNames(), TYPES, timedelta(days=15)).at(at).inventory


def test_hours_before_a_restart_are_known_after_it(tmp_path):
    before = ResponseHistory(Problems(), tmp_path)
    before.put(CALL, NOON, named("i-1", "i-2"))
    before.put(CALL, NOON + HOUR, named("i-1"))
    after = ResponseHistory(Problems(), tmp_path)
    after.put(CALL, NOON + 2 * HOUR, named("i-1", "i-3"))
    for heard in (before, after):
        assert [x.id for x in inventory(heard, NOON + FIVE).instances.values() if x.running] == [
            "i-1",
            "i-2",
        ]
    gone = inventory(after, NOON + 2 * HOUR).instances["i-2"]
    assert (gone.state, gone.ended_at) == ("terminated", NOON + HOUR)
    assert inventory(after, NOON + 2 * HOUR).instances["i-3"].running


def test_what_cannot_be_asked_after_a_restart_is_as_it_was(tmp_path):
    ResponseHistory(Problems(), tmp_path).put(CALL, NOON, named("i-1"))
    after = ResponseHistory(Problems(), tmp_path)
    after.recall("ec2", "describe_instances", HOME)
    assert inventory(after, NOON + HOUR).instances["i-1"].running
    assert after.newest(CALL) is None, "nobody was asked yet, so the call is due"


def test_another_account_is_not_recalled(tmp_path):
    ResponseHistory(Problems(), tmp_path).put(CALL, NOON, named("i-1"))
    after = ResponseHistory(Problems(), tmp_path)
    after.recall("ec2", "describe_instances", Place("us-west-2", account="444455556666"))
    assert not inventory(after, NOON).instances


def test_an_answer_that_says_the_same_is_written_once(tmp_path):
    heard = ResponseHistory(Problems(), tmp_path)
    for i in range(3):
        heard.put(CALL, NOON + i * FIVE, named("i-1"))
    assert len(list(tmp_path.rglob("*.json"))) == 1
    assert heard.newest(CALL)[0] == NOON + 2 * FIVE


def test_a_broken_file_of_the_journal_costs_only_itself(tmp_path):
    before = ResponseHistory(Problems(), tmp_path)
    before.put(CALL, NOON, named("i-1"))
    before.put(CALL, NOON + HOUR, named("i-1", "i-2"))
    next(tmp_path.rglob("*T120000Z*.json")).write_text('[{"Reservations": [{"Inst')
    problems = Problems()
    after = ResponseHistory(problems, tmp_path)
    after.put(CALL, NOON + 2 * HOUR, named("i-2"))
    assert inventory(after, NOON + HOUR).instances["i-1"].running
    assert len(problems.sentences()) == 1


def test_the_journal_is_thinned_with_age(tmp_path):
    heard = ResponseHistory(Problems(), tmp_path)
    for i in range(int(timedelta(days=20) / FIVE)):
        if i % 4 == 0:
            heard.put(CALL, NOON + i * FIVE, named("i-1", f"i-{i}"))
    files = list(tmp_path.rglob("*.json"))
    assert len(files) == len(
        heard.histories("ec2", "describe_instances", lambda pages, answer: pages)[0]
    )
    assert 18 + 40 + 50 < len(files) < 18 + 45 + 60


def test_what_stands_unchanged_for_long_is_kept():
    long = NOON - KEPT - timedelta(days=40)
    assert thinned([long - HOUR, long], NOON) == {long}
    assert thinned([long - HOUR, long, NOON], NOON) == {long, NOON}
