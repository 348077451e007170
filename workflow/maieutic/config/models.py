"""What an entry of the model registry may say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from maieutic.config.served import faults_of_arguments, faults_of_variables
from maieutic.config.thinking import Dialect, Effort, dialect_of, thinking_fields
from maieutic.core.errors import Unpinned
from maieutic.core.secrets import FIELD, is_named_as_secret

Endpoint = Literal["chat", "completions"]
COMMIT = r"^[0-9a-f]{40}$"
REVISION = r"^[A-Za-z0-9][A-Za-z0-9._/-]*$"
LOOK_UP = "maieutic pin --configfile RUN_FILE looks it up"
PIN = f"{LOOK_UP}, or set it here (40 hexadecimal digits)"


def is_commit(revision: str | None) -> bool:
    """Whether a revision is a commit, and no branch, tag or nothing."""
    return re.fullmatch(COMMIT, revision or "") is not None


SHA256 = r"^[0-9a-f]{64}$"
DAY = 86_400  # seconds
MOST_TOKENS = 10_000_000  # of one answer


def can_be_a_path(path: str) -> str:
    """The path. Raises ValueError for one that a rule cannot name: Snakemake reads braces as wildcards."""
    if wrong := sorted({letter for letter in path if letter in "{}" or not letter.isprintable()}):
        shown = ", ".join(map(repr, wrong))
        raise ValueError(f"a path here has no braces, line breaks or control characters, and this one has {shown}")
    if path.startswith("-"):
        raise ValueError(f"a path here does not begin with a hyphen: write ./{path}")
    return path


FilePath = Annotated[str, AfterValidator(can_be_a_path)]


class Entry(BaseModel):
    """A closed mapping: a misspelt key is an error."""

    model_config = ConfigDict(
        defer_build=True, extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False
    )


class PackagedWeights(Entry):
    """Weights inside a Python package: safetensors as they are, GGUF converted once to safetensors."""

    package: str = Field(description="Package index name")
    version: str = Field(description="Exact version of the package")
    file: str = Field(description="GGUF or safetensors file inside the package, its tokenizer beside it")
    sha256: str = Field(pattern=SHA256, description="SHA-256 of the resulting model.safetensors")

    def refuse_unpinned(self, place: str) -> None:
        """Packaged weights are always pinned."""


class Weights(Entry):
    """Weights from the hub (`repo` and `revision`) or from a folder (`path`)."""

    repo: str | None = Field(None, description="Hub name, org/model")
    revision: str | None = Field(
        None, pattern=REVISION, description="Commit of the hub repository, or a branch or tag for `maieutic pin`"
    )
    path: FilePath | None = Field(None, description="Folder with safetensors, config and tokenizer")

    @model_validator(mode="after")
    def one_source(self) -> Weights:
        if (self.repo is None) == (self.path is None):
            raise ValueError("give either 'repo' with 'revision', or 'path'")
        return self

    def refuse_unpinned(self, place: str) -> None:
        """Raise UserError for a hub repository without a commit."""
        if self.repo and not is_commit(self.revision):
            raise Unpinned(f"{place}.revision", f"{self.repo} has no pinned commit", PIN)


class TunedWeights(Entry):
    """Weights that this run makes, by fine-tuning."""

    tuned: str = Field(description="Name in `tunings`")

    def refuse_unpinned(self, place: str) -> None:
        """What is made here is pinned by what it is made of."""


def kind_of_weights(value: object) -> str:
    """Which of the kinds an entry means, so that its faults are told in its own terms."""
    keys = set(value) if isinstance(value, dict) else set(type(value).model_fields) if isinstance(value, Entry) else ()
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


class Needs(Entry):
    """What one job of this model asks of a machine. Never part of a request key."""

    gpus: int = Field(0, ge=0, le=1024, description="GPUs of one server (its tensor parallel size)")
    cpus: int = Field(2, ge=1, le=4096, description="CPU cores")
    mem_mb: int = Field(8000, ge=100, le=100_000_000, description="Memory in MB")
    runtime: int = Field(240, ge=1, le=527_040, description="Time limit of one attempt, in minutes")


class Price(Entry):
    """Price of a hosted model in US dollars per million tokens."""

    input: float = Field(ge=0, description="US dollars per million tokens of prompts")
    output: float = Field(ge=0, description="US dollars per million tokens of answers, thinking included")
    cached: float | None = Field(
        None,
        ge=0,
        description="US dollars per million tokens of prompts that the provider had in its cache; `null`: as `input`",
    )

    def usd(self, prompt_tokens: float, answer_tokens: float, cached_tokens: float = 0) -> float:
        """Return the cost in US dollars. cached_tokens: those of the prompts that the provider had in its cache."""
        cached = self.input if self.cached is None else self.cached
        fresh = max(prompt_tokens - cached_tokens, 0)
        return (fresh * self.input + cached_tokens * cached + answer_tokens * self.output) / 1e6


class Model(Entry):
    """What every entry may say."""

    label: str | None = Field(
        None, description="name in the report; changing it recomputes nothing. `null`: the entry's key"
    )
    group: str = Field("general", description="group in the leaderboard")
    paper: str | dict[str, str] | None = Field(
        None,
        description=(
            "the model's name in a paper's table, for the comparison; `{BENCHMARK: NAME}` where several "
            "papers print that name, or print it differently. A name that no table has is refused"
        ),
    )
    licence: str | None = Field(None, description="of the weights, for `maieutic sbom`; recomputes nothing")
    notice: str | None = Field(None, description="caution that stands beside every number of this model")
    needs: Needs = Field(Needs(), description="what one job asks of a machine; never part of a request key")


# Of a request: the task's own, which no entry may replace.
ASKED = {"messages", "prompt", "input", "model", "n", "stream", "stop", "seed"}


class ServedModel(Model):
    """What served and hosted models share."""

    endpoint: Endpoint | Literal["responses"] | None = Field(
        None,
        description=(
            "`chat` or `completions`, instead of the card's; `responses`: OpenAI's Responses API, for models that "
            "answer there alone"
        ),
    )
    protocol: str | None = Field(
        None, description="instead of `run.protocol`, for this tutor: a row of its own beside the same model without it"
    )
    prompt_role: Literal["system", "user"] | None = Field(
        None,
        description=(
            "who says a prompt that stands alone in chat mode: `user` for a model that takes no system "
            "message; left out: what the card says (MathTutorBench's: `system`, as released), else `user` "
            "for hosted models, since several endpoints refuse a lone system message, and `system` for those"
            " that we serve"
        ),
    )
    concurrency: int = Field(256, ge=1, le=4096, description="requests in flight at once")
    shards: int = Field(
        1,
        ge=1,
        le=256,
        description="jobs that a benchmark's items are dealt out to, each with a server of its own where we serve it",
    )
    request_timeout: float = Field(600, gt=0, le=DAY, description="seconds until one try is given up")
    attempts: int = Field(8, ge=1, le=1000, description="tries before the job fails")
    patience: float = Field(
        3600,
        ge=0,
        le=7 * DAY,
        description="seconds that a server may make everybody wait by one `Retry-After`; a longer one is cut to it",
    )
    answer_mb: float = Field(32, gt=0, le=1024, description="MB of one answer's body; a longer one is a failed try")
    grace: float = Field(
        20,
        ge=0,
        le=30,
        description=(
            "seconds that a job which is told to end (SIGTERM, Ctrl-C, `scancel`, `make recover`) still takes the "
            "answers to what it has asked; SLURM kills after 30 (`KillWait`)"
        ),
    )
    max_tokens: int | None = Field(
        None, ge=1, le=MOST_TOKENS, description="upper bound on the cards' `max_tokens` for this model"
    )
    max_tokens_as: Literal["max_tokens", "max_completion_tokens"] = Field(
        "max_tokens", description="the name under which the server takes the bound; models that think want the longer"
    )
    thinking: bool | Effort | Annotated[int, Field(ge=1, le=MOST_TOKENS, strict=True)] | None = Field(
        None,
        description=(
            "how much the model thinks before it answers: `false`, `true`, an effort (`low`, `medium`, `high` ...) or "
            "a number of tokens, as far as the endpoint takes it; `null`: its default. Part of what is asked"
        ),
    )
    thinking_as: Dialect | None = Field(
        None,
        description=(
            "in which words `thinking` is asked for: `reasoning_effort`, `anthropic` (`thinking`, `output_config`), "
            "`chat_template` (`enable_thinking`); `null`: as the host of `base_url` takes it, `chat_template` for vLLM"
        ),
    )
    thinking_tokens: int = Field(
        0,
        ge=0,
        le=MOST_TOKENS,
        description=(
            "tokens for thinking, added to the cards' `max_tokens`: most endpoints count thinking within that bound, "
            "and one that is all spent on thinking leaves an empty answer"
        ),
    )
    extra_body: dict[str, object] = Field(
        {}, description="further fields of every request (no secrets: they are saved)"
    )
    structured: bool = Field(
        False,
        description=(
            "whether the server decodes by a JSON schema (`response_format`), which judges use where their "
            "rubric's answer is JSON; our own servers do, a hosted one where you say so"
        ),
    )
    images: bool = Field(
        False,
        description="whether it takes pictures; a model that takes none (the default) is not asked items with some",
    )
    user_last: bool = Field(
        False,
        description=(
            "the server takes no conversation that ends with the assistant's words (Claude with thinking; "
            "others would go on with them): the student's solution of a text-only TutorBench sample is then "
            "said by the user, and the page says so"
        ),
    )
    omit: list[Literal["stop", "temperature", "seed", "max_tokens"]] = Field(
        [],
        description=(
            "parameters that the server refuses. A model that thinks aloud needs `omit: [stop]`, or a stop "
            "string ends its thinking; answers are cut at the stop strings afterwards"
        ),
    )

    @property
    def thinking_body(self) -> dict[str, object]:
        """Fields of every request that ask for thinking."""
        dialect = self.thinking_as or dialect_of(getattr(self, "base_url", None))
        return thinking_fields(self.thinking, dialect, self.endpoint)

    @property
    def extra_fields(self) -> dict[str, object]:
        """Fields of every request that the entry adds: thinking, then `extra_body`."""
        return {**self.thinking_body, **self.extra_body}

    def bound(self, *limits: int | None) -> int:
        """Return `max_tokens` of a request: the least limit, and what the model may think besides."""
        return min(filter(None, (*limits, self.max_tokens))) + self.thinking_tokens

    @model_validator(mode="after")
    def can_ask_for_thinking(self) -> ServedModel:
        _ = self.extra_fields
        return self

    @model_validator(mode="after")
    def asks_what_is_asked(self) -> ServedModel:
        if replaced := sorted(ASKED & set(self.extra_body)):
            raise ValueError(f"extra_body.{replaced[0]} would replace what is asked: leave it out")
        return self

    @model_validator(mode="after")
    def holds_no_secret(self) -> ServedModel:
        if fields := sorted(secret_fields(self.extra_body)):
            raise ValueError(f"extra_body.{fields[0]} is a secret's place: name its variable as key_env, it is saved")
        return self


# Of a request: what describes an answer may name anything, and what sounds like a key is none.
SCHEMAS = {"response_format", "json_schema", "guided_json", "structured_outputs", "properties", "tools"}
NO_SECRETS = {"prompt_cache_key"}


def secret_fields(content: object, before: str = "") -> Iterator[str]:
    """The keys within a mapping whose names say that they hold a secret."""
    if isinstance(content, dict):
        for key, value in content.items():
            if key in SCHEMAS:
                continue
            if FIELD.search(str(key)) and key not in NO_SECRETS:
                yield f"{before}{key}"
            yield from secret_fields(value, f"{before}{key}.")
    elif isinstance(content, list):
        for value in content:
            yield from secret_fields(value, before)


class Size(Entry):
    """Parameters of a model in billions, for estimates."""

    total: float = Field(gt=0, description="Billions of parameters that are stored")
    active: float | None = Field(None, gt=0, description="of them those that one token uses (mixtures of experts)")


class VllmModel(ServedModel):
    """Weights that a vLLM server of our own serves."""

    engine: Literal["vllm"]
    weights: TutorWeights = Field(
        description=(
            "`repo` and `revision`, a 40-digit commit; or `path`; or `package`, `version`, `file`, `sha256`; or "
            "`tuned`, a name in `tunings`"
        )
    )
    structured: bool = Field(True, description="Whether the server decodes by a JSON schema (response_format)")
    dtype: Literal["auto", "float32", "bfloat16", "float16", "bfloat16-or-float32"] = Field(
        "auto",
        description=(
            "of the served weights; `auto`: their own; `bfloat16-or-float32`, for trials on a CPU: bfloat16 where the "
            "processor computes in it, else float32, so that answers can differ between machines"
        ),
    )
    max_model_len: int | None = Field(None, ge=128, description="Context window in tokens; default: the model's own")
    engine_args: list[str] = Field([], description="further arguments of `vllm serve` that can change an answer")
    runtime_args: list[str] = Field([], description="further arguments of `vllm serve` that cannot")
    reviewed_args: list[str] = Field(
        [],
        description=(
            "arguments of `vllm serve` that load code or open a way in (plugins, middleware, connectors), which "
            "`engine_args` and `runtime_args` may not have: whoever writes this file vouches for them"
        ),
    )
    environment: dict[str, str] = Field(
        {}, description="settings of the engine and its libraries (`VLLM_...`, `OMP_...`), none that loads code"
    )
    trust_remote_code: bool = Field(False, description="run the code of the pinned commit")
    size: Size | None = Field(
        None,
        description="billions of parameters (`total`, `active`), for `maieutic estimate`; `null`: as its name says",
    )
    start_timeout: float = Field(1800, gt=0, le=DAY, description="Seconds until the server must be ready")

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
            raise ValueError("dtype: bfloat16-or-float32 is for a CPU (needs.gpus: 0); on GPUs name one, or auto")
        return self

    @model_validator(mode="after")
    def code_is_pinned(self) -> VllmModel:
        if self.trust_remote_code and not is_commit(getattr(self.weights, "revision", None)):
            raise ValueError("trust_remote_code needs weights.revision: only a pinned commit may run code")
        return self


def can_be_an_endpoint(address: str) -> str:
    """The address. Raises ValueError for one with a query, where keys stand, or without a host or a possible port."""
    if "?" in address or "#" in address:
        raise ValueError(
            "an endpoint has no query or fragment: the path of a request comes behind it, a key in key_env"
        )
    if not address.isprintable():
        raise ValueError("the address holds a control character")
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"the address cannot be read: {error}") from None
    if not parts.hostname or port == 0:
        raise ValueError("an endpoint has a host, and a port from 1 to 65535 where it names one")
    return address


def can_hold_a_key(variable: str) -> str:
    """The name of a variable. Raises ValueError for one that does not say that it holds a key, or holds a cloud's."""
    if not is_named_as_secret(variable):
        raise ValueError("the variable's name has to say so (..._KEY, ..._TOKEN): no served model inherits it then")
    if re.match(r"(?:AWS|AZURE|GOOGLE|GCP|GITHUB|GH|SLURM|VAULT|KUBE)_", variable) and "API_KEY" not in variable:
        raise ValueError("credentials of a cloud or a cluster are sent to no endpoint: make a key for this one")
    return variable


