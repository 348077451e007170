"""Schema of the entries of the model registry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from maieutic.config.batch_apis import batch_api_of
from maieutic.config.server_options import faults_of_arguments, faults_of_variables
from maieutic.config.thinking import Dialect, Effort, dialect_of, thinking_fields
from maieutic.core.errors import Unpinned
from maieutic.core.secrets import SECRET_FIELD, is_named_as_secret

Endpoint = Literal["chat", "completions"]
COMMIT = r"^[0-9a-f]{40}$"
REVISION = r"^[A-Za-z0-9][A-Za-z0-9._/-]*$"
PIN_COMMAND_FIX = "run `maieutic pin --configfile RUN_FILE`"
PIN_FIX = f"{PIN_COMMAND_FIX}, or set the commit here (40 hexadecimal digits)"


def is_commit(revision: str | None) -> bool:
    """Return True if the revision is a commit, not a branch, a tag or None."""
    return re.fullmatch(COMMIT, revision or "") is not None


SHA256 = r"^[0-9a-f]{64}$"
DAY = 86_400  # seconds
LANGUAGE = r"^[a-z]{2}$"  # pattern of the code of a language (ISO 639-1)
MOST_TOKENS = 10_000_000  # highest token limit that a configuration may set for one answer


def checked_path(path: str) -> str:
    """Return the path unchanged. Raises ValueError for a leading hyphen, braces, or control characters.

    Snakemake reads braces as wildcards.
    """
    if wrong := sorted({letter for letter in path if letter in "{}" or not letter.isprintable()}):
        letters = ", ".join(map(repr, wrong))
        raise ValueError(f"a path must not contain braces, line breaks or control characters ({letters})")
    if path.startswith("-"):
        raise ValueError(f"a path must not begin with a hyphen: write ./{path}")
    return path


FilePath = Annotated[str, AfterValidator(checked_path)]


class StrictModel(BaseModel):
    """Base class of the schemas: an immutable mapping in which an unknown key is an error."""

    model_config = ConfigDict(
        defer_build=True, extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False
    )


class PackagedWeights(StrictModel):
    """Weights in a Python package: a safetensors file, or a GGUF file that is converted once to safetensors."""

    package: str = Field(description="Name of the package in the Python package index.")
    version: str = Field(description="Exact version of the package.")
    file: str = Field(
        description="GGUF or safetensors file in the package. The tokenizer must be in the same folder of the package."
    )
    sha256: str = Field(pattern=SHA256, description="SHA-256 of the resulting `model.safetensors`.")

    def refuse_unpinned(self, place: str) -> None:
        """Do nothing: packaged weights always have a checksum."""


class Weights(StrictModel):
    """Weights from the hub (`repo` and `revision`) or from a folder (`path`)."""

    repo: str | None = Field(None, description="Repository on the Hugging Face hub, as org/model.")
    revision: str | None = Field(
        None,
        pattern=REVISION,
        description="Commit of the hub repository, or a branch or tag whose commit `maieutic pin` looks up.",
    )
    path: FilePath | None = Field(None, description="Folder with safetensors, model configuration and tokenizer.")

    @model_validator(mode="after")
    def one_source(self) -> Weights:
        if (self.repo is None) == (self.path is None):
            raise ValueError("expected either 'repo' with 'revision', or 'path'")
        return self

    def refuse_unpinned(self, place: str) -> None:
        """Raise UserError if the weights come from a hub repository without a pinned commit."""
        if self.repo and not is_commit(self.revision):
            raise Unpinned(f"{place}.revision", f"{self.repo} has no pinned commit", PIN_FIX)


class TunedWeights(StrictModel):
    """Weights that this run produces by fine-tuning."""

    tuned: str = Field(description="Name of the fine-tuning in `tunings`.")

    def refuse_unpinned(self, place: str) -> None:
        """Do nothing: weights produced by this run are pinned by their inputs."""


def kind_of_weights(value: object) -> str:
    """Return the tag for the kind of weights in a registry entry. Validation errors then name only this kind's keys."""
    keys = (
        set(value)
        if isinstance(value, dict)
        else set(type(value).model_fields)
        if isinstance(value, StrictModel)
        else ()
    )
    return "from-package" if "package" in keys else "from-tuning" if "tuned" in keys else "from-source"


AnyWeights = Annotated[
    Annotated[PackagedWeights, Tag("from-package")] | Annotated[Weights, Tag("from-source")],
    Discriminator(kind_of_weights),
]
TutorWeights = Annotated[
    Annotated[PackagedWeights, Tag("from-package")]
    | Annotated[Weights, Tag("from-source")]
    | Annotated[TunedWeights, Tag("from-tuning")],
    Discriminator(kind_of_weights),
]


