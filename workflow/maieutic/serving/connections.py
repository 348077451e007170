"""Connections to a server: as many as there are slots, at a cost that does not grow with their number."""

from __future__ import annotations

import urllib.request

import httpx2

POOL_SIZE = 8


class Pools(httpx2.AsyncBaseTransport):
    """Many small connection pools instead of a large one.

    A pool looks at all its connections for every request, so that 256 of them cost more than everything else that
    the driver does (bench/driver_overhead.py).
    """

    def __init__(self, concurrency: int, socket: str | None) -> None:
        context = httpx2.create_ssl_context()  # one for all: loading the certificates is slow
        count = -(-concurrency // POOL_SIZE)
        limits = httpx2.Limits(max_connections=POOL_SIZE, max_keepalive_connections=POOL_SIZE)
        self.pools = [httpx2.AsyncHTTPTransport(verify=context, uds=socket, limits=limits) for _ in range(count)]
        self.busy = [0] * count

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send over the pool that has least to do. The response is read whole before its slot is free again."""
        index = self.busy.index(min(self.busy))
        self.busy[index] += 1
        try:
            response = await self.pools[index].handle_async_request(request)
            await response.aread()
            return response
        finally:
            self.busy[index] -= 1

    async def aclose(self) -> None:
        """Close every pool."""
        for pool in self.pools:
            await pool.aclose()


def http_client(concurrency: int, socket: str | None, timeout: float) -> httpx2.AsyncClient:
    """Connections enough for every slot, over the socket where there is one; a redirect never carries the key away."""
    if socket is None and urllib.request.getproxies():  # a site's proxy: httpx's own pool knows how to use it
        limits = httpx2.Limits(max_connections=concurrency)
        return httpx2.AsyncClient(limits=limits, timeout=timeout, follow_redirects=False)
    return httpx2.AsyncClient(transport=Pools(concurrency, socket), timeout=timeout, follow_redirects=False)
