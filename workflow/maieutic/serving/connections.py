"""HTTP connections to a server, at most one per concurrent request. They are reused between requests."""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.helpers import strip_auth_from_url
from yarl import URL

from maieutic.core.progress import PROGRESS_FILE

BLOCK = 1 << 16


class Response(NamedTuple):
    """Response of a server: status, headers and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class BodyTooLong(Exception):
    """Error for a body that exceeds the maximum size of an answer. The rest of it is not read."""


def tls_context() -> ssl.SSLContext:
    """Return a TLS context that uses the operating system's store of trusted certificates."""
    import truststore

    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def open_connector(concurrency: int = 1, resolver: AbstractResolver | None = None) -> aiohttp.BaseConnector:
    """Return a connector for up to `concurrency` connections over the network. resolver: resolver of host names."""
    return aiohttp.TCPConnector(limit=concurrency, ssl=tls_context(), resolver=resolver)


class Proxy(NamedTuple):
    """Proxy of a session. address: None without one; auth: its user and password."""

    address: str | None = None
    auth: aiohttp.BasicAuth | None = None


def proxy_of(url: str) -> Proxy:
    """Return the proxy that the environment names for a URL.

    aiohttp's own search for it (`trust_env`) would also send the credentials of ~/.netrc to any host. Ranges of
    addresses in `no_proxy` (10.0.0.0/8) are understood.
    """
    from requests.utils import should_bypass_proxies

    parts = urlsplit(url)
    proxies = urllib.request.getproxies()
    address = proxies.get(parts.scheme) or proxies.get("all")
    if not address or not parts.hostname or should_bypass_proxies(url, no_proxy=None):
        return Proxy()
    plain, auth = strip_auth_from_url(URL(address if "://" in address else f"http://{address}"))
    return Proxy(str(plain), auth)


def open_session(
    concurrency: int,
    socket: str | None,
    timeout: float,
    key: str | None,
    url: str = "",
    resolver: AbstractResolver | None = None,
) -> aiohttp.ClientSession:
    """Open a session with up to `concurrency` connections to a unix socket or, if `socket` is None, over the network.

    Call it in a running event loop. timeout: maximum number of seconds from request to answer; key: API key that every
    request sends; url: address of the server, which decides about a proxy; resolver: resolver of host names.
    """
    proxy = Proxy() if socket else proxy_of(url)
    connector: aiohttp.BaseConnector
    connector = aiohttp.UnixConnector(socket, limit=concurrency) if socket else open_connector(concurrency, resolver)
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=timeout),
        headers={"Authorization": f"Bearer {key}"} if key else {},
        cookie_jar=aiohttp.DummyCookieJar(),
        proxy=proxy.address,
        proxy_auth=proxy.auth,
    )


async def get(
    session: aiohttp.ClientSession, url: str, longest: int, headers: Mapping[str, str] | None = None
) -> Response:
    """Fetch a URL. Raises BodyTooLong for a body of more than `longest` bytes. Redirects are not followed."""
    async with session.get(url, headers=headers, allow_redirects=False) as response:
        return Response(response.status, response.headers, await read_body(response, longest))


async def post(session: aiohttp.ClientSession, url: str, body: Mapping[str, Any], longest: int) -> Response:
    """Post a JSON body. Raises BodyTooLong for an answer of more than `longest` bytes. Redirects are not followed."""
    data = json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    try:
        async with session.post(url, data=data, headers=headers, allow_redirects=False) as response:
            if not 200 <= response.status < 300:
                PROGRESS_FILE.count_failed_try(str(response.status))
            return Response(response.status, response.headers, await read_body(response, longest))
    except (aiohttp.ClientError, TimeoutError, BodyTooLong) as error:
        PROGRESS_FILE.count_failed_try(type(error).__name__)
        raise


async def read_body(response: aiohttp.ClientResponse, longest: int) -> bytes:
    """Read a body. If it exceeds `longest` bytes after decompression, close the connection and raise BodyTooLong."""
    parts, size = [], 0
    async for part in response.content.iter_chunked(BLOCK):
        size += len(part)
        if size > longest:
            response.close()
            raise BodyTooLong(f"an answer of more than {longest} bytes")
        parts.append(part)
    return b"".join(parts)