class Needs(StrictModel):
    """Resources of one job of a model. They are not part of the keys under which answers are cached."""

    gpus: int = Field(0, ge=0, le=1024, description="Number of GPUs of one server (its tensor-parallel size).")
    cpus: int = Field(2, ge=1, le=4096, description="Number of CPU cores of one job.")
    mem_mb: int = Field(8000, ge=100, le=100_000_000, description="Memory of one job in MB.")
    runtime: int = Field(240, ge=1, le=527_040, description="Time limit of one attempt of a job, in minutes.")


class Price(StrictModel):
    """Price of a hosted model in US dollars per million tokens."""

    input: float = Field(ge=0, description="US dollars per million prompt tokens.")
    output: float = Field(ge=0, description="US dollars per million answer tokens, including thinking.")
    cached: float | None = Field(
        None,
        ge=0,
        description="US dollars per million prompt tokens read from the provider's cache; `null`: same as `input`.",
    )
    batch: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Factor on these prices for requests in a batch; `null`: the provider's (docs/models.md).",
    )

    def usd(self, prompt_tokens: float, answer_tokens: float, cached_tokens: float = 0, batched: bool = False) -> float:
        """Return the cost in US dollars.

        cached_tokens: prompt tokens that were in the provider's cache; batched: True if the requests were in batches.
        """
        cached = self.input if self.cached is None else self.cached
        fresh = max(prompt_tokens - cached_tokens, 0)
        usual = (fresh * self.input + cached_tokens * cached + answer_tokens * self.output) / 1e6
        return usual * self.batch if batched and self.batch is not None else usual


class Model(StrictModel):
    """Keys that every entry of the model registry may have."""

    label: str | None = Field(
        None, description="Name in the report; `null`: the entry's key. Changing it recomputes nothing."
    )
    group: str = Field("general", description="Name of the model's group in the leaderboard.")
    paper: str | dict[str, str] | None = Field(
        None,
        description=(
            "Name under which a paper's table lists the model, for comparison; `{BENCHMARK: NAME}` if several papers "
            "list it. Names in no table are refused."
        ),
    )
    licence: str | None = Field(
        None, description="Licence of the weights, listed in shared runs. Changing it recomputes nothing."
    )
    notice: str | None = Field(None, description="Warning shown beside every number of this model.")
    needs: Needs = Field(Needs(), description="Resources of one job of the model. They do not affect cached answers.")


MOST_REPEATS = 100  # maximum number of answers to an item
# Request fields that a task sets. `extra_body` must not replace them.
TASK_FIELDS = {"messages", "prompt", "input", "model", "n", "stream", "stop", "seed"}
MOST_IN_FLIGHT = 1280  # a quarter more than a vLLM server holds at once on GPUs with 70 GiB or more


