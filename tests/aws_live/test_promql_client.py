"""Prove who asks by PromQL: AWS's signature for AWS's own stores, a token or nothing for a server of one's own."""

from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    NoCredentialsError,
)

from adapters.aws.api.promql import PrometheusServer, PromqlClient
from adapters.aws.metrics.promql import Aggregate, Expression, Query, one_of
from bot.errors import WrongInput
from bot.settings.settings import read_settings

WORKSPACE = "https://aps-workspaces.eu-west-1.amazonaws.com/workspaces/ws-1"
KEYS = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI", "session")


def signed(server, region="us-west-2"):
    body = "query=up&start=1&end=2&step=60"
    request = AWSRequest(
        "POST",
        f"{server.url or 'https://monitoring.us-west-2.amazonaws.com'}/api/v1/query_range",
        data=body,
    )
    server.signer(region, KEYS)(request)
    return request


@pytest.mark.parametrize(
    ("server", "scope"),
    [
        (PrometheusServer(), "/us-west-2/monitoring/aws4_request"),
        (PrometheusServer(WORKSPACE), "/eu-west-1/aps/aws4_request"),
    ],
)
def test_aws_is_shown_a_signature_for_its_service_and_region(server, scope):
    request = signed(server)
    assert scope in request.headers["Authorization"]
    region, service = scope.split("/")[1:3]
    checked = SigV4Auth(KEYS, service, region)
    request.context["timestamp"] = request.headers["X-Amz-Date"]
    sent = request.headers["Authorization"].rpartition("Signature=")[2]
    bare = AWSRequest(request.method, request.url, data=request.data, headers=dict(request.headers))
    del bare.headers["Authorization"]
    bare.context["timestamp"] = request.context["timestamp"]
    assert (
        checked.signature(checked.string_to_sign(bare, checked.canonical_request(bare)), bare)
        == sent
    )


def test_a_server_of_ones_own_is_shown_the_token_alone():
    server = PrometheusServer("http://prometheus:9090", "ey-secret")
    assert signed(server).headers["Authorization"] == "Bearer ey-secret"
    assert "Authorization" not in signed(PrometheusServer("http://prometheus:9090")).headers
    assert "ey-secret" not in repr(server)


def test_without_credentials_nothing_is_asked_of_aws():
    with pytest.raises(NoCredentialsError):
        PrometheusServer().signer("us-west-2", None)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"TRNBOT_METRICS_SURFACE": "prometheus"}, "none of auto, cloudwatch and promql"),
        ({"TRNBOT_METRICS_URL": "prometheus:9090"}, "named by its address"),
        ({"TRNBOT_METRICS_URL": "http://me:secret@prometheus:9090"}, "without a name or password"),
        (
            {"TRNBOT_METRICS_URL": "http://p:9090", "TRNBOT_METRICS_SURFACE": "cloudwatch"},
            "set one of them",
        ),
        ({"TRNBOT_METRICS_TOKEN": "ey"}, "also needs TRNBOT_METRICS_URL"),
    ],
)
def test_settings_that_name_no_server_are_refused_in_a_sentence(said, sentence):
    with pytest.raises(WrongInput, match=sentence):
        read_settings(said)


def test_the_address_may_be_that_of_the_query_api():
    settings = read_settings({"TRNBOT_METRICS_URL": f"{WORKSPACE}/api/v1/query"})
    assert settings["metrics.url"] == WORKSPACE


@pytest.mark.parametrize(
    ("expression", "aggregate", "period", "text"),
    [
        ("u", Aggregate.MEAN, 60, 'avg by (id) (avg_over_time(u{id=~"a|b"}[60s]))'),
        ("u", Aggregate.LARGEST, 300, 'max by (id) (u{id=~"a|b"})'),
        (
            'e{t="x"}',
            Aggregate.INCREASE,
            60,
            'sum by (id) (clamp_min(e{t="x", id=~"a|b"} - (e{t="x", id=~"a|b"} offset 60s), 0))',
        ),
        (
            "u or 0 * i",
            Aggregate.MEAN,
            300,
            'avg by (id) (u{id=~"a|b"}) or 0 * avg by (id) (i{id=~"a|b"})',
        ),
        ("count(u)", Aggregate.MEAN, 60, 'count by (id) (count_over_time(u{id=~"a|b"}[60s]))'),
        (
            "1 - a / b",
            Aggregate.MEAN,
            300,
            '1 - avg by (id) (a{id=~"a|b"}) / avg by (id) (b{id=~"a|b"})',
        ),
    ],
)
def test_an_expression_is_aggregated_selector_by_selector(expression, aggregate, period, text):
    assert (
        Query(
            Expression(expression, 1.0), aggregate, ["id"], one_of("id", ["b", "a"]), period
        ).text()
        == text
    )


def test_names_that_are_no_words_stand_in_quotes():
    query = Query(
        Expression("u", 1.0),
        Aggregate.MEAN,
        ["@resource.host.id"],
        one_of("@resource.host.id", ["i-1"]),
        300,
    )
    assert query.text() == 'avg by ("@resource.host.id") (u{"@resource.host.id"=~"i-1"})'


class Busy(BaseHTTPRequestHandler):
    """Answer by what is left in the list: statuses with their bodies."""

    left: list[tuple[int, bytes]]

    def do_POST(self) -> None:
        if not self.left:
            return
        status, body = self.left.pop(0)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_) -> None:
        """Write nothing."""


@pytest.fixture
def busy():
    handler = type("Left", (Busy,), {"left": []})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield handler.left, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_what_passes_is_asked_again_and_what_does_not_is_named(busy):
    left, url = busy
    paused = []
    client = PromqlClient(url, lambda _: None, 2, paused.append)
    left += [(503, b"busy"), (200, b'{"status": "success", "data": 1}')]
    assert client.query(query="up")["ResponseMetadata"] == {"RetryAttempts": 1}
    left += [(503, b"busy"), (503, b"busy")]
    with pytest.raises(ClientError, match="HTTP 503"):
        client.query(query="up")
    # A page of a proxy is no answer: whoever asked finds that it lacks its member.
    left += [(200, b"<html>")]
    assert client.query(query="up") == {"ResponseMetadata": {"RetryAttempts": 0}}
    assert len(paused) == 2


def test_a_server_that_breaks_off_is_asked_again_and_one_that_is_away_at_the_next_tick(busy):
    url = busy[1]
    paused = []
    with pytest.raises(ConnectionClosedError):  # its list is empty, so it says nothing
        PromqlClient(url, lambda _: None, 3, paused.append).query(query="up")
    assert len(paused) == 2
    with pytest.raises(EndpointConnectionError):
        PromqlClient("http://127.0.0.1:1", lambda _: None, 3, paused.append).query(query="up")
    assert len(paused) == 2
