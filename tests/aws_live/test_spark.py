"""The bill of an account by Spark Connect, from the settings to `doctor` and an answer."""

import pytest

from bot.errors import HIDDEN, Unavailable, redact, spellings
from bot.model.window import NO_TIME
from bot.settings.settings import read_settings
from tests.aws_live.test_doctor_permissions import Account, told
from tests.billing.test_spark import Server

TOKEN = "dapi-not-to-be-seen"


@pytest.fixture(scope="module")
def server():
    made = Server()
    yield made
    made.kill()


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_doctor_says_that_spark_is_there_and_asks_it_for_no_row_unpaid(world, tiny, server):
    next(world.ticks(0.25, 0.25))
    table = str(tiny / "billing")
    given = {"TRNBOT_SPARK": f"sc://{server.place}", "TRNBOT_SPARK_TABLE": table}
    checks = told(world, given)
    assert checks["Spark"].ok
    assert checks["Spark"].found.startswith(f"{server.place} answers; {table} has ")
    assert checks["billing"].found == (
        "not asked, as that costs a query that your Spark works on; 'doctor paid' asks"
    )
    assert told(world, given, paid=True)["billing"].found.startswith("billed through Nov ")


def test_doctor_and_an_answer_name_a_server_that_is_away(world):
    next(world.ticks(0.25, 0.25))
    server = {"TRNBOT_SPARK": f"sc://127.0.0.1:1/;token={TOKEN}", "TRNBOT_SPARK_TABLE": "main.cur"}
    checks = told(world, server, paid=True)
    assert not checks["Spark"].ok
    assert checks["Spark"].found.startswith("Spark at 127.0.0.1:1 cannot be reached; start it")
    assert TOKEN not in str(checks)
    bill = Account(world.live(), server).bill()
    with pytest.raises(Unavailable, match=r"Spark at 127\.0\.0\.1:1 cannot be reached"):
        bill.tally(NO_TIME, ())


def test_the_token_is_hidden_wherever_it_is_repeated():
    address = f"sc://spark.example.org:443/;use_ssl=true;token={TOKEN}"
    settings = read_settings({"TRNBOT_SPARK": address, "TRNBOT_SPARK_TABLE": "main.billing.cur"})
    assert str(settings["spark.server"]) == "****"
    assert redact(f"said {TOKEN}", spellings(settings.secrets())) == f"said {HIDDEN}"
    assert TOKEN not in redact(f"to {address}", spellings(settings.secrets()))


def test_a_token_may_end_with_signs_of_equality():
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    given = {"TRNBOT_SPARK": f"sc://spark/;token={TOKEN}==", "TRNBOT_SPARK_TABLE": "main.cur"}
    settings = read_settings(given)
    assert DefaultChannelBuilder(settings.text("spark.server")).token == f"{TOKEN}=="
    assert redact(f"said {TOKEN}==", spellings(settings.secrets())) == f"said {HIDDEN}"