class ServedModel(Model):
    """Keys of registry entries with the engines `vllm` and `hosted`."""

    endpoint: Literal["chat", "completions", "responses"] | None = Field(
        None,
        description=(
            "Endpoint used instead of the card's: `chat`, `completions`, or `responses` (OpenAI's Responses API, for "
            "models available only there)."
        ),
    )
    protocol: str | None = Field(
        None,
        description=(
            "Protocol of this tutor, instead of `run.protocol`. To compare protocols, add one entry per protocol; "
            "each entry has its own row in the report."
        ),
    )
    prompt_role: Literal["system", "user"] | None = Field(
        None,
        description=(
            "Role of a prompt sent as the only message: `user` for models without system messages; "
            "`null`: the card's `role`, else `user` (hosted) or `system` (vLLM)."
        ),
    )
    concurrency: int | None = Field(
        None,
        ge=1,
        le=4096,
        description=(
            "Maximum number of requests in flight; `null`: a quarter more than the server holds at once (vLLM's "
            "`--max-num-seqs`), so that it never waits for requests."
        ),
    )
    shards: int = Field(
        1,
        ge=1,
        le=256,
        description=(
            "Number of jobs among which a benchmark's items are divided. With `vllm`, each job has its own server."
        ),
    )
    request_timeout: float = Field(600, gt=0, le=DAY, description="Timeout of one attempt of a request, in seconds.")
    attempts: int = Field(8, ge=1, le=1000, description="Maximum number of attempts per request before the job fails.")
    patience: float = Field(
        3600,
        ge=0,
        le=7 * DAY,
        description=(
            "Maximum pause in seconds that a server's `Retry-After` may impose on all requests. "
            "A longer pause is reduced to this limit."
        ),
    )
    answer_mb: float = Field(
        32, gt=0, le=1024, description="Maximum size of one response in MB. A larger response is a failed attempt."
    )
    grace: float = Field(
        20,
        ge=0,
        le=30,
        description=(
            "Seconds that a terminated job (SIGTERM, Ctrl-C, `scancel`, `make recover`) waits for answers to requests "
            "already sent. SLURM kills jobs after 30 seconds (`KillWait`)."
        ),
    )
    max_tokens: int | None = Field(
        None, ge=1, le=MOST_TOKENS, description="Maximum value of a card's `max_tokens` for this model."
    )
    max_tokens_as: Literal["max_tokens", "max_completion_tokens"] = Field(
        "max_tokens",
        description="Request field for the token limit. Reasoning models usually require `max_completion_tokens`.",
    )
    most_tokens: int | None = Field(
        None,
        ge=1,
        le=10 * MOST_TOKENS,
        description=(
            "Tokens of the longest answer, with thinking, which a budget reserves for each request; `null`: "
            "`max_tokens`. A budget needs it with `omit: [max_tokens]`."
        ),
    )
    thinking: bool | Effort | Annotated[int, Field(ge=1, le=MOST_TOKENS, strict=True)] | None = Field(
        None,
        description=(
            "Thinking before an answer: `false`, `true`, an effort (`low`, `medium`, `high`...) or a token budget; "
            "`null`: the endpoint's default. Changing it recomputes answers."
        ),
    )
    thinking_as: Dialect | None = Field(
        None,
        description=(
            "Request format of `thinking`: `reasoning_effort`, `anthropic` (`thinking`, `output_config`) or "
            "`chat_template` (`enable_thinking`); `null`: `chat_template` for vLLM, otherwise inferred from `base_url`."
        ),
    )
    thinking_tokens: int = Field(
        0,
        ge=0,
        le=MOST_TOKENS,
        description=(
            "Number of tokens for thinking, added to the cards' `max_tokens`. Most endpoints count thinking towards "
            "that limit: without this addition, answers may be empty."
        ),
    )
    extra_body: dict[str, object] = Field(
        {},
        description="Additional fields of every request. Secrets are refused, since the fields are saved with results.",
    )
    structured: bool = Field(
        False,
        description=(
            "For rubrics with JSON answers, constrain decoding by a JSON schema (`response_format`). "
            "Set to `true` for hosted servers that support schemas."
        ),
    )
    images: bool = Field(
        False,
        description="Set to `true` if the model accepts pictures. All other models skip items with pictures.",
    )
    user_last: bool = Field(
        False,
        description=(
            "Set to `true` if the endpoint rejects conversations that end with an assistant message. The student's "
            "solution in text-only TutorBench samples becomes a user message."
        ),
    )
    repeats: int = Field(
        1,
        ge=1,
        le=MOST_REPEATS,
        description=(
            "Number of answers to each item. Each answer after the first has its own seed. The page shows how often "
            "they differ."
        ),
    )
    omit: list[Literal["stop", "temperature", "seed", "max_tokens"]] = Field(
        [],
        description=(
            "Request parameters that the server rejects. Models that think aloud need `omit: [stop]`: a stop string "
            "could end their thinking. Answers are cut afterwards."
        ),
    )

    @property
    def thinking_body(self) -> dict[str, object]:
        """Request fields that set `thinking`, in the format of the model's endpoint."""
        dialect = self.thinking_as or dialect_of(getattr(self, "base_url", None))
        return thinking_fields(self.thinking, dialect, self.endpoint)

    @property
    def extra_fields(self) -> dict[str, object]:
        """Request fields that the registry entry adds: those for `thinking`, then `extra_body`."""
        return {**self.thinking_body, **self.extra_body}

    def token_limit(self, *limits: int | None) -> int:
        """Return a request's `max_tokens`: the smallest limit that is not None, plus `thinking_tokens`.

        limits: limits in addition to this entry's own `max_tokens`.
        """
        return min(filter(None, (*limits, self.max_tokens))) + self.thinking_tokens

    @model_validator(mode="after")
    def can_ask_for_thinking(self) -> ServedModel:
        _ = self.extra_fields
        return self

    @model_validator(mode="after")
    def asks_what_is_asked(self) -> ServedModel:
        if replaced := sorted(TASK_FIELDS & set(self.extra_body)):
            raise ValueError(
                f"extra_body.{replaced[0]} would replace a field that the task sets: remove it from extra_body"
            )
        return self

    @model_validator(mode="after")
    def holds_no_secret(self) -> ServedModel:
        if fields := sorted(secret_fields(self.extra_body)):
            raise ValueError(
                f"extra_body.{fields[0]} looks like a secret, which would be saved with results: remove it, and set "
                "key_env to the name of an environment variable"
            )
        return self

    @property
    def most_in_flight(self) -> int:
        """Largest possible number of requests in flight."""
        return self.concurrency or MOST_IN_FLIGHT