class HostedModel(ServedModel):
    """A model behind an OpenAI-compatible endpoint of somebody else's."""

    engine: Literal["hosted"]
    model: str = Field(description="The model's name at the endpoint; pin a dated snapshot where there is one")
    base_url: Annotated[str, AfterValidator(can_be_an_endpoint)] = Field(
        pattern=r"^https?://[^@\s]+$", description="Endpoint, up to and including /v1; no user, password or query"
    )
    key_env: Annotated[str, Field(pattern=r"^[A-Z_][A-Z0-9_]*$"), AfterValidator(can_hold_a_key)] | None = Field(
        None,
        description="the *name* of the environment variable that holds the key: `EXAMPLE_KEY`, `EXAMPLE_TOKEN`",
    )
    concurrency: int = Field(16, ge=1, le=4096, description="Requests in flight at once")
    price: Price | None = Field(None, description="for the cost of a run on the page")
    needs: Needs = Needs(cpus=1, mem_mb=2000)


class BaselineModel(Model):
    """A trivial tutor that needs no server and gives a metric its floor or ceiling."""

    engine: Literal["baseline"]
    tutor: str = Field(
        description="the name of a trivial tutor: a benchmark's own, or one of `workflow/maieutic/replies/baselines.py`"
    )
    group: str = "baseline"
    needs: Needs = Needs(cpus=1, mem_mb=1000, runtime=30)


