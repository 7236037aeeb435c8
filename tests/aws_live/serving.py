"""Speak AWS's protocols over HTTP for a stand-in: JSON, query, REST of EKS and S3, each as botocore reads them."""

from __future__ import annotations

import json
import re
import socket
import struct
import sys
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit

from tests.aws_live.costs import NoData
from tests.aws_live.faults import error_of
from tests.aws_live.grouped import NoGroup
from tests.aws_live.serialize import body_of, validated

if TYPE_CHECKING:
    from tests.aws_live.standin import StandIn


ACCOUNT = "111122223333"
BUCKET = "billing-exports"
STREAM = "metric-streams"
PAGE_OF_KEYS = 20
_SCOPE = re.compile(r"Credential=(\w+)/\d+/([\w-]+)/([\w-]+)/")
_SERVICES = {"monitoring": "cloudwatch", "servicequotas": "service-quotas"}
_EKS = (
    (re.compile(r"/clusters"), "ListClusters", ()),
    (re.compile(r"/clusters/([^/]+)"), "DescribeCluster", ("about",)),
    (re.compile(r"/clusters/([^/]+)/node-groups"), "ListNodegroups", ("about",)),
    (re.compile(r"/clusters/([^/]+)/node-groups/([^/]+)"), "DescribeNodegroup", ("about", "group")),
)
"""EKS names its operations by path."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay quiet about connections that were reset on purpose."""
        if not isinstance(sys.exception(), ConnectionError) and not self.quiet(sys.exception()):
            super().handle_error(request, client_address)

    @staticmethod
    def quiet(error: BaseException | None) -> bool:
        return isinstance(error, ValueError) and "closed file" in str(error)