# Request fields with arbitrary content. A key inside them is never taken for a secret, whatever its name.
FREE_FORM_FIELDS = {"response_format", "json_schema", "guided_json", "structured_outputs", "properties", "tools"}
HARMLESS_FIELDS = {"prompt_cache_key"}


def secret_fields(content: object, before: str = "") -> Iterator[str]:
    """Yield the dotted paths of all keys within a mapping that are named like a secret. before: prefix of the paths."""
    if isinstance(content, dict):
        for key, value in content.items():
            if key in FREE_FORM_FIELDS:
                continue
            if SECRET_FIELD.search(str(key)) and key not in HARMLESS_FIELDS:
                yield f"{before}{key}"
            yield from secret_fields(value, f"{before}{key}.")
    elif isinstance(content, list):
        for value in content:
            yield from secret_fields(value, before)


class ModelSize(StrictModel):
    """Number of parameters of a model, for estimates."""

    total: float = Field(gt=0, description="Number of stored parameters, in billions.")
    active: float | None = Field(
        None,
        gt=0,
        description="Number of parameters used for one token (mixtures of experts), in billions; `null`: all.",
    )


class VllmModel(ServedModel):
    """A model whose weights are served by a vLLM server of this run."""

    engine: Literal["vllm"]
    weights: TutorWeights = Field(
        description=(
            "Source of the weights: `repo` and `revision` (a 40-digit commit); `path`; `package`, `version`, `file` "
            "and `sha256`; or `tuned`, a name in `tunings`."
        )
    )
    structured: bool = Field(
        True, description="For rubrics with JSON answers, constrain decoding by a JSON schema (`response_format`)."
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16", "bfloat16-or-float32"] = Field(
        "auto",
        description=(
            "Data type of the served weights; `auto`: as stored. `bfloat16-or-float32`, for CPU trials, depends on the "
            "processor, so answers can differ between machines."
        ),
    )
    max_model_len: int | None = Field(None, ge=128, description="Context window in tokens; `null`: the model's own.")
    engine_args: list[str] = Field([], description="Additional arguments of `vllm serve` that can change an answer.")
    runtime_args: list[str] = Field(
        [], description="Additional arguments of `vllm serve`. Those that can change an answer are refused here."
    )
    reviewed_args: list[str] = Field(
        [],
        description=(
            "Arguments of `vllm serve` that load code or open access (plugins, middleware, connectors). "
            "`engine_args` and `runtime_args` refuse such arguments. Review what each argument loads."
        ),
    )
    environment: dict[str, str] = Field(
        {},
        description=(
            "Environment variables of the engine and its libraries (`VLLM_...`, `OMP_...`). "
            "Variables that load code are refused."
        ),
    )
    trust_remote_code: bool = Field(
        False, description="Run Python code from the weights' repository, at its pinned commit."
    )
    size: ModelSize | None = Field(
        None,
        description="Number of parameters, for `maieutic estimate`; `null`: read from the model's name.",
    )
    start_timeout: float = Field(1800, gt=0, le=DAY, description="Maximum time in seconds until the server is ready.")

    @property
    def arguments(self) -> list[str]:
        """All additional arguments of `vllm serve`."""
        return [*self.engine_args, *self.reviewed_args, *self.runtime_args]

    @model_validator(mode="after")
    def loads_no_code(self) -> VllmModel:
        faults = [
            *faults_of_arguments("engine_args", self.engine_args),
            *faults_of_arguments("runtime_args", self.runtime_args),
            *faults_of_variables(self.environment),
        ]
        if faults:
            raise ValueError("; ".join(faults))
        return self

    @model_validator(mode="after")
    def dtype_fits_the_device(self) -> VllmModel:
        if self.dtype == "bfloat16-or-float32" and self.needs.gpus:
            raise ValueError("dtype: bfloat16-or-float32 requires a CPU (needs.gpus: 0): choose another dtype for GPUs")
        return self

    @model_validator(mode="after")
    def code_is_pinned(self) -> VllmModel:
        if self.trust_remote_code and not is_commit(getattr(self.weights, "revision", None)):
            raise ValueError("trust_remote_code requires a commit in weights.revision, so that the code is pinned")
        return self


