"""Change the fleet: EC2, EKS, SageMaker and the Kubernetes API, under roles of their own."""

from __future__ import annotations

import base64
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import orjson
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest

from adapters.aws.api.calls import Calls, NoData
from adapters.aws.api.operations import Place, partition_of
from bot.errors import Refused, Unavailable, WrongInput
from bot.model.action import Action, ActionKind, ActionState, Progress
from bot.model.money import counted

_TOKEN_S = 60
"""How long the address that proves who asks the Kubernetes API is good for (EKS allows 15 min)."""
_TIMEOUT_S = 30
_RUNNING = ("pending", "running")
_PAGE = 500
"""Nodes asked for at once, as kubectl does."""


class Actor:
    """Implement `bot.ports.Actions`; `roles` are ARNs, one an account.

    Where a role of an account is missing it does nothing there.
    """

    def __init__(self, calls: Calls, roles: Sequence[str]) -> None:
        self._calls = calls
        self._roles = {role.split(":")[4]: role for role in roles}

    def rehearse(self, action: Action) -> Sequence[str]:
        """Return a sentence for each call that the action would make, and change nothing."""
        return list(self._task(action).rehearse())

    def advance(self, action: Action) -> Progress:
        """Take the next step that is still needed, and return how far it is."""
        return self._task(action).advance()

    def _task(self, action: Action) -> Task:
        account, region = action.place.account, action.place.region
        role = self._roles.get(account, "")
        if not role or not region:
            place = f"account {account}" if account else "an account that is not known"
            raise Refused(
                f"No role may change anything in {place}; TRNBOT_ACT_ROLES names those that may."
            )
        return _TASKS[action.kind](
            self._calls, Place(region, role, account, action.session), action
        )


class Task(ABC):
    """Carry one action out, from whatever the provider says of its things now."""

    def __init__(self, calls: Calls, place: Place, action: Action) -> None:
        self._calls, self._place, self._action = calls, place, action

    @abstractmethod
    def rehearse(self) -> Iterator[str]:
        """Yield a sentence for each call that would be made."""

    @abstractmethod
    def advance(self) -> Progress:
        """Take the next step."""

    def ask(self, service: str, operation: str, **parameters: Any) -> Mapping[str, Any]:
        """Return one answer; raise `Unavailable`."""
        return self._calls.call(self._place, service, operation, **parameters)

    def dry(self, operation: str, **parameters: Any) -> None:
        """Have EC2 say whether it would do it; raise `Unavailable` where it would not."""
        # It answers a dry run that is allowed with an error of its own.
        with suppress(NoData):
            self.ask("ec2", operation, DryRun=True, **parameters)

    def instances(self, wanted: Mapping[str, Sequence[str]]) -> list[Mapping[str, Any]]:
        """Return the instances that pass EC2's filters."""
        filters = [{"Name": name, "Values": list(values)} for name, values in wanted.items()]
        return [
            instance
            for page in self._calls.pages(self._place, "ec2", "describe_instances", Filters=filters)
            for reservation in page["Reservations"]
            for instance in reservation["Instances"]
        ]


class StopTask(Task):
    """Stop instances."""

    def rehearse(self) -> Iterator[str]:
        """Have EC2 say whether it would stop them."""
        self.dry("stop_instances", InstanceIds=list(self._action.targets))
        yield f"EC2 tried it dry: it would stop {counted(len(self._action.targets), 'instance')}."

    def advance(self) -> Progress:
        """Stop those that run; it worked once none does."""
        states = {
            x["InstanceId"]: x["State"]["Name"]
            for x in self.instances({"instance-id": self._action.targets})
        }
        running = [name for name, state in states.items() if state in _RUNNING]
        if again := [name for name in running if name in self._action.ordered]:
            return Progress(
                ActionState.FAILED, f"{', '.join(again)} was started again, and is left alone."
            )
        if running:
            self.ask("ec2", "stop_instances", InstanceIds=running)
            return Progress(
                ActionState.UNDER_WAY,
                f"EC2 was asked to stop {', '.join(running)}.",
                tuple(running),
            )
        if missing := [name for name in self._action.targets if name not in states]:
            return Progress(ActionState.FAILED, f"EC2 does not know {', '.join(missing)}.")
        if stopping := [name for name, state in states.items() if state.endswith("ing")]:
            return Progress(ActionState.UNDER_WAY, f"{', '.join(stopping)}: still stopping.")
        words = "; ".join(
            f"{reached}: {', '.join(name for name, state in states.items() if state == reached)}"
            for reached in dict.fromkeys(states.values())
        )
        return Progress(ActionState.WORKED, f"EC2 says {words}.")


