"""Acting on moto's EC2 and SageMaker, and on a Kubernetes API that answers on the loopback."""

from __future__ import annotations

import base64
import json
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from botocore.credentials import Credentials
from botocore.session import get_session
from botocore.validate import validate_parameters

from adapters.aws.api.calls import Calls
from adapters.aws.api.operations import ACTING, Place, changing, policy_text, statements
from adapters.aws.live.acting import Actor, KubernetesApi, cluster_token
from bot.errors import Refused, Unavailable, WrongInput
from bot.model.action import Action, ActionKind, ActionState, Progress
from bot.model.labels import Labels
from tests.aws_live.test_moto import ec2, run
from tests.builders import NOON

assert ec2, "a fixture"
ROOT = Path(__file__).parents[2]
ACCOUNT = "123456789012"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/trnbot-acting"
UNDER_WAY, WORKED, FAILED = ActionState.UNDER_WAY, ActionState.WORKED, ActionState.FAILED


def action(kind: ActionKind, *targets: str, size: int | None = None) -> Action:
    place = Labels(account=ACCOUNT, region="us-east-1", cluster="llama")
    zero = Decimal(0)
    made = Action("x1", kind, targets, place, size, zero, zero, NOON, "chat:U1", "dana")
    return replace(made, before=8)


def stepped(actor: Actor, begun: Action) -> tuple[Action, Progress]:
    """Take a step as the bot does, which remembers what was ordered."""
    progress = actor.advance(begun)
    return replace(begun, ordered=(*begun.ordered, *progress.ordered)), progress


@pytest.fixture
def actor() -> Actor:
    return Actor(Calls(lambda: datetime.now(UTC)), [ROLE])


def test_nodes_are_stopped_once_and_it_is_seen_that_they_did(ec2: Any, actor: Actor) -> None:
    node = run(ec2, "trn1.2xlarge", "search")
    stop = action(ActionKind.STOP, node)
    assert actor.rehearse(stop) == ["EC2 tried it dry: it would stop 1 instance."]
    assert state(ec2, node) == "running"
    stop, progress = stepped(actor, stop)
    assert (progress.state, progress.ordered) == (UNDER_WAY, (node,))
    assert state(ec2, node) == "stopped"
    assert actor.advance(stop).state is WORKED
    # Whoever starts it again is not fought: it was ordered once.
    ec2.start_instances(InstanceIds=[node])
    assert "was started again" in actor.advance(stop).words
    assert state(ec2, node) == "running"
    assert actor.advance(action(ActionKind.STOP, "i-0a1b2c3d4e5f60718")).state is FAILED


def state(ec2: Any, node: str) -> str:
    (reservation,) = ec2.describe_instances(InstanceIds=[node])["Reservations"]
    return str(reservation["Instances"][0]["State"]["Name"])


def test_without_a_role_of_the_account_nothing_is_asked(actor: Actor) -> None:
    place = Labels(account="444455556666", region="us-east-1")
    zero = Decimal(0)
    other = Action("x1", ActionKind.STOP, ("i-1",), place, None, zero, zero, NOON, "U1", "")
    with pytest.raises(Refused, match="No role may change anything in account 444455556666"):
        actor.rehearse(other)


def test_the_providers_trail_names_who_pressed(ec2: Any) -> None:
    assert ec2, "moto answers"
    calls = Calls(lambda: datetime.now(UTC))
    for person in ("slack:U01DANA", "web:mei@example.com"):
        stop = replace(action(ActionKind.STOP, "i-1"), pressed=(person,))
        place = Place("us-east-1", ROLE, ACCOUNT, stop.session)
        arn = calls.call(place, "sts", "get_caller_identity")["Arn"]
        assert arn.endswith(f"/trnbot-acting/trnbot-x1-{person.replace(':', '.')}")
    reading = Place("us-east-1", ROLE, ACCOUNT)
    arn = calls.call(reading, "sts", "get_caller_identity")["Arn"]
    assert arn.endswith("/trnbot-acting/trnbot")


def test_sessions_that_ended_are_forgotten(ec2: Any) -> None:
    assert ec2, "moto answers"
    now = [datetime.now(UTC)]
    calls = Calls(lambda: now[0])
    for number in range(3):
        place = Place("us-east-1", ROLE, ACCOUNT, f"trnbot-x{number}")
        calls.call(place, "ec2", "describe_volumes")
        now[0] += timedelta(hours=2)
    assert {key[3] for key in calls._clients if key[2]} == {"trnbot-x2"}


class Answers:
    """Answer calls by name, each request checked against botocore's model of it."""

    def __init__(self, **answers: Mapping[str, Any]) -> None:
        self.answers, self.asked = answers, list[tuple[str, dict[str, Any]]]()
        self.loader = get_session()

    def call(self, _: Place, service: str, operation: str, **given: Any) -> Mapping[str, Any]:
        model = self.loader.get_service_model(service)
        name = "".join(map(str.capitalize, operation.split("_")))
        shapes = {x.lower(): model.operation_model(x) for x in model.operation_names}
        validate_parameters(given, shapes[name.lower()].input_shape)
        self.asked.append((operation, given))
        return self.answers[operation]

    def pages(self, *named: Any, **given: Any) -> Iterator[Mapping[str, Any]]:
        yield self.call(*named, **given)

    def credentials(self, _: Place) -> Credentials:
        return Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI", "token")


