"""Completions and chat endpoint that takes a fixed time per request, for any number in parallel. Prints its port."""

from __future__ import annotations

import asyncio
import json
import sys

MESSAGE = {"role": "assistant", "content": "2"}  # for chats; `text` below is for completions
CHOICE = {"index": 0, "text": "2", "message": MESSAGE, "finish_reason": "stop", "logprobs": None}
USAGE = {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101}
BODY = json.dumps(
    {"id": "1", "object": "text_completion", "created": 1, "model": "m", "choices": [CHOICE], "usage": USAGE}
).encode()
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """Answer the requests of one connection in turn. seconds: time that each request takes."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
            length = int(lengths[0].split(b":")[1]) if lengths else 0  # health checks have no body
            await reader.readexactly(length)
            await asyncio.sleep(seconds)
            writer.write(ANSWER)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    seconds = float(sys.argv[1])
    server = await asyncio.start_server(lambda r, w: serve(r, w, seconds), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