class ScaleTask(Task):
    """Give a managed node group another number of nodes."""

    def rehearse(self) -> Iterator[str]:
        """Say the number now and then; raise `WrongInput` where the group's limits forbid it."""
        scaling, size = self._group()["scalingConfig"], self._action.size
        least, most = scaling["minSize"], scaling["maxSize"]
        self._refuse_change(scaling["desiredSize"])
        if size is None or not least <= size <= most:
            raise WrongInput(
                f"The group {self._action.targets[0]} may have {least} to {most} nodes; change its"
                " limits first.",
                "nodes",
            )
        yield f"EKS would change its desired size from {scaling['desiredSize']} to {size}."

    def advance(self) -> Progress:
        """Set the number where it is another; it worked once so many nodes run."""
        desired, size = self._group()["scalingConfig"]["desiredSize"], self._action.size
        cluster, name = self._names
        if desired != size and self._action.ordered:
            return Progress(
                ActionState.FAILED,
                f"Its desired size is {desired} now: somebody changed it, so it is left alone.",
            )
        if desired != size:
            self._refuse_change(desired)
            self.ask(
                "eks",
                "update_nodegroup_config",
                clusterName=cluster,
                nodegroupName=name,
                scalingConfig={"desiredSize": size},
            )
            return Progress(
                ActionState.UNDER_WAY,
                f"EKS was asked for {counted(size or 0, 'node')}.",
                self._action.targets,
            )

        tags = {"tag:eks:cluster-name": [cluster], "tag:eks:nodegroup-name": [name]}
        running = [x for x in self.instances(tags) if x["State"]["Name"] in _RUNNING]
        return Progress(
            ActionState.WORKED if len(running) == size else ActionState.UNDER_WAY,
            f"The group has {counted(len(running), 'running node')}, {size} wanted.",
        )

    def _refuse_change(self, desired: int) -> None:
        """Raise `Refused` where the group is to have another number than when it was weighed."""
        if desired != self._action.before:
            raise Refused(
                f"The desired size of {self._action.targets[0]} is {desired}, and was"
                f" {self._action.before} when this was prepared; nothing was changed."
            )

    @property
    def _names(self) -> tuple[str, str]:
        cluster, _, name = self._action.targets[0].rpartition("/")
        return cluster, name

    def _group(self) -> Mapping[str, Any]:
        cluster, name = self._names
        answer = self.ask("eks", "describe_nodegroup", clusterName=cluster, nodegroupName=name)
        return dict(answer["nodegroup"])