def checked_endpoint(address: str) -> str:
    """Return an endpoint's address unchanged. Raises ValueError for a query, a fragment, or an invalid host or port."""
    if "?" in address or "#" in address:
        raise ValueError(
            "expected an address without query or fragment: request paths are appended to it; keys belong in key_env"
        )
    if not address.isprintable():
        raise ValueError("the address contains a control character")
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"the address cannot be parsed: {error}") from None
    if not parts.hostname or port == 0:
        raise ValueError("expected an address with a host and, if it names a port, a port from 1 to 65535")
    return address


def checked_key_name(variable: str) -> str:
    """Return the name of an API key's environment variable unchanged.

    Raises ValueError if the name does not mark a secret, or is that of a cloud's or a cluster's credentials.
    """
    if not is_named_as_secret(variable):
        raise ValueError(
            "the variable's name must mark a secret (..._KEY, ..._TOKEN), so that model servers do not inherit it"
        )
    if re.match(r"(?:AWS|AZURE|GOOGLE|GCP|GITHUB|GH|SLURM|VAULT|KUBE)_", variable) and "API_KEY" not in variable:
        raise ValueError(
            "credentials of a cloud or a cluster are never sent to an endpoint: create an API key for the endpoint"
        )
    return variable


class HostedModel(ServedModel):
    """A model behind an OpenAI-compatible endpoint of a provider."""

    engine: Literal["hosted"]
    model: str = Field(description="Name of the model at the endpoint, preferably of a dated snapshot.")
    base_url: Annotated[str, AfterValidator(checked_endpoint)] = Field(
        pattern=r"^https?://[^@\s]+$",
        description="Address of the endpoint up to and including `/v1`, without user, password or query.",
    )
    key_env: Annotated[str, Field(pattern=r"^[A-Z_][A-Z0-9_]*$"), AfterValidator(checked_key_name)] | None = Field(
        None,
        description="*Name* of the environment variable with the API key, such as `EXAMPLE_KEY`; `null`: no key.",
    )
    concurrency: int = Field(16, ge=1, le=4096, description="Maximum number of requests in flight.")
    price: Price | None = Field(None, description="Prices of the model, used for the cost of a run and for budgets.")
    batch: bool = Field(
        False,
        description=(
            "Send requests through the provider's batch API: answers within a day, usually for half the price "
            "(docs/models.md). Changing it repeats no answered request."
        ),
    )
    batch_requests: int | None = Field(
        None, ge=1, le=1_000_000, description="Maximum number of requests in one batch; `null`: the provider's limit."
    )
    batch_mb: float | None = Field(
        None, gt=0, le=1024, description="Maximum size of one batch in MB; `null`: the provider's limit."
    )
    needs: Needs = Needs(cpus=1, mem_mb=2000)

    @property
    def full_price(self) -> Price | None:
        """Prices with the provider's price of batches, if the entry does not set one."""
        if self.price is None or self.price.batch is not None:
            return self.price
        return self.price.model_copy(update={"batch": batch_api_of(self.base_url).price_factor})

    @model_validator(mode="after")
    def has_batch_api(self) -> HostedModel:
        if self.batch and (api := batch_api_of(self.base_url)).form != "openai":
            host = urlsplit(self.base_url).hostname
            raise ValueError(f"batch: the batch API of {host} does not have OpenAI's form ({api.page}): remove batch")
        return self


class BaselineModel(Model):
    """A trivial tutor without a server, whose value is a metric's floor or ceiling."""

    engine: Literal["baseline"]
    tutor: str = Field(
        description="Name of a trivial tutor, defined by a benchmark or in `workflow/maieutic/replies/baselines.py`."
    )
    group: str = "baseline"
    needs: Needs = Needs(cpus=1, mem_mb=1000, runtime=30)


# Braces are excluded: Snakemake reads them as wildcards.
RepliesFile = Annotated[FilePath, Field(pattern=r"^[^{}\n]*\.(jsonl|csv|json|eval)$")]