class Handler(BaseHTTPRequestHandler):
    world: StandIn
    _cut = False
    """Whether the answer breaks off half way."""
    protocol_version = "HTTP/1.1"
    # An answer is one write, sent at once: held back for an acknowledgement, each takes 40 ms more.
    wbufsize, disable_nagle_algorithm = -1, True

    def log_message(self, *_: Any) -> None:
        """Stay quiet."""

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def _serve(self, body: bytes) -> None:
        found = _SCOPE.search(self.headers.get("Authorization", ""))
        if "/api/v1/" in self.path:
            return self._promql(body, *(found.groups() if found else ("", "", "prometheus")))
        if not found:
            return self._send(
                403, b"<Error><Code>MissingAuthenticationToken</Code></Error>", "text/xml"
            )
        key, region, signed = found.groups()
        service = _SERVICES.get(signed, signed)
        operation, given = self._asked(service, body)
        action = f"{service.replace('-', '')}:{operation.removesuffix('Batch')}"  # IAM allows a batch as the single call
        account = key.removeprefix("ASIA") if key.startswith("ASIA") else ACCOUNT
        fault = self.world.faults.of(action, account, region, given)
        if fault:
            self.world.failed[fault] += 1
            if fault != "truncated":
                return self._fail(service, fault)
            self._cut = True
        else:
            self.world.called[action] += 1
        if service == "s3":
            return self._s3(operation, given)
        try:
            answer = validated(
                service, operation, self.world.answer(service, operation, region, key, given)
            )
        except NoGroup:
            return self._send(
                400, b'{"__type": "ResourceNotFoundException"}', "application/x-amz-json-1.1"
            )
        except NoData:
            return self._send(
                400, b'{"__type": "DataUnavailableException"}', "application/x-amz-json-1.0"
            )
        self._send(200, *body_of(service, operation, answer, self.world.shift))
        return None

    def _promql(self, body: bytes, key: str, region: str, signed: str) -> None:
        """Answer by PromQL: CloudWatch's OTel store where the call is signed, else a Prometheus that scrapes the exporter."""
        url = urlsplit(self.path)
        operation = "GetLabels" if "/label/" in url.path else "QueryMetrics"
        action = f"{_SERVICES.get(signed, signed)}:{operation}"
        fault = self.world.faults.of(
            action, key.removeprefix("ASIA") if key.startswith("ASIA") else ACCOUNT, region, {}
        )
        if fault:
            self.world.failed[fault] += 1
            if fault != "truncated":
                return self._fail("promql", fault)
            self._cut = True
        else:
            self.world.called[action] += 1
        given = parse_qs(body.decode() or url.query)
        answer = self.world.query(signed, region, url.path, given)
        return self._send(200, json.dumps(answer).encode(), "application/json")

    def _asked(self, service: str, body: bytes) -> tuple[str, dict[str, Any]]:
        if service == "s3":
            url = urlsplit(self.path)
            return ("ListBucket" if url.path.strip("/") in (BUCKET, STREAM) else "GetObject"), dict(
                parse_qsl(url.query)
            ) | {"path": unquote(url.path)}
        if service == "eks":
            path = urlsplit(self.path).path
            return next(
                (name, dict(zip(says, match.groups(), strict=True)))
                for of, name, says in _EKS
                if (match := of.fullmatch(path))
            )
        if service == "savingsplans":
            return urlsplit(self.path).path.strip("/"), json.loads(body)
        if target := self.headers.get("X-Amz-Target"):
            return target.rpartition(".")[2], json.loads(body or b"{}")
        form = dict(parse_qsl(body.decode()))
        return form["Action"], form

    def _fail(self, service: str, fault: str) -> None:
        if fault == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return None
        return self._send(*error_of(service, fault))

    def _s3(self, operation: str, given: dict[str, Any]) -> None:
        root = self.world.folder
        if given["path"].startswith(f"/{STREAM}"):
            return self._stream(operation, given)
        if operation == "ListBucket":
            prefix = given.get("prefix", "")
            files = [
                p
                for p in sorted((root / "billing").rglob("*"))
                if p.is_file() and p.relative_to(root).as_posix().startswith(prefix)
            ]
            rows = "".join(
                f"<Contents><Key>{p.relative_to(root).as_posix()}</Key><Size>{p.stat().st_size}</Size>"
                f"<ETag>&quot;{_etag(p)}&quot;</ETag><LastModified>2026-11-20T00:00:00.000Z</LastModified></Contents>"
                for p in files
            )
            text = f"<ListBucketResult><KeyCount>{len(files)}</KeyCount><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"
            return self._send(200, text.encode(), "application/xml")
        if "kms:Decrypt" in self.world.faults.denied:
            sealed = (
                f"User: arn:aws:iam::{ACCOUNT}:user/bot is not authorized to perform: kms:Decrypt"
                " on the resource associated with this ciphertext"
            )
            error = f"<Error><Code>AccessDenied</Code><Message>{sealed}</Message></Error>"
            return self._send(403, error.encode(), "application/xml")
        path = root / given["path"].removeprefix(f"/{BUCKET}/")
        self._send(200, path.read_bytes(), "application/octet-stream", {"ETag": f'"{_etag(path)}"'})
        return None

    def _stream(self, operation: str, given: dict[str, Any]) -> None:
        objects, now = self.world.objects, self.world.clock()
        if operation == "GetObject":
            return self._send(
                200,
                objects[given["path"].removeprefix(f"/{STREAM}/")][0],
                "application/octet-stream",
            )
        prefix = given.get("prefix", "")
        keys = sorted(
            key for key in objects if key.startswith(prefix) and key > given.get("start-after", "")
        )
        folders = sorted(
            {
                prefix + rest.split("/")[0] + "/"
                for key in keys
                if "/" in (rest := key.removeprefix(prefix))
            }
        )
        begin = int(given.get("continuation-token", 0))
        page = [] if given.get("delimiter") else keys[begin : begin + PAGE_OF_KEYS]
        more = not given.get("delimiter") and begin + PAGE_OF_KEYS < len(keys)
        rows = "".join(
            f"<Contents><Key>{key}</Key><Size>{len(objects[key][0])}</Size><ETag>&quot;e&quot;</ETag>"
            f"<LastModified>{objects[key][1]:%Y-%m-%dT%H:%M:%S.000Z}</LastModified></Contents>"
            for key in page
            if objects[key][1] <= now
        )
        rows += "".join(
            f"<CommonPrefixes><Prefix>{x}</Prefix></CommonPrefixes>"
            for x in folders
            if given.get("delimiter")
        )
        token = (
            f"<NextContinuationToken>{begin + PAGE_OF_KEYS}</NextContinuationToken>" if more else ""
        )
        truncated = str(more).lower()
        text = f"<ListBucketResult><KeyCount>{len(page)}</KeyCount><IsTruncated>{truncated}</IsTruncated>{token}{rows}</ListBucketResult>"
        self._send(200, text.encode(), "application/xml")
        return None

    def _send(
        self, status: int, body: bytes, kind: str, more: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            **(more or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self._cut:
            body, self.close_connection = body[: len(body) // 2], True
        self.wfile.write(body)


def _etag(path: Path) -> str:
    return md5(path.read_bytes(), usedforsecurity=False).hexdigest()
