"""Backends of jobs that call a model: a local vLLM server, started for the first new request, or a hosted endpoint."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.models import HostedModel, ServedModel, VllmModel
from maieutic.core.errors import UserError
from maieutic.core.files import MB
from maieutic.serving.batches import BatchFolder, OutboxHeader, batch_settings_of, settings_files
from maieutic.serving.budget import BUDGET_VARIABLE, Purse, purse_of
from maieutic.serving.devices import machine_gpus
from maieutic.serving.leased_server import LeasedServer, pool_folder
from maieutic.serving.run_environment import SnakemakeRun
from maieutic.serving.server import VllmServer, served_name, vllm_identity
from maieutic.serving.weights import has_chat_template

log = logging.getLogger(__name__)


MAX_SEQS = "--max-num-seqs"
HELD_SEQUENCES = 256  # number of sequences that a vLLM server holds at once by default
HELD_ON_LARGE_GPUS = 1024  # the same on GPUs with LARGE_GIB of memory, except A100
LARGE_GIB = 70
MOST_IN_BATCHES = 50_000  # requests that a job prepares for batches at the same time
SPARE = 1.25  # requests in flight per held sequence
# vLLM's flags that replace the chat template or the tokenizer stored with the weights
TEMPLATE_FLAGS = {"--chat-template", "--tokenizer", "--tokenizer-mode"}


class JobFiles(NamedTuple):
    """Paths of the files that a job uses when it calls a model, except its results.

    weights: manifest of a local model's weights; journal: journal of this job's answers; server_log: log of the local
    server; pictures: folder of the pictures in messages; journals: journals of other jobs whose answers are reused.
    """

    weights: Path | None
    journal: Path
    server_log: Path
    pictures: Path | None = None
    journals: Sequence[Path] = ()


class Backend:
    """Server or endpoint that answers a job's requests. A server is started for the first request that needs it."""

    def __init__(
        self,
        start: Callable[[], Awaitable[Any]],
        stop: Callable[[], None] = lambda: None,
        check: Callable[[], None] = lambda: None,
        refuse: Callable[[Mapping[str, Any]], None] = lambda request: None,
    ) -> None:
        """start: function that starts the server and returns its client; stop: function that ends the server.

        check: function that raises UserError if the server has ended; refuse: function that raises UserError for a
        request that the server could not answer, called before the server starts.
        """
        self._start, self._stop, self.check, self.refuse = start, stop, check, refuse
        self.purse: Purse | None = None
        self.most_in_flight = 1  # largest possible number of requests in flight
        self.sends_batches = False
        self._lock = asyncio.Lock()
        self._client: Any = None
        self._fault: Exception | None = None
        self._reported: Counter[str] = Counter()
        self._charged = 0.0
        self.busy_from = 0.0

    async def client(self) -> Any:
        """Return the server's client. The first call starts the server; if that fails, all calls raise the error."""
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
        """Return the number of failures of each kind since the last call, so that no failure is in two ledgers."""
        met = Counter(self._client.retries if self._client is not None else {})
        new, self._reported = met - self._reported, met
        return dict(new)

    def newly_charged(self) -> float:
        """Return the US dollars charged since the last call for tries whose cost the endpoint does not report."""
        charged = self.purse.charged.usd if self.purse is not None else 0.0
        new, self._charged = charged - self._charged, charged
        return round(new, 9)

    def silent_changes(self) -> dict[str, str]:
        """Return one line of text for each kind of silent change in the endpoint's answers, with the kinds as keys."""
        return dict(self._client.watcher.lines) if self._client is not None else {}

    def pending_line(self) -> str:
        """Return the requests whose answers come from a batch as text; "" without such requests."""
        return self._client.pending_line() if self._client is not None else ""

    async def close(self) -> None:
        """Close the connections and end the server."""
        if self._client is not None:
            log.info("retries: %s", self._client.retries or "none")
            await self._client.close()
        self._stop()


def backend_of(name: str, model: VllmModel | HostedModel, files: JobFiles) -> tuple[Backend, dict[str, Any]]:
    """Return a registry entry's backend and request-key fields. Raises UserError if a local model has no weights."""
    purse = purse_of(os.environ, name, model.request_timeout)
    if isinstance(model, HostedModel):
        backend, key_fields = hosted_backend(name, model, files, purse)
    elif files.weights is None:
        raise UserError(name, "a local model needs --weights", "pass --weights FILE, the manifest of its weights")
    else:
        backend, key_fields = vllm_backend(name, model, files.weights.parent, files.server_log, purse)
    backend.most_in_flight = MOST_IN_BATCHES if backend.sends_batches else model.most_in_flight
    backend.purse = purse
    return backend, key_fields


def requests_in_flight(model: ServedModel) -> int:
    """Return the number of requests that keep a model's server busy: a quarter more than it holds at once.

    The number of held sequences is `--max-num-seqs` in the entry, or else vLLM's default on this machine's GPUs.
    """
    held = HELD_SEQUENCES
    if isinstance(model, VllmModel):
        words = pairwise([*model.arguments, ""])
        named = [word.partition("=")[2] or after for word, after in words if word.startswith(MAX_SEQS)]
        if named and named[-1].isdigit():
            held = int(named[-1])
        elif model.needs.gpus and has_large_gpus():
            held = HELD_ON_LARGE_GPUS
    return math.ceil(SPARE * held)


def has_large_gpus() -> bool:
    """Return True if all GPUs of this machine have much memory, by the rule of vLLM's defaults."""
    gpus = machine_gpus()
    return bool(gpus) and all(gpu.gib >= LARGE_GIB and "a100" not in gpu.name.lower() for gpu in gpus)


