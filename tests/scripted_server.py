"""Scripted endpoint that is fast enough for the papers' scale.

A tutor's answer depends only on its name and on the prompt. A judge's answer is generated from the JSON schema in the
request. Run it as a separate process, `python scripted_server.py`, which prints its port.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
PHRASES = (
    "Let us look at the second step together. What do you get when you multiply the number of boxes by 12?",
    "Good start! Can you tell me how many were left after the first day?",
    "Therefore the total is {a} and she has {b} left.\nThe answer is {a}.",
    "Step {c} is wrong: {a} should be {b}.",
    "First we add {a} and {b}, then we take half of it.\nWhat is {a} plus {b}?\nHow many are left?",
)


def schema_answer(schema: dict[str, Any], seed: int) -> Any:
    """Return an instance of a JSON schema, with values that `seed` selects."""
    if "enum" in schema:
        return schema["enum"][seed % len(schema["enum"])]
    if "const" in schema:
        return schema["const"]
    if "anyOf" in schema:
        return schema_answer(schema["anyOf"][seed % len(schema["anyOf"])], seed)
    kind = schema.get("type")
    if kind == "object":
        pairs = enumerate(schema.get("properties", {}).items())
        return {name: schema_answer(property_schema, seed >> place % 16) for place, (name, property_schema) in pairs}
    if kind == "array":
        return [schema_answer(schema["items"], seed)]
    return {"boolean": bool(seed & 1), "integer": seed % 5, "number": float(seed % 5)}.get(str(kind), "as it stands")


def tutor_answer(model: str, prompt: str, seed: int) -> str:
    """Return a tutor's answer. It varies with the tutor's name, so that no two tutors have the same scores."""
    manner = sum(map(ord, model)) % 5
    numbers = {"a": seed % 97, "b": seed % 31, "c": 1 + seed % 4}
    text = PHRASES[(seed + manner) % len(PHRASES)].format(**numbers)
    if "<correctness>" in prompt:
        return f"<correctness>{'yes' if seed & 1 else 'no'}</correctness><error_step_num>{seed % 6}</error_step_num><error_reason>{text}</error_reason>"
    if "<problem>" in prompt:
        return f"<problem>{text}</problem>\n<solution>{text}</solution>"
    if seed % 11 == manner:
        return "I am sorry, I cannot help with that."  # an unreadable reply
    if seed % 5 == 0:
        return "Yes" if seed & 1 else "No"
    return text if seed % 3 else f"{text} Final answer: {seed % 60}"


def answer(request: dict[str, Any]) -> bytes:
    """Return the body of the response to a request."""
    model = str(request["model"])
    messages = request.get("messages")
    prompt = str(messages if messages is not None else request["prompt"])
    seed = int.from_bytes(hashlib.blake2b(f"{model}\n{prompt}".encode(), digest_size=4).digest())
    form = request.get("response_format")
    text = json.dumps(schema_answer(form["json_schema"]["schema"], seed)) if form else tutor_answer(model, prompt, seed)
    content: dict[str, Any] = (
        {"message": {"role": "assistant", "content": text}} if messages is not None else {"text": text}
    )
    return json.dumps(
        {
            "id": "1", "object": "chat.completion" if messages is not None else "text_completion", "created": 1, "model": model,
            "choices": [{"index": 0, "finish_reason": "stop", **content}],
            "usage": {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text) // 4, "total_tokens": 0},
        }
    ).encode()  # fmt: skip


class KeptAlive(asyncio.Protocol):
    """A keep-alive connection, split into its requests."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.held = transport, b""

    def data_received(self, data: bytes) -> None:
        self.held += data
        while True:
            head, separator, rest = self.held.partition(b"\r\n\r\n")
            if not separator:
                return
            lines = head.split(b"\r\n")
            lengths = [line for line in lines if line.lower().startswith(b"content-length:")]
            length = int(lengths[0].split(b":")[1]) if lengths else 0
            if len(rest) < length:
                return
            self.held = rest[length:]
            self.requested(lines[0].decode(), rest[:length])

    def requested(self, line: str, body: bytes) -> None:
        """Handle a complete request. line: its request line."""
        raise NotImplementedError

    def respond(self, body: bytes) -> None:
        """Send a JSON body."""
        self.transport.write(HEAD.format(len(body)).encode() + body)  # type: ignore[attr-defined]


class Connection(KeptAlive):
    """A connection that answers each request immediately."""

    served = 0

    def requested(self, line: str, body: bytes) -> None:
        response = answer(json.loads(body)) if body else json.dumps({"served": Connection.served}).encode()
        Connection.served += bool(body)
        self.respond(response)


async def serve() -> None:
    """Serve on a free loopback port until the process ends."""
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