class RecordedModel(Model):
    """A tutor whose replies already exist: a product, a person, or a system without an endpoint."""

    engine: Literal["recorded"]
    file: RepliesFile | Annotated[list[RepliesFile], Field(min_length=1)] | None = Field(
        None,
        description=(
            "File with the replies, or a list of files: JSON lines or CSV with `reply` and `id` or `prompt`, "
            "or another tool's log (docs/models.md)."
        ),
    )
    dataset: str | Annotated[list[str], Field(min_length=1)] | None = Field(
        None,
        description=(
            "Dataset of the registry that contains the replies, or a list of datasets, instead of `file`. It needs "
            "`form`."
        ),
    )
    form: str | None = Field(
        None,
        description=(
            "Published format of the file or dataset, if any: `mrbench` (JSON with `anno_llm_responses` or "
            "`tutor_responses`), `mathtutorbench` (`generations-MODEL-TASK.json`, one file per task) or "
            "`gsm8k_solutions` (GSM8K's `example_model_solutions.jsonl`)."
        ),
    )
    speaker: str | None = Field(
        None,
        description="Name of this tutor in a `file` in a benchmark's format that has replies from several tutors.",
    )
    tasks: list[str] | None = Field(
        None,
        min_length=1,
        description=(
            "Benchmarks, or tasks as `benchmark/task`, to which the replies belong; the run's other tasks are not "
            "asked. `null`: all tasks."
        ),
    )
    images: bool = Field(True, description="Set to `false` if the recorded tutor did not see the items' pictures.")
    needs: Needs = Needs(cpus=1, mem_mb=1000, runtime=30)

    def has_task(self, benchmark: str, task: str) -> bool:
        """Return True if the tutor has replies to a task."""
        return self.tasks is None or benchmark in self.tasks or f"{benchmark}/{task}" in self.tasks

    @property
    def datasets(self) -> list[str]:
        """The datasets with the tutor's replies; empty if the replies are in files of a user."""
        return [self.dataset] if isinstance(self.dataset, str) else self.dataset or []

    @property
    def files(self) -> list[str]:
        """The user's files with the tutor's replies; empty if the replies are in a dataset."""
        return [self.file] if isinstance(self.file, str) else self.file or []

    @model_validator(mode="after")
    def one_form(self) -> RecordedModel:
        if self.speaker is not None and self.form is None:
            raise ValueError("speaker needs form: speaker selects one tutor in a file in a published format")
        if (self.file is None) == (self.dataset is None):
            raise ValueError("set either file (a file of your own) or dataset (a dataset of the registry)")
        if self.dataset is not None and self.form is None:
            raise ValueError("dataset needs form: form is the format of the dataset's replies")
        return self


class WeightsOnly(Model):
    """Weights that are not a tutor: a base for training, or a sentence encoder."""

    engine: Literal["weights"]
    weights: AnyWeights = Field(
        description=(
            "Source of the weights: `repo` and `revision` (a 40-digit commit); `path`; or `package`, `version`, `file` "
            "and `sha256`."
        )
    )
    trust_remote_code: Literal[False] = Field(
        False, description="Always `false`: training never runs code from the repository of the weights."
    )


class Training(StrictModel):
    """Settings of a training on base weights. The defaults are those of MathTutorBench, Appendix C.1, not TRL's."""

    base: str = Field(description="Registry entry with the base model's weights.")
    layers: int | None = Field(
        None, ge=1, description="Number of the base model's first layers to keep; `null`: all layers."
    )
    freeze_embeddings: bool = Field(False, description="Leave the token embeddings unchanged.")
    learning_rate: float = Field(1e-5, gt=0, description="Learning rate of AdamW (default: the paper's).")
    epochs: float = Field(1, gt=0, le=10_000, description="Number of passes over the examples.")
    batch_size: int = Field(16, ge=1, description="Number of examples per optimiser step.")
    weight_decay: float = Field(0.0, ge=0, description="Weight decay of AdamW.")
    max_length: int | None = Field(
        None,
        ge=16,
        description="Maximum length of a conversation in tokens; `null`: the base model's context length.",
    )
    seed: int = Field(
        42, ge=0, lt=2**32, description="Random seed for the order of examples and for the weights of a new head."
    )
    micro_batch: int = Field(
        4,
        ge=1,
        description=(
            "Number of examples per forward pass. It must divide `batch_size`; on a GPU, the largest that fits in "
            "memory is the fastest."
        ),
    )
    checkpoint_seconds: float = Field(
        600, gt=0, le=DAY, description="Seconds between checkpoints. A killed training loses at most this much work."
    )

    @model_validator(mode="after")
    def whole_steps(self) -> Training:
        if self.batch_size % self.micro_batch:
            raise ValueError("micro_batch must divide batch_size")
        return self