RepliesFile = Annotated[
    FilePath, Field(pattern=r"^[^{}\n]*\.(jsonl|csv|json|eval)$")
]  # braces are Snakemake's wildcards


class RecordedModel(Model):
    """A tutor whose replies exist already: a product, a person, a system that is no endpoint."""

    engine: Literal["recorded"]
    file: RepliesFile | Annotated[list[RepliesFile], Field(min_length=1)] = Field(
        description=(
            "JSON lines or CSV with `reply` (of a task of several turns a list), and `id` of the item or `prompt`, "
            "its whole first prompt; `task` where an id stands in several. `maieutic items` writes what there is to "
            "answer. Also read as they stand: samples of lm-evaluation-harness, logs of Inspect (`.eval`, `.json`), "
            "outputs of OpenAI's batch API, chat messages. Several files: a list"
        ),
    )
    form: str | None = Field(
        None,
        description=(
            "instead, a benchmark's own format: `mrbench` (JSON: `conversation_history` with `anno_llm_responses` or "
            "`tutor_responses`), `mathtutorbench` (its released `generations-MODEL-TASK.json`, a file a task)"
        ),
    )
    speaker: str | None = Field(
        None, description="with a `form` of several tutors' replies: whose, by the name in that file"
    )
    images: bool = Field(True, description="whether it was shown the pictures of items that have some")
    needs: Needs = Needs(cpus=1, mem_mb=1000, runtime=30)

    @property
    def files(self) -> list[str]:
        """The file, or all of them."""
        return [self.file] if isinstance(self.file, str) else self.file

    @model_validator(mode="after")
    def one_form(self) -> RecordedModel:
        if self.speaker is not None and self.form is None:
            raise ValueError("speaker goes with form: a benchmark's file that has several tutors' replies")
        return self