class DeleteTask(Task):
    """Delete volumes, each once a snapshot of it is whole."""

    def rehearse(self) -> Iterator[str]:
        """Have EC2 say whether it would snapshot and delete them."""
        for volume in self._action.targets:
            self.dry("create_snapshot", VolumeId=volume)
            self.dry("delete_volume", VolumeId=volume)
        count = counted(len(self._action.targets), "volume")
        yield f"EC2 tried it dry: it would snapshot {count}, and then delete what is copied."

    def advance(self) -> Progress:
        """Take each volume a step further; it worked once all are gone."""
        filters = [{"Name": "volume-id", "Values": list(self._action.targets)}]
        volumes = self.ask("ec2", "describe_volumes", Filters=filters)["Volumes"]
        if attached := [x["VolumeId"] for x in volumes if x["State"] == "in-use"]:
            return Progress(
                ActionState.FAILED,
                f"{', '.join(attached)} is attached again: nothing more is deleted.",
            )
        if volumes:
            words = " ".join(map(self._step, volumes))
            return Progress(ActionState.UNDER_WAY, words, self._action.targets)

        if lost := [name for name in self._action.targets if not self._snapshots(name)]:
            return Progress(
                ActionState.FAILED, f"{', '.join(lost)} is gone, without a snapshot by the bot."
            )
        count = counted(len(self._action.targets), "volume is", "volumes are")
        return Progress(ActionState.WORKED, f"{count} deleted; the snapshots stay.")

    def _note(self, volume: str) -> str:
        """Return the text by which a snapshot that was begun before is known again."""
        return f"trnbot {self._action.id}: before {volume} is deleted"

    def _snapshots(self, volume: str) -> list[Mapping[str, Any]]:
        """Return the snapshots that this action made of a volume, but those that failed."""
        filters = [{"Name": "description", "Values": [self._note(volume)]}]
        answer = self.ask("ec2", "describe_snapshots", OwnerIds=["self"], Filters=filters)
        return [x for x in answer["Snapshots"] if x["State"] != "error"]

    def _step(self, volume: Mapping[str, Any]) -> str:
        """Snapshot a volume, wait for the snapshot, or delete the volume."""
        name = volume["VolumeId"]
        if not (snapshots := self._snapshots(name)):
            self.ask("ec2", "create_snapshot", VolumeId=name, Description=self._note(name))
            return f"A snapshot of {name} is being made."
        if not any(x["State"] == "completed" for x in snapshots):
            return f"The snapshot of {name} is at {snapshots[0].get('Progress') or '0%'}."
        if volume["State"] == "available":
            self.ask("ec2", "delete_volume", VolumeId=name)
        return f"{name} is being deleted."


class NotebookTask(Task):
    """Stop a notebook instance."""

    def rehearse(self) -> Iterator[str]:
        """Say that the notebook runs; raise `WrongInput` where it does not run."""
        name, status = self._action.targets[0], self._status()
        if status != "InService":
            raise WrongInput(f"The notebook {name} is not running: SageMaker says {status}.")
        yield f"SageMaker would stop the notebook {name}; its volume stays."

    def advance(self) -> Progress:
        """Stop it where it runs; it worked once it is stopped."""
        name, status = self._action.targets[0], self._status()
        if status == "InService" and self._action.ordered:
            return Progress(ActionState.FAILED, f"{name} was started again, and is left alone.")
        if status == "InService":
            self.ask("sagemaker", "stop_notebook_instance", NotebookInstanceName=name)
            return Progress(
                ActionState.UNDER_WAY, f"SageMaker was asked to stop {name}.", self._action.targets
            )
        done = status in ("Stopped", "Failed", "Deleting")
        return Progress(
            ActionState.WORKED if done else ActionState.UNDER_WAY,
            f"SageMaker says {status} of {name}.",
        )

    def _status(self) -> str:
        answer = self.ask(
            "sagemaker", "describe_notebook_instance", NotebookInstanceName=self._action.targets[0]
        )
        return str(answer["NotebookInstanceStatus"])


class CordonTask(Task):
    """Keep new pods from nodes of an EKS cluster."""

    def rehearse(self) -> Iterator[str]:
        """Have the Kubernetes API say whether it would cordon them."""
        api = self._api()
        for instance, node in self._nodes(api).items():
            name = node["metadata"]["name"]
            api.patch(f"/api/v1/nodes/{name}?dryRun=All", {"spec": {"unschedulable": True}})
            yield f"Kubernetes would place no new pod on {name} ({instance}); running pods continue."

    def advance(self) -> Progress:
        """Cordon those that still take pods; it worked once none does."""
        api = self._api()
        nodes = self._nodes(api).values()
        taking = [
            x["metadata"]["name"] for x in nodes if not x.get("spec", {}).get("unschedulable")
        ]
        if taking and self._action.ordered:
            return Progress(
                ActionState.FAILED, f"{', '.join(taking)} takes pods again, so it is left alone."
            )
        for name in taking:
            api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
        if taking:
            return Progress(
                ActionState.UNDER_WAY,
                f"Kubernetes was asked to cordon {', '.join(taking)}.",
                self._action.targets,
            )
        count = counted(len(nodes), "node takes", "nodes take")
        return Progress(ActionState.WORKED, f"{count} no new pod.")

    def _api(self) -> KubernetesApi:
        name = self._action.place.cluster
        cluster = self.ask("eks", "describe_cluster", name=name)["cluster"]
        return KubernetesApi(
            cluster["endpoint"],
            cluster.get("certificateAuthority", {}).get("data", ""),
            cluster_token(self._calls, self._place, name),
        )

    def _nodes(self, api: KubernetesApi) -> dict[str, Mapping[str, Any]]:
        """Return the Kubernetes node of each target; raise `WrongInput` where one has none."""
        nodes = {
            target: node
            for node in api.nodes()
            for target in self._action.targets
            if str(node.get("spec", {}).get("providerID", "")).endswith(f"/{target}")
        }
        if missing := [target for target in self._action.targets if target not in nodes]:
            raise WrongInput(
                f"{self._action.place.cluster} has no Kubernetes node for {', '.join(missing)}."
            )
        return nodes