class PreferenceTraining(Training):
    """Training of a reward model on preference pairs with the ranking loss (MathTutorBench, equation 1)."""

    overlong: Literal["none", "cut"] = Field(
        "none",
        description=(
            "Treatment of conversations longer than `max_length`: `none` omits and counts them; `cut` drops their "
            "oldest tokens."
        ),
    )
    mix: dict[str, float] = Field(
        {},
        description=(
            "Share of pairs to use (above 0, at most 1) from each source: `gsm8k_inpainted`, `mathdial`, `mrbench`, "
            "`ultrafeedback`; `{}`: the head stays untrained."
        ),
    )
    pretrain: dict[str, float] = Field(
        {},
        description=(
            "Share of pairs to use (above 0, at most 1) from each source in a first training stage, before `mix`; "
            "`{}`: no such stage."
        ),
    )
    margin: bool = Field(False, description="Include the preference margin in the loss.")

    @model_validator(mode="after")
    def shares(self) -> PreferenceTraining:
        for key, shares in (("mix", self.mix), ("pretrain", self.pretrain)):
            for source, share in shares.items():
                if not 0 < share <= 1:
                    raise ValueError(f"expected {key}.{source} to be above 0 and at most 1, found {share:g}")
        if self.pretrain and not self.mix:
            raise ValueError("pretrain requires mix: pretrain is the stage before the training on mix")
        if both := sorted(self.mix.keys() & self.pretrain.keys()):
            raise ValueError(f"{both[0]} is in both mix and pretrain: name each source once")
        return self


class RewardModel(Model):
    """A sequence classifier with one output, published (`weights`) or trained by this run (`train`)."""

    engine: Literal["reward"]
    weights: AnyWeights | None = Field(
        None, description="Weights of a published reward model. Set either `weights` or `train`."
    )
    train: PreferenceTraining | None = Field(None, description="Settings of a reward model that this run trains.")
    trained_on: list[str] = Field(
        [],
        description=(
            "Sources of the pairs on which a published model was trained. The clean win rate excludes items from these "
            "sources."
        ),
    )
    prompt: Literal["extended", "simple", "none"] = Field(
        "extended",
        description=(
            "Instruction before the conversation: `extended` (MathTutorBench, Figure 7), `simple` (Figure 6) or `none`."
        ),
    )
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="Data type in which replies are scored; `auto`: bfloat16 on a GPU, else float32."
    )
    max_length: int | None = Field(
        None, ge=16, description="Maximum length of a conversation in tokens; `null`: the model's context length."
    )
    overlong: Literal["none", "cut"] = Field(
        "none",
        description=(
            "Treatment of conversations longer than `max_length`: `none` leaves them without a score and counts them; "
            "`cut` drops their oldest tokens."
        ),
    )
    token_budget: int = Field(
        4096,
        ge=1,
        description=(
            "Maximum number of tokens in one forward pass, including padding. On a GPU, use tens of thousands. "
            "Changing it recomputes nothing."
        ),
    )
    trust_remote_code: bool = Field(
        False, description="Run Python code from the weights' repository, at its pinned commit."
    )
    adapter: Literal["internlm2"] | None = Field(
        None,
        description=(
            "Adapter for a published model that transformers cannot load as a sequence classifier: `internlm2` runs "
            "code from the pinned commit of InternLM2's repository."
        ),
    )
    published_scores: str | None = Field(
        None,
        pattern=r"^[a-z0-9_]+$",
        description=(
            "File in `resources/rewards/published_scores` with scores that a paper prints for this model, such as "
            "`mathtutorbench`. The run compares the model's float32 scores with them."
        ),
    )
    group: str = "reward model"

    @model_validator(mode="after")
    def one_origin(self) -> RewardModel:
        if (self.weights is None) == (self.train is None):
            raise ValueError("expected either 'weights' or 'train'")
        if self.adapter and getattr(self.weights, "repo", None) is None:
            raise ValueError("adapter requires weights.repo, so that its code comes from a pinned commit")
        if self.trust_remote_code and not is_commit(getattr(self.weights, "revision", None)):
            raise ValueError("trust_remote_code requires a commit in weights.revision, so that the code is pinned")
        return self


class CriteriaTraining(Training):
    """Training of binary classifiers, one per criterion (MathTutorBench, Appendix D)."""

    epochs: float = Field(3, gt=0, description="Number of passes over the examples.")
    overlong: Literal["cut"] = Field(
        "cut", description="Dialogues longer than `max_length` lose their oldest tokens and are counted."
    )
    test_share: float = Field(
        0.2, ge=0, lt=1, description="Share of dialogues held out for the test; `0`: train on all dialogues."
    )
    criteria: list[str] = Field(
        [
            "Actionability",
            "Providing_Guidance",
            "Tutor_Tone",
            "Mistake_Identification",
            "Mistake_Location",
            "Revealing_of_the_Answer",
        ],
        min_length=1,
        description="Names of the criteria in MRBench. One classifier is trained for each.",
    )

    @model_validator(mode="after")
    def once_each(self) -> CriteriaTraining:
        if len(set(self.criteria)) < len(self.criteria):
            raise ValueError("a criterion is listed twice")
        return self