class WeightsOnly(Model):
    """Weights that no tutor uses: the base of reward models and classifiers."""

    engine: Literal["weights"]
    weights: AnyWeights = Field(description="as of `vllm`")
    trust_remote_code: Literal[False] = Field(False, description="Never: a base is trained without code of its own")


class Training(Entry):
    """How a scalar head is trained on a base. Defaults: MathTutorBench, Appendix C.1 (not TRL's own)."""

    base: str = Field(description="an entry with weights")
    layers: int | None = Field(None, ge=1, description="keep the base's first layers only; `null`: all")
    freeze_embeddings: bool = Field(False, description="Leave the token embeddings as they are")
    learning_rate: float = Field(1e-5, gt=0, description="the paper's; AdamW")
    epochs: float = Field(1, gt=0, le=10_000, description="passes over the examples")
    batch_size: int = Field(16, ge=1, description="Examples of one optimiser step")
    weight_decay: float = Field(0.0, ge=0, description="of AdamW")
    max_length: int | None = Field(None, ge=16, description="tokens of a conversation; `null`: the base's context")
    seed: int = Field(42, ge=0, lt=2**32, description="of the order of the examples and of a new head")
    micro_batch: int = Field(4, ge=1, description="examples in memory at once; divides `batch_size`")
    checkpoint_seconds: float = Field(600, gt=0, le=DAY, description="a killed training loses at most this much")

    @model_validator(mode="after")
    def whole_steps(self) -> Training:
        if self.batch_size % self.micro_batch:
            raise ValueError("micro_batch must divide batch_size")
        return self


