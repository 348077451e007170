"""Scripted endpoint with a batch API in OpenAI's form: files, batches, output files and error files.

It answers requests in batches and single requests alike, so that the results of both can be compared.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from httpserver import Quiet

Lines = list[dict[str, Any]]
Answering = Callable[[dict[str, Any]], tuple[int, Any]]  # body of a request -> status and body of its response


def echo(body: dict[str, Any]) -> tuple[int, Any]:
    """Answer with a text that depends on the whole request."""
    prompt = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    text = f"answer to {str(prompt)[-40:]} \u2028 {body.get('seed', 0)}"
    choice = {"text": text} if "prompt" in body else {"message": {"role": "assistant", "content": text}}
    return 200, {
        "id": "1",
        "model": body["model"],
        "usage": usage,
        "choices": [{"index": 0, "finish_reason": "stop", **choice}],
    }


def output_line(key: str, status: int, body: Any) -> dict[str, Any]:
    """Return a line about a request that was processed."""
    return {
        "id": "same",
        "custom_id": key,
        "response": {"status_code": status, "request_id": "r", "body": body},
        "error": None,
    }


def error_line(key: str, code: str) -> dict[str, Any]:
    """Return a line about a request that was not processed."""
    return {"id": "same", "custom_id": key, "response": None, "error": {"code": code, "message": "not executed"}}


class BatchServer:
    """State of the endpoint, and what it does.

    answer: function that answers a request; looks: number of looks at a batch before it has ended; edit: changes a
    batch that has ended, with its output lines and its error lines; submitting: called with the number of each
    submission, before it is accepted if it returns `before` (the connection is dropped), after it if it returns
    `after`, `504 too long` or `null`; `hold`: the answer is delayed until `released` is set; an integer is a status with which it is refused.
    """

    def __init__(self, answer: Answering = echo, looks: int = 0) -> None:
        self.answer, self.looks = answer, looks
        self.edit: Callable[[dict[str, Any], Lines, Lines], tuple[Lines, Lines]] = lambda batch, out, bad: (out, bad)
        self.submitting: Callable[[int], str | int | None] = lambda number: None
        self.failure: Callable[[int], dict[str, Any] | None] = lambda number: None  # error of a whole batch
        self.released = threading.Event()
        self.held = threading.Semaphore(0)
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.submissions = self.live = self.uploads = self.listings = 0
        self.submitted: Counter[str] = Counter()  # number of accepted batches that contain each request
        self.answered: Counter[str] = Counter()  # number of answers given in batches to each request
        self.bodies: dict[str, dict[str, Any]] = {}
        self.lock = threading.RLock()

    def lines_of(self, batch: dict[str, Any]) -> Lines:
        """Return the requests of a batch."""
        return [json.loads(line) for line in self.files[batch["input_file_id"]].split(b"\n") if line]

    def end(self, batch: dict[str, Any], status: str = "completed") -> None:
        """End a batch: answer its requests, in the opposite order."""
        output: Lines = []
        errors: Lines = []
        for line in reversed(self.lines_of(batch)):
            code, body = self.answer(line["body"])
            (output if code == 200 else errors).append(output_line(line["custom_id"], code, body))
        batch["status"] = status
        output, errors = self.edit(batch, output, errors)
        for line in output:
            if isinstance(line, dict) and "custom_id" in line:
                self.answered[line["custom_id"]] += 1
        for name, lines in (("output_file_id", output), ("error_file_id", errors)):
            file = f"file-{name[:3]}-{batch['id']}"
            self.files[file] = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)
            batch[name] = file if lines else "" if name == "error_file_id" else None
        batch["request_counts"] = {"total": len(output) + len(errors), "completed": len(output), "failed": 0}

    def end_all(self) -> None:
        """End all batches."""
        with self.lock:
            for batch in self.batches.values():
                if batch["status"] == "in_progress":
                    self.end(batch)

    def handler(self) -> type[Quiet]:
        """Return the request handler."""
        state = self

        class Handler(Quiet):
            def do_GET(self) -> None:
                state.get(self)

            def do_POST(self) -> None:
                state.post(self)

        return Handler

    def get(self, request: Quiet) -> None:
        """Answer a GET request: models, the list of batches, a batch, or a file's content."""
        address = urlsplit(request.path)
        place, query = address.path.removeprefix("/v1/"), parse_qs(address.query)
        with self.lock:
            if place == "models":
                return respond(request, 200, {"data": []})
            if place == "batches":
                self.listings += 1
                return respond(request, 200, self.page(query))
            if place_named := re.fullmatch(r"files/(.+)/content", place):
                content = self.files.get(place_named[1])
                return request.send(404, b"{}") if content is None else request.send(200, content)
            batch = self.batches.get(place.removeprefix("batches/"))
            if batch is None:
                return respond(request, 404, {"error": {"message": f"no {place}"}})
            batch["looks"] += 1
            if batch["status"] == "cancelling":
                self.end(batch, "cancelled")
            elif batch["status"] == "in_progress" and batch["looks"] > self.looks:
                self.end(batch)
            return respond(request, 200, batch)

    def page(self, query: dict[str, list[str]]) -> dict[str, Any]:
        """Return a page of the list of batches, the newest first, of at most three batches."""
        newest = list(reversed(self.batches.values()))
        if after := query.get("after"):
            names = [batch["id"] for batch in newest]
            newest = newest[names.index(after[0]) + 1 :]
        return {"object": "list", "data": newest[:3], "has_more": len(newest) > 3}

    def post(self, request: Quiet) -> None:
        """Answer a POST request: an upload, a submission, a cancellation, or a single request."""
        body = body_of(request)
        place = request.path.removeprefix("/v1/")
        if place == "files":
            with self.lock:
                self.uploads += 1
                name = f"file-in-{self.uploads}"
                self.files[name] = uploaded(request.headers["Content-Type"], body)
            return respond(request, 200, {"id": name, "object": "file", "purpose": "batch", "status": "processed"})
        if place == "batches":
            return self.submit(request, json.loads(body))
        if place_named := re.fullmatch(r"batches/(.+)/cancel", place):
            with self.lock:
                self.batches[place_named[1]]["status"] = "cancelling"
            return respond(request, 200, self.batches[place_named[1]])
        with self.lock:
            self.live += 1
        return respond(request, *self.answer(json.loads(body)))

    def submit(self, request: Quiet, body: dict[str, Any]) -> None:
        """Accept a batch, as `submitting` demands."""
        with self.lock:
            self.submissions += 1
            number = self.submissions
            action = self.submitting(number)
        if isinstance(action, int):
            return respond(request, action, {"error": {"message": "not now"}})
        if action == "before":
            request.close_connection = True
            return None
        with self.lock:
            name = f"batch_{number}"
            batch = {
                "id": name, "object": "batch", "status": "in_progress", "created_at": int(time.time()), "looks": 0, **body,
                "output_file_id": None, "error_file_id": None, "errors": None,
            }  # fmt: skip
            if (failure := self.failure(number)) is not None:
                batch |= {"status": "failed", "errors": {"object": "list", "data": [failure]}}
            self.batches[name] = batch
            lines = self.lines_of(batch)
            assert len({line["custom_id"] for line in lines}) == len(lines), "a batch contains a request twice"
            assert {line["url"] for line in lines} == {body["endpoint"]} and body["completion_window"] == "24h"
            if failure is None:
                for line in lines:
                    self.submitted[line["custom_id"]] += 1
                    self.bodies[line["custom_id"]] = line["body"]
        if action == "after":
            request.close_connection = True
            return None
        if action == "504 too long":  # words of a refusal of one request, from a proxy
            return respond(request, 504, {"error": {"message": "the request took too long"}})
        if action == "null":
            return respond(request, 200, None)
        if action == "hold":
            self.held.release()
            self.released.wait(30)
        return respond(request, 200, batch)


def respond(request: Quiet, status: int, content: Any) -> None:
    """Send a JSON body."""
    request.send(status, json.dumps(content, ensure_ascii=False).encode(), Content_Type="application/json")


def body_of(request: Quiet) -> bytes:
    """Return the body of a request."""
    if "Content-Length" in request.headers:
        return request.rfile.read(int(request.headers["Content-Length"]))
    return chunks(request)


def chunks(request: Quiet) -> bytes:
    """Return a body in chunked encoding."""
    parts = []
    while size := int(request.rfile.readline(), 16):
        parts.append(request.rfile.read(size))
        request.rfile.readline()
    request.rfile.readline()
    return b"".join(parts)


def uploaded(content_type: str, body: bytes) -> bytes:
    """Return the file in a multipart form."""
    boundary = re.search(r'boundary="?([^";]+)', content_type)
    assert boundary is not None
    for part in body.split(b"--" + boundary[1].encode()):
        head, _, content = part.partition(b"\r\n\r\n")
        if b'name="file"' in head:
            return content.removesuffix(b"\r\n")
    raise AssertionError("no file in the form")