class CriteriaModel(Model):
    """Classifiers that each detect one criterion in a reply. The sums of their outputs compare two replies."""

    engine: Literal["criteria"]
    train: CriteriaTraining = Field(description="Training of the classifiers.")
    group: str = "criteria classifiers"


class JudgeModel(Model):
    """A judge: a model in this registry with rubric cards, a panel of other judges, or word lists."""

    engine: Literal["judge"]
    model: str | None = Field(
        None, description="Registry entry of the model that judges. Resources are set by that entry's `needs`."
    )
    judges: list[str] = Field(
        [],
        description=(
            "Other judges in `run.judges` that form a panel, instead of `model`. "
            "Their verdicts are combined for the rubrics and pairs that all of them share."
        ),
    )
    words: bool = Field(
        False,
        description=(
            "Judge by the benchmarks' word lists and rules (MRBench's dimensions, `kmp_error_reason`) instead of a "
            "`model`. These verdicts are a baseline that real judges should beat."
        ),
    )
    vote: Literal["majority", "mean"] = Field(
        "majority",
        description=(
            "Verdict of a panel: `majority` (most frequent) or `mean` (label nearest the mean, for ordinal scales)."
        ),
    )
    rubrics: list[str] = Field(
        [],
        description=(
            "Rubric cards for replies, listed below. Each task uses the first of these cards that suits the task. "
            "`[]`: judge only pairs or tags."
        ),
    )
    repeats: int = Field(
        1,
        ge=1,
        le=MOST_REPEATS,
        description=(
            "Number of verdicts about each reply. Each verdict after the first has its own seed. The page shows how "
            "often they differ."
        ),
    )
    pairs: list[str] = Field(
        [],
        description=(
            "Rubric cards for preference pairs: `pairs_simple`, `pairs_extended`, `pairs_json`. Each pair is judged in "
            "both orders."
        ),
    )
    tags: list[str] = Field(
        [], description="Rubric cards for `run.taggers`: `tutorbench_bloom`, `tutorbench_criterion`."
    )
    max_tokens: int | None = Field(
        None,
        ge=1,
        le=MOST_TOKENS,
        description="Maximum number of tokens in an answer, instead of the model's `max_tokens`.",
    )
    reasons: bool = Field(
        True,
        description="Set to `false` to request verdicts without reasons from servers that support JSON schemas.",
    )
    family: list[str] = Field(
        [],
        description=(
            "Tutors in labelled sets that belong to the judge's model family (MRBench: `GPT4`, `Llama31405B`...). "
            "The report tests whether the judge favours them."
        ),
    )
    label_limit: int | None = Field(None, ge=1, description="Value of `run.label_limit` for this judge.")
    max_unreadable: float | None = Field(None, ge=0, le=1, description="Value of `run.max_unreadable` for this judge.")
    group: str = "judge"

    @model_validator(mode="after")
    def has_work(self) -> JudgeModel:
        if [self.model is not None, bool(self.judges), self.words].count(True) != 1:
            raise ValueError("expected exactly one of 'model', 'judges' (a panel) and 'words: true'")
        if self.model is None:
            return self.checked_panel()
        if not self.rubrics and not self.pairs and not self.tags:
            raise ValueError("expected at least one of 'rubrics', 'pairs' and 'tags'")
        if self.needs != Needs():
            raise ValueError("needs: set this key in the entry of the judge's model instead")
        return self

    def checked_panel(self) -> JudgeModel:
        """Return this panel or word-list judge. Raises ValueError for keys that only a judge with `model` may have."""
        if self.judges and (len(self.judges) < 2 or len(set(self.judges)) < len(self.judges)):
            raise ValueError("expected a panel of two or more different 'judges'")
        if self.words and not self.rubrics:
            raise ValueError("word lists require 'rubrics'")
        only_models = ("tags", "max_tokens", "label_limit", "needs", *(("pairs", "family") if self.words else ()))
        if refused := [
            key
            for key in only_models
            if getattr(self, key) != type(self).model_fields[key].get_default(call_default_factory=False)
        ]:
            what = "a panel sends no requests" if self.judges else "word lists send no requests"
            fix = (
                f"set {', '.join(map(repr, refused))} in the entries of its judges"
                if self.judges
                else f"remove {', '.join(refused)}"
            )
            raise ValueError(f"{what}: {fix}")
        return self


Tutor = VllmModel | HostedModel | BaselineModel | RecordedModel
ModelEntry = Annotated[
    VllmModel | HostedModel | BaselineModel | RecordedModel | WeightsOnly | RewardModel | CriteriaModel | JudgeModel,
    Field(discriminator="engine"),
]
