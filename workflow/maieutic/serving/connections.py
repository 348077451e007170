"""Connections to a server: as many as there are slots, kept open from request to request."""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Mapping
from typing import Any, NamedTuple

import aiohttp

BLOCK = 1 << 16


class Response(NamedTuple):
    """What a server sent: status, headers, body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class TooLong(Exception):
    """A body with more bytes than an answer may have; it was not read to its end."""


def certificates() -> ssl.SSLContext:
    """The certificates that this machine trusts, wherever its distribution keeps them."""
    import truststore

    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def session_of(concurrency: int, socket: str | None, timeout: float, key: str | None) -> aiohttp.ClientSession:
    """Connections enough for every slot, over the socket where there is one, else as a site's proxy demands.

    Call it in a running event loop. timeout: seconds of one request with its answer; key: sent with every request.
    """
    connector: aiohttp.BaseConnector
    if socket is not None:
        connector = aiohttp.UnixConnector(socket, limit=concurrency)
    else:
        connector = aiohttp.TCPConnector(limit=concurrency, ssl=certificates())
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=timeout),
        headers={"Authorization": f"Bearer {key}"} if key else {},
        cookie_jar=aiohttp.DummyCookieJar(),
        # A thread for every request looks for proxies, which costs as much as the request: only where there is one.
        trust_env=socket is None and bool(urllib.request.getproxies()),
    )


async def get(
    session: aiohttp.ClientSession, url: str, longest: int, headers: Mapping[str, str] | None = None
) -> Response:
    """Fetch an address. Raises TooLong for a body of more than `longest` bytes; redirects are not followed."""
    async with session.get(url, headers=headers, allow_redirects=False) as response:
        return Response(response.status, response.headers, await read_body(response, longest))


async def post(session: aiohttp.ClientSession, url: str, body: Mapping[str, Any], longest: int) -> Response:
    """Send a JSON body. Raises TooLong for an answer of more than `longest` bytes; redirects are not followed."""
    data = json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    async with session.post(url, data=data, headers=headers, allow_redirects=False) as response:
        return Response(response.status, response.headers, await read_body(response, longest))


async def read_body(response: aiohttp.ClientResponse, longest: int) -> bytes:
    """A whole body. Raises TooLong, and hangs up, where it has more than `longest` bytes, unpacked."""
    parts, size = [], 0
    async for part in response.content.iter_chunked(BLOCK):
        size += len(part)
        if size > longest:
            response.close()
            raise TooLong(f"an answer of more than {longest} bytes")
        parts.append(part)
    return b"".join(parts)