def cluster_token(calls: Calls, place: Place, cluster: str) -> str:
    """Return the token by which a role proves itself to a cluster of EKS.

    An address of STS signed with the cluster's name, as `aws eks get-token` makes it (EKS User
    Guide, cluster authentication).
    """
    end = ".cn" if partition_of(place.region) == "aws-cn" else ""
    request = AWSRequest(
        "GET",
        f"https://sts.{place.region}.amazonaws.com{end}/",
        headers={"x-k8s-aws-id": cluster},
        params={"Action": "GetCallerIdentity", "Version": "2011-06-15"},
    )
    signer = SigV4QueryAuth(calls.credentials(place), "sts", place.region, expires=_TOKEN_S)
    signer.add_auth(request)
    address = base64.urlsafe_b64encode(str(request.prepare().url).encode()).decode()
    return f"k8s-aws-v1.{address.rstrip('=')}"


class KubernetesApi:
    """Ask the Kubernetes API of one cluster; `authority` is its certificate, base64 as EKS says it."""

    def __init__(self, url: str, authority: str, token: str) -> None:
        self._url, self._token = url.rstrip("/"), token
        certificate = base64.b64decode(authority).decode() or None
        self._context = ssl.create_default_context(cadata=certificate)
        # Certificates of older clusters lack what a strict check asks for (Python 3.13 and later).
        self._context.verify_flags &= ~ssl.VERIFY_X509_STRICT

    def nodes(self) -> Iterator[Mapping[str, Any]]:
        """Yield every node, page by page."""
        token = ""
        while True:
            page = self._ask("GET", f"/api/v1/nodes?limit={_PAGE}&continue={quote(token)}")
            yield from page.get("items", ())
            token = str(page.get("metadata", {}).get("continue", ""))
            if not token:
                return

    def patch(self, path: str, change: Mapping[str, Any]) -> None:
        """Change an object; raise `Unavailable` where that is refused."""
        self._ask("PATCH", path, orjson.dumps(change))

    def _ask(self, method: str, path: str, body: bytes = b"") -> Mapping[str, Any]:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        if body:
            headers["Content-Type"] = "application/strategic-merge-patch+json"
        request = Request(self._url + path, body or None, headers, method=method)  # noqa: S310
        try:
            with urlopen(request, timeout=_TIMEOUT_S, context=self._context) as response:  # noqa: S310
                return dict(orjson.loads(response.read()))
        except HTTPError as error:
            if error.code in (401, 403):
                raise Refused(
                    f"The Kubernetes API refused it (HTTP {error.code}); give the acting role an"
                    " access entry that may get, list and patch nodes."
                ) from None
            raise Unavailable(f"The Kubernetes API answered HTTP {error.code}.") from None
        except (OSError, ValueError, HTTPException) as error:
            raise Unavailable(
                f"The Kubernetes API of the cluster gave no answer ({type(error).__name__})."
            ) from None


_TASKS: Mapping[ActionKind, Callable[[Calls, Place, Action], Task]] = {
    ActionKind.STOP: StopTask,
    ActionKind.SCALE: ScaleTask,
    ActionKind.DELETE: DeleteTask,
    ActionKind.CORDON: CordonTask,
    ActionKind.NOTEBOOK: NotebookTask,
}
