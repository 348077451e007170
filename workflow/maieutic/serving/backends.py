"""What answers a job's requests: a vLLM server of our own, started on the first miss, or somebody else's endpoint."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.models import HostedModel, ServedModel, VllmModel
from maieutic.core.errors import UserError
from maieutic.core.files import MB
from maieutic.serving.budget import Purse, purse_of
from maieutic.serving.handover import Run
from maieutic.serving.lent import LentServer, pool_folder
from maieutic.serving.server import VllmServer, identity, served_name
from maieutic.serving.weights import has_chat_template

log = logging.getLogger(__name__)


OF_TEMPLATES = {"--chat-template", "--tokenizer", "--tokenizer-mode"}  # flags that bring a chat template from elsewhere


class JobFiles(NamedTuple):
    """What a job that asks a model reads and writes beside its results.

    weights: the manifest of a model that we serve; pictures: the store of the pictures that messages name; journals:
    further ones whose answers count.
    """

    weights: Path | None
    journal: Path
    server_log: Path
    pictures: Path | None = None
    journals: Sequence[Path] = ()


class Backend:
    """The server behind a job: nothing until the first request needs it."""

    def __init__(
        self,
        start: Callable[[], Awaitable[Any]],
        stop: Callable[[], None] = lambda: None,
        check: Callable[[], None] = lambda: None,
        refuse: Callable[[Mapping[str, Any]], None] = lambda request: None,
    ) -> None:
        """start: gives a client; stop: ends the server; check: raises UserError where the server has died.

        refuse: raises UserError for a request that the server could not answer, before it starts.
        """
        self._start, self._stop, self.check, self.refuse = start, stop, check, refuse
        self.purse: Purse | None = None
        self._lock = asyncio.Lock()
        self._client: Any = None
        self._fault: Exception | None = None
        self._told: Counter[str] = Counter()
        self.busy_from = 0.0

    async def client(self) -> Any:
        """The client, its server started if it was not. A start that has failed is not tried again by others."""
        async with self._lock:
            if self._fault is not None:
                raise self._fault
            if self._client is None:
                try:
                    self._client = await self._start()
                except Exception as error:
                    self._fault = error
                    raise
                self.busy_from = time.monotonic()
            return self._client

    def new_retries(self) -> dict[str, int]:
        """How often each kind of failure was met since the last call: several journals may share a backend."""
        met = Counter(self._client.retries if self._client is not None else {})
        new, self._told = met - self._told, met
        return dict(new)

    def unheeded(self) -> dict[str, str]:
        """Return a line for each kind of silent change that the endpoint was found to make."""
        return dict(self._client.watcher.lines) if self._client is not None else {}

    async def close(self) -> None:
        """Close the connections and end the server."""
        if self._client is not None:
            log.info("retries: %s", self._client.retries or "none")
            await self._client.close()
        self._stop()


def backend_of(name: str, model: VllmModel | HostedModel, files: JobFiles) -> tuple[Backend, dict[str, Any]]:
    """What answers for an entry, and its part of every request key. Raises UserError for lack of weights."""
    if isinstance(model, HostedModel):
        backend, own = hosted_backend(name, model)
    elif files.weights is None:
        raise UserError(name, "a model that we serve needs --weights", "name the manifest of its weights")
    else:
        backend, own = vllm_backend(name, model, files.weights.parent, files.server_log)
    backend.purse = purse_of(os.environ, name)
    return backend, own


def client_of(entry: str, model: ServedModel, base_url: str, name: str, **where: str) -> Any:
    """A client with the limits of a registry entry. where: `socket` or `api_key`."""
    from maieutic.serving.client import Client, Server

    server = Server(
        base_url=base_url,
        model=name,
        timeout=model.request_timeout,
        attempts=model.attempts,
        concurrency=model.concurrency,
        omit=tuple(model.omit),
        extra_body=model.extra_body,
        thinking=model.thinking_body,
        patience=model.patience,
        longest=int(model.answer_mb * MB),
        name=entry,
        max_tokens_as=model.max_tokens_as,
        thinking_tokens=model.thinking_tokens,
        **where,
    )
    return Client(server)


def hosted_backend(name: str, model: HostedModel) -> tuple[Backend, dict[str, Any]]:
    """A client of somebody else's endpoint. The key comes from the environment when needed, and goes nowhere else."""

    async def start() -> Any:
        key = hosted_key(name, model)
        return client_of(name, model, model.base_url, model.model, **({"api_key": key} if key else {}))

    return Backend(start), hosted_identity(model)


def hosted_identity(model: HostedModel) -> dict[str, Any]:
    """What of an endpoint can change an answer."""
    return {
        "engine": "hosted",
        "base_url": model.base_url,
        "model": model.model,
        "extra_body": model.extra_fields,
        "omit": sorted(model.omit),
    }


def hosted_key(name: str, model: HostedModel) -> str | None:
    """The key from the environment variable that the entry names. Raises UserError where it is not set."""
    if model.key_env is None:
        return None
    key = os.environ.get(model.key_env, "").strip()
    if not key:
        raise UserError(
            f"models.{name}.key_env",
            f"the environment variable {model.key_env} is not set",
            f"export {model.key_env}=...",
        )
    if not key.isascii() or not key.isprintable():
        raise UserError(
            f"models.{name}.key_env",
            f"the value of {model.key_env} has line breaks or characters that no header can carry",
            f"export {model.key_env} with the key alone",
        )
    return key


def server_of(name: str, model: VllmModel, weights: Path, server_log: Path) -> VllmServer | LentServer:
    """The server of a model: one that outlives its job where this is a job of a run that shares them."""
    run = Run.of(os.environ)
    if run is not None and (pool := pool_folder(run)) is not None:
        return LentServer(run, pool, name, model, weights, server_log)
    return VllmServer(name, model, weights, server_log)


def vllm_backend(name: str, model: VllmModel, weights: Path, server_log: Path) -> tuple[Backend, dict[str, Any]]:
    """A vLLM server of our own: the run's where jobs share servers, else the job's.

    A job that asks nothing, since all is in its journal, makes no folder of sockets, which nobody would remove.
    """
    begun: list[VllmServer | LentServer] = []

    async def start() -> Any:
        process = server_of(name, model, weights, server_log)
        begun.append(process)
        await process.start()
        await process.ready()
        return client_of(name, model, "http://server/v1", served_name(weights), socket=process.socket)

    def stop() -> None:
        for process in begun:
            process.stop()

    def check() -> None:
        for process in begun:
            process.check_alive()

    words = [*model.engine_args, *model.reviewed_args, *model.runtime_args]
    flags = {word.partition("=")[0].replace("_", "-") for word in words}
    templated = bool(flags & OF_TEMPLATES) or has_chat_template(weights)

    def refuse(request: Mapping[str, Any]) -> None:
        if request["endpoint"] == "chat" and not templated:
            raise UserError(
                f"models.{name}",
                "its weights have no chat template, and it is asked in chat mode",
                "set endpoint: completions, or name an instruct model",
            )

    return Backend(start, stop, check, refuse), identity(model, weights)