def client_of(
    entry: str, model: ServedModel, base_url: str, name: str, purse: Purse | None = None, **where: str
) -> Any:
    """Return a client for a model's server. purse: purse of the run's budget; others: as in `server_settings`."""
    from maieutic.serving.client import Client

    return Client(server_settings(entry, model, base_url, name, **where), purse)


def hosted_client(entry: str, model: HostedModel, purse: Purse | None = None) -> Any:
    """Return a client for a hosted endpoint. Raises UserError if the key is not set. entry: name in the registry."""
    key = hosted_key(entry, model)
    return client_of(entry, model, model.base_url, model.model, purse, **({"api_key": key} if key else {}))


def server_settings(entry: str, model: ServedModel, base_url: str, name: str, **where: str) -> Any:
    """Return the settings of a client for a model's server, with the limits from the registry entry.

    entry: name of the registry entry; base_url: address of the server; name: model name in requests; where: `socket` or
    `api_key`, passed on to ServerSettings.
    """
    from maieutic.serving.client import ServerSettings

    return ServerSettings(
        base_url=base_url,
        model=name,
        timeout=model.request_timeout,
        attempts=model.attempts,
        concurrency=model.concurrency or requests_in_flight(model),
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


def hosted_backend(
    name: str, model: HostedModel, files: JobFiles, purse: Purse | None
) -> tuple[Backend, dict[str, Any]]:
    """Return the backend and request-key fields of a hosted endpoint. The API key is sent only to that endpoint.

    name: name of the tutor or judge. If the run's settings say that its requests travel in batches, the client puts
    them into the job's outbox. Requests that are in a batch in progress are not sent in any case.
    """
    settings, identity = batch_settings_of(os.environ), hosted_identity(model)
    limits = settings.limits_of(name)

    async def start() -> Any:
        from maieutic.serving.outbox import Outbox

        in_batches = BatchFolder().pending_keys()
        if limits is None and not in_batches:
            return hosted_client(name, model, purse)
        header = OutboxHeader(
            run=settings.run, entry=settings.entry_of(name), model=model, asker=name, journal=str(files.journal),
            pictures=str(files.pictures) if files.pictures else None, limits=limits,
            price=settings.prices.get(settings.entry_of(name)),
            allowance=os.environ.get(BUDGET_VARIABLE, ""), settings=settings_files(os.environ),
        )  # fmt: skip
        key = hosted_key(name, model) if limits is None else None
        server = server_settings(name, model, model.base_url, model.model, **({"api_key": key} if key else {}))
        return Outbox(server, purse, header, identity, in_batches)

    backend = Backend(start)
    backend.sends_batches = limits is not None
    return backend, identity


def hosted_identity(model: HostedModel) -> dict[str, Any]:
    """Return the request-key fields of a hosted endpoint."""
    return {
        "engine": "hosted",
        "base_url": model.base_url,
        "model": model.model,
        "extra_body": model.extra_fields,
        "omit": sorted(model.omit),
    }


def hosted_key(name: str, model: HostedModel) -> str | None:
    """Return the API key from the environment variable that `key_env` names, or None if `key_env` is not set.

    Raises UserError if the variable is not set, or if its value is not a valid key.
    """
    return None if model.key_env is None else key_in_variable(f"models.{name}.key_env", model.key_env)


def key_in_variable(place: str, variable: str) -> str:
    """Return the API key in an environment variable. place: configuration key that names the variable.

    Raises UserError if the variable is not set, or if its value is not a valid key.
    """
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UserError(place, f"the environment variable {variable} is not set", f"export {variable}=...")
    if not key.isascii() or not key.isprintable():
        raise UserError(
            place,
            f"the value of {variable} has line breaks or characters that an HTTP header cannot contain",
            f"export {variable} with only the key as its value",
        )
    return key


def server_of(name: str, model: VllmModel, weights: Path, server_log: Path) -> VllmServer | LeasedServer:
    """Return the server of a model: a leased one if the jobs of this run share servers, otherwise a private one."""
    run = SnakemakeRun.of(os.environ)
    if run is not None and (pool := pool_folder(run)) is not None:
        return LeasedServer(run, pool, name, model, weights, server_log)
    return VllmServer(name, model, weights, server_log)


def vllm_backend(
    name: str, model: VllmModel, weights: Path, server_log: Path, purse: Purse | None
) -> tuple[Backend, dict[str, Any]]:
    """Return the backend and request-key fields of a local vLLM server.

    The server and the folder of its socket are created for the first new request. If the journal already has all
    answers, neither is created, because nothing would remove the folder.
    """
    servers: list[VllmServer | LeasedServer] = []

    async def start() -> Any:
        server = server_of(name, model, weights, server_log)
        servers.append(server)
        await server.start()
        await server.ready()
        return client_of(name, model, "http://server/v1", served_name(weights), purse, socket=server.socket)

    def stop() -> None:
        for server in servers:
            server.stop()

    def check() -> None:
        for server in servers:
            server.check_alive()

    flags = {word.partition("=")[0].replace("_", "-") for word in model.arguments}
    templated = bool(flags & TEMPLATE_FLAGS) or has_chat_template(weights)

    def refuse(request: Mapping[str, Any]) -> None:
        if request["endpoint"] == "chat" and not templated:
            raise UserError(
                f"models.{name}",
                "the weights have no chat template, which chat mode needs",
                "set endpoint: completions, or choose an instruct model",
            )

    return Backend(start, stop, check, refuse), vllm_identity(model, weights)
