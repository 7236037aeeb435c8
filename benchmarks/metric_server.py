"""Serve GetMetricData on loopback from a process of its own, so that a benchmark times the reader alone."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from typing import Any

Answer = Callable[[dict[str, Any]], bytes]
"""Gives the body of the answer to a request; a function of a module, as another process calls it."""


@contextmanager
def served(answer: Answer) -> Iterator[None]:
    """Let boto3 ask there, in this process, for as long as this lasts."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(answer, theirs), daemon=True
    )
    server.start()
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{ours.recv()}",
        "AWS_ACCESS_KEY_ID": "A",
        "AWS_SECRET_ACCESS_KEY": "s",
    }
    yield
    server.terminate()


def _serve(answer: Answer, connection: Connection) -> None:
    handler = type("Handler", (_Handler,), {"answer": staticmethod(answer)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    connection.send(server.server_port)
    server.serve_forever()


class _Handler(BaseHTTPRequestHandler):
    """Answer each request with what `answer` gives."""

    protocol_version = "HTTP/1.1"
    answer: Answer

    def do_POST(self) -> None:
        body = self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""