class Kubernetes(BaseHTTPRequestHandler):
    """Answer as a Kubernetes API of two nodes, one a page; dry runs change nothing."""

    cordoned: dict[str, bool]
    heard: list[tuple[str, str]]

    def do_GET(self) -> None:
        query = urllib.parse.parse_qs(self.path.partition("?")[2])
        names = ["ip-1", "ip-2"]
        name = query.get("continue", names)[0]
        node = {
            "metadata": {"name": name},
            "spec": {"providerID": f"aws:///us-east-1a/i-{name[-1]}"},
        }
        if self.cordoned.get(name):
            node["spec"]["unschedulable"] = True  # type: ignore[assignment]
        following = "ip-2" if name == "ip-1" else ""
        self.answer({"items": [node], "metadata": {"continue": following}})

    def do_PATCH(self) -> None:
        self.heard.append((self.path, self.headers["Authorization"]))
        change = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "dryRun" not in self.path:
            self.cordoned[self.path.rpartition("/")[2]] = change["spec"]["unschedulable"]
        self.answer({})

    def answer(self, body: Mapping[str, Any]) -> None:
        allowed = self.headers["Authorization"].startswith("Bearer k8s-aws-v1.")
        # Only what has a body says of which type it is.
        fitting = ("Content-Type" in self.headers) == (self.command == "PATCH")
        self.send_response((200 if fitting else 400) if allowed else 401)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


@pytest.fixture
def kubernetes() -> Iterator[tuple[type[Kubernetes], Answers]]:
    heard = type("Heard", (Kubernetes,), {"cordoned": {}, "heard": []})
    server = HTTPServer(("127.0.0.1", 0), heard)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    yield heard, Answers(describe_cluster={"cluster": {"endpoint": endpoint}})
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_lemon_is_cordoned_and_its_neighbour_is_not(
    kubernetes: tuple[type[Kubernetes], Answers],
) -> None:
    api, answers = kubernetes
    actor = Actor(answers, [ROLE])  # type: ignore[arg-type]
    cordon = action(ActionKind.CORDON, "i-2")
    assert "no new pod on ip-2 (i-2)" in actor.rehearse(cordon)[0]
    assert api.cordoned == {}
    cordon, progress = stepped(actor, cordon)
    assert progress.state is UNDER_WAY
    assert api.cordoned == {"ip-2": True}
    assert actor.advance(cordon).state is WORKED
    assert len(api.heard) == 2
    api.cordoned.clear()
    assert "takes pods again" in actor.advance(cordon).words
    with pytest.raises(WrongInput, match="no Kubernetes node for i-9"):
        actor.rehearse(action(ActionKind.CORDON, "i-9"))


def test_a_kubernetes_api_that_does_not_do_it_is_one_sentence(
    kubernetes: tuple[type[Kubernetes], Answers],
) -> None:
    endpoint = kubernetes[1].answers["describe_cluster"]["cluster"]["endpoint"]
    with pytest.raises(Refused, match=r"\(HTTP 401\); give the acting role an access entry"):
        next(KubernetesApi(endpoint, "", "another's").nodes())
    with pytest.raises(Unavailable, match=r"answered HTTP 501\."):
        KubernetesApi(endpoint, "", "k8s-aws-v1.x")._ask("DELETE", "/api/v1/nodes/ip-1")
    with pytest.raises(Unavailable, match=r"gave no answer \(URLError\)\."):
        KubernetesApi("http://127.0.0.1:1", "", "").patch("/api/v1/nodes/ip-1", {})


def test_the_token_is_a_signed_address_that_names_the_cluster() -> None:
    answers: Any = Answers()
    token = cluster_token(answers, Place("us-east-1", ROLE, ACCOUNT), "llama")
    text = token.removeprefix("k8s-aws-v1.")
    address = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(address).query)
    assert address.startswith("https://sts.us-east-1.amazonaws.com/?")
    assert query["X-Amz-SignedHeaders"] == ["host;x-k8s-aws-id"]
    assert (query["Action"], query["X-Amz-Expires"]) == (["GetCallerIdentity"], ["60"])


def test_the_role_that_acts_has_a_policy_file_of_its_own_and_reads_no_bill() -> None:
    assert ACTING == "deploy/iam-policy-act.json"
    assert (ROOT / ACTING).read_text() == policy_text(file=ACTING)
    allowed = {name for _, x in statements(ACTING) for name in x["Action"]}
    assert allowed == {declared.action for declared in changing().values()}
    assert not [name for name in allowed if name.startswith(("ce:", "s3:", "athena:", "iam:"))]