class PreferenceTraining(Training):
    """A reward model's training on preference pairs by the ranking loss (MathTutorBench, equation 1)."""

    overlong: Literal["none", "cut"] = Field(
        "none", description="a longer conversation: `none`: left out and counted; `cut`: it loses its oldest tokens"
    )
    mix: dict[str, float] = Field(
        {},
        description=(
            "share (0 to 1] of each source of pairs: `gsm8k_inpainted`, `mathdial`, `mrbench`, "
            "`ultrafeedback`; `{}`: an untrained head"
        ),
    )
    pretrain: dict[str, float] = Field(
        {}, description="share (0 to 1] of each source of pairs for a first stage, on which that of `mix` builds"
    )
    margin: bool = Field(False, description="whether the margin is in the loss")

    @model_validator(mode="after")
    def shares(self) -> PreferenceTraining:
        for key, shares in (("mix", self.mix), ("pretrain", self.pretrain)):
            for source, share in shares.items():
                if not 0 < share <= 1:
                    raise ValueError(f"{key}.{source} is a share: more than 0, at most 1")
        if self.pretrain and not self.mix:
            raise ValueError("pretrain is a stage before that of mix, which names no source")
        if both := sorted(self.mix.keys() & self.pretrain.keys()):
            raise ValueError(f"pretrain.{both[0]} stands in mix too: name each source once")
        return self


