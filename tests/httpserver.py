"""Real HTTP servers for fault drills: for files, with and without faults, and for scripted answers."""

from __future__ import annotations

import json
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Server(ThreadingHTTPServer):
    """A server with a backlog for all connections that a driver opens at once; the default of 5 would drop some."""

    request_queue_size = 512
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore lost connections: the tracebacks of hundreds of killed clients would hide that of the test."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serving(handler: Callable[..., BaseHTTPRequestHandler], certificate: Path | None = None) -> Iterator[str]:
    """Serve on a free loopback port, and yield the address. certificate: file of a certificate and key, for https."""
    server = Server(("127.0.0.1", 0), handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        # Each connection's thread does the handshake, so that a failed one does not end the server.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"{'http' if certificate is None else 'https'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class Quiet(BaseHTTPRequestHandler):
    """Request handler that writes no log line for each request."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def send(self, status: int, body: bytes, **headers: str) -> None:
        """Send a complete response."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def is_left(self) -> bool:
        """Return True if the client has disconnected. It must be called after its request was read completely."""
        try:
            return self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except ConnectionError:
            return True


class Folder(SimpleHTTPRequestHandler):
    """Request handler that serves the files of a folder without faults."""

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


class Files(Quiet):
    """Request handler that serves `body` with the fault that the path names, and records the Range of every request."""

    body = b""
    ranges: list[str | None] = []
    failures = 0

    def do_GET(self) -> None:
        kind = self.path.strip("/")
        range_header = self.headers.get("Range")
        type(self).ranges.append(range_header)
        start = int(range_header.removeprefix("bytes=").rstrip("-")) if range_header else 0
        if kind == "missing":
            self.send(404, b"no such file")
        elif kind == "altered":
            self.send(200, self.body.replace(b"greenhouse", b"glasshouse", 1))
        elif kind == "short":
            self.send(200, self.body[:-200])
        elif kind == "no-ranges":
            self.send(200, self.body)
        elif kind == "busy-twice" and type(self).failures < 2:
            type(self).failures += 1
            self.send(503, b"busy")
        elif start >= len(self.body):
            self.send(416, b"")
        else:
            self.partly(kind, start)

    def partly(self, kind: str, start: int) -> None:
        """Send the bytes from `start`; some kinds of fault stop before the end."""
        rest = self.body[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(rest)))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(self.body) - 1}/{len(self.body)}")
        self.end_headers()
        if kind == "breaks":
            rest, self.close_connection = rest[: max(1, len(rest) // 2)], True
        if kind == "always-breaks":
            rest, self.close_connection = (b"" if start else rest[:10]), True
        self.wfile.write(rest[:100])
        self.wfile.flush()
        if kind == "slow" and not start:
            time.sleep(1.5)
        self.wfile.write(rest[100:])


Script = Callable[[int, dict[str, Any]], tuple[int, Any, dict[str, str]]]


def scripted(script: Script, models: Sequence[str] = ()) -> type[Quiet]:
    """Return a handler that answers the n-th POST with `script(n, request)`: status, body, headers.

    The handler records all requests. models: the names that it lists.
    """

    class Handler(Quiet):
        requests: list[tuple[float, str, dict[str, Any]]] = []
        lock = threading.Lock()
        authorization: list[str | None] = []

        def do_GET(self) -> None:
            models_page = {"data": [{"id": name} for name in models]}
            self.send(200, json.dumps(models_page).encode(), Content_Type="application/json")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.is_left():  # the client was killed before its request was read
                self.close_connection = True
                return
            with self.lock:
                number = len(self.requests)
                self.requests.append((time.monotonic(), self.path, body))
                self.authorization.append(self.headers.get("Authorization"))
            status, answer, headers = script(number, body)
            if status == 0:  # status 0 drops the connection
                self.close_connection = True
                return
            text = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send(status, text, Content_Type="application/json", **headers)

    return Handler


def completion(text: str) -> dict[str, Any]:
    """Return the body of a completions response."""
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    choice = {"index": 0, "text": text, "finish_reason": "stop", "logprobs": None}
    return {"id": "1", "object": "text_completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


def chat(message: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a chat response."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