class RewardModel(Model):
    """A sequence classifier with one output: published (`weights`) or trained here (`train`)."""

    engine: Literal["reward"]
    weights: AnyWeights | None = Field(None, description="a published reward model: either this or `train`")
    train: PreferenceTraining | None = Field(None, description="a reward model that this run trains")
    trained_on: list[str] = Field(
        [], description="sources of pairs that a published one has seen, for the clean win rate"
    )
    prompt: Literal["extended", "simple", "none"] = Field(
        "extended", description="its instruction: `extended` (the paper's Figure 7), `simple` (Figure 6) or `none`"
    )
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="of scoring; `auto`: bfloat16 on a GPU, else float32"
    )
    max_length: int | None = Field(None, ge=16, description="tokens of a conversation; `null`: the model's context")
    overlong: Literal["none", "cut"] = Field(
        "none",
        description="`none`: a longer conversation has no score and is counted; `cut`: it loses its oldest tokens",
    )
    token_budget: int = Field(
        4096,
        ge=1,
        description="tokens of one forward pass, padding counted; on a GPU tens of thousands. Recomputes nothing",
    )
    trust_remote_code: bool = Field(False, description="run the code of the pinned commit")
    adapter: Literal["internlm2"] | None = Field(
        None,
        description=(
            "for a published one that is no sequence classifier of transformers: `internlm2` (InternLM2's, by the "
            "code of the pinned commit)"
        ),
    )
    group: str = "reward model"

    @model_validator(mode="after")
    def one_origin(self) -> RewardModel:
        if (self.weights is None) == (self.train is None):
            raise ValueError("give either 'weights' or 'train'")
        if self.adapter and getattr(self.weights, "repo", None) is None:
            raise ValueError("adapter needs weights.repo: only a pinned commit may run code")
        if self.trust_remote_code and not is_commit(getattr(self.weights, "revision", None)):
            raise ValueError("trust_remote_code needs weights.revision: only a pinned commit may run code")
        return self


class CriteriaTraining(Training):
    """Binary classifiers, one a criterion (MathTutorBench, Appendix D)."""

    epochs: float = Field(3, gt=0, description="Passes over the examples")
    overlong: Literal["cut"] = Field("cut", description="A longer dialogue loses its oldest tokens, and is counted")
    test_share: float = Field(
        0.2, ge=0, lt=1, description="Share of the dialogues that are held out; 0: it learns from all of them"
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
        description="MRBench's names of the criteria",
    )

    @model_validator(mode="after")
    def once_each(self) -> CriteriaTraining:
        if len(set(self.criteria)) < len(self.criteria):
            raise ValueError("criteria names one twice")
        return self


class CriteriaModel(Model):
    """Classifiers that each find one criterion in a reply; their sum compares two replies."""

    engine: Literal["criteria"]
    train: CriteriaTraining = Field(description="how they are trained")
    group: str = "criteria classifiers"


class JudgeModel(Model):
    """A model of this registry with the rubric cards that it judges by, a panel of such judges, or lists of words."""

    engine: Literal["judge"]
    model: str | None = Field(None, description="the entry that answers, with its `needs`")
    judges: list[str] = Field(
        [],
        description=(
            "instead of `model`: other judges of `run.judges`, whose verdicts together are those of this panel; its "
            "rubrics and pairs are those that they share"
        ),
    )
    words: bool = Field(
        False,
        description=(
            "instead of `model`: the benchmarks' lists of words and rules judge, under the criteria that have one "
            "(MRBench's dimensions, `kmp_error_reason`): a floor that any judge has to beat"
        ),
    )
    vote: Literal["majority", "mean", "fitted"] = Field(
        "majority",
        description=(
            "of a panel: the most frequent verdict; the label nearest to the mean, for scales with an order; or the "
            "verdict with the most weight, each judge weighted by its agreement with people (docs/judges.md)"
        ),
    )
    rubrics: list[str] = Field(
        [],
        description=(
            "rubric cards (of a benchmark's `rubrics` folder, or your own in `resources/rubrics`) for replies; a task "
            "takes the first that its own card names. "
            "MRBench: `mrbench_critic` (the paper's prompt, one question a dimension), `mrbench_taxonomy` "
            "(ours, one question for all). KMP-Bench: `kmp_dialogue` (the paper's), `kmp_dialogue_both` (the"
            " reference in both places), `kmp_similar_problems`, `kmp_followup_problems`, "
            "`kmp_error_reason`; for small models `kmp_dialogue_short`, `kmp_similar_short`, "
            "`kmp_followup_short`. TutorBench: `tutorbench` (all criteria of a sample in one question), "
            "`tutorbench_each` (one each), `tutorbench_short`. None: the judge is measured on pairs, or "
            "tags, only"
        ),
    )
    pairs: list[str] = Field(
        [],
        description="cards for the Bridge pairs, each in both orders: `pairs_simple`, `pairs_extended`, `pairs_json`",
    )
    tags: list[str] = Field(
        [], description="cards by which it tags for `run.taggers`: `tutorbench_bloom`, `tutorbench_criterion`"
    )
    max_tokens: int | None = Field(
        None, ge=1, le=MOST_TOKENS, description="of an answer, instead of the model's own bound"
    )
    reasons: bool = Field(True, description="`false`: a server that decodes by a schema is asked for bare verdicts")
    family: list[str] = Field(
        [],
        description=(
            "tutors of the labelled sets that are of its own model family (MRBench: `GPT4`, `Llama31405B`, ...): the "
            "page shows whether it is kinder to them than people are"
        ),
    )
    label_limit: int | None = Field(None, ge=1, description="instead of `run.label_limit`, for this judge")
    max_unreadable: float | None = Field(
        None, ge=0, le=1, description="instead of `run.max_unreadable`, for this judge"
    )
    group: str = "judge"

    @model_validator(mode="after")
    def has_work(self) -> JudgeModel:
        if [self.model is not None, bool(self.judges), self.words].count(True) != 1:
            raise ValueError("give the 'model' that answers, or the 'judges' of a panel, or 'words: true'")
        if self.model is None:
            return self.checked_panel()
        if not self.rubrics and not self.pairs and not self.tags:
            raise ValueError("give 'rubrics', 'pairs' or 'tags', or several")
        if self.needs != Needs():
            raise ValueError("set 'needs' on the model that answers")
        return self

    def checked_panel(self) -> JudgeModel:
        """A judge that asks nobody. Raises ValueError for what only a model that is asked can have."""
        if self.judges and (len(self.judges) < 2 or len(set(self.judges)) < len(self.judges)):
            raise ValueError("'judges' of a panel are two different ones or more")
        if self.words and not self.rubrics:
            raise ValueError("give 'rubrics'")
        own = ("tags", "max_tokens", "label_limit", "needs", *(("pairs", "family") if self.words else ()))
        if given := [
            key
            for key in own
            if getattr(self, key) != type(self).model_fields[key].get_default(call_default_factory=False)
        ]:
            what = "a panel asks nobody" if self.judges else "lists of words ask nobody"
            fix = f"set {', '.join(map(repr, given))} on its judges" if self.judges else f"leave {', '.join(given)} out"
            raise ValueError(f"{what}: {fix}")
        return self


Tutor = VllmModel | HostedModel | BaselineModel | RecordedModel
ModelEntry = Annotated[
    VllmModel | HostedModel | BaselineModel | RecordedModel | WeightsOnly | RewardModel | CriteriaModel | JudgeModel,
    Field(discriminator="engine"),
]
