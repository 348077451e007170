"""What an entry of the model registry may say."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from maieutic.errors import UserError

Endpoint = Literal["chat", "completions"]
COMMIT = r"^[0-9a-f]{40}$"
SHA256 = r"^[0-9a-f]{64}$"


class Entry(BaseModel):
    """A closed mapping: a misspelt key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


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
    revision: str | None = Field(None, pattern=COMMIT, description="Commit of the hub repository; null is refused")
    path: str | None = Field(None, description="Folder with safetensors, config and tokenizer")

    @model_validator(mode="after")
    def one_source(self) -> Weights:
        if (self.repo is None) == (self.path is None):
            raise ValueError("give either 'repo' with 'revision', or 'path'")
        return self

    def refuse_unpinned(self, place: str) -> None:
        """Raise UserError for a hub repository without a commit."""
        if self.repo and not self.revision:
            raise UserError(
                f"{place}.revision",
                f"{self.repo} has no pinned commit",
                "look up the commit on the model's hub page and set it here (40 hexadecimal digits)",
            )


def kind_of_weights(value: object) -> str:
    """Which of the two an entry means, so that its faults are told in its own terms."""
    packaged = isinstance(value, PackagedWeights) or (isinstance(value, dict) and "package" in value)
    return "from-package" if packaged else "from-source"


AnyWeights = Annotated[
    Annotated[PackagedWeights, Tag("from-package")] | Annotated[Weights, Tag("from-source")],
    Discriminator(kind_of_weights),
]


class Needs(Entry):
    """What one job of this model asks of a machine. Never part of a request key."""

    gpus: int = Field(0, ge=0, description="GPUs of one server (its tensor parallel size)")
    cpus: int = Field(2, ge=1, description="CPU cores")
    mem_mb: int = Field(8000, ge=100, description="Memory in MB")
    runtime: int = Field(240, ge=1, description="Time limit of one attempt, in minutes")


class Price(Entry):
    """Price of a hosted model in US dollars per million tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)


class Model(Entry):
    """What every entry may say."""

    label: str | None = Field(None, description="Name in the report; default: the entry's key")
    group: str = Field("general", description="Group in the leaderboard")
    paper: str | dict[str, str] | None = Field(
        None, description="Name of this model in a paper's table; by benchmark where several print it"
    )
    notice: str | None = Field(None, description="Caution that stands beside every number of this model")
    needs: Needs = Needs()


class ServedModel(Model):
    """What served and hosted models share."""

    endpoint: Endpoint | None = Field(None, description="Overrides the card's endpoint")
    protocol: str | None = Field(None, description="Instead of run.protocol, for this tutor: a row of its own")
    prompt_role: Literal["system", "user"] | None = Field(
        None,
        description="Role of a prompt that stands alone in chat mode. user: for a model that takes no system message; "
        "null: the card's, else user for hosted models and system for those that we serve",
    )
    concurrency: int = Field(256, ge=1, description="Requests in flight at once")
    request_timeout: float = Field(600, gt=0, description="Seconds before one attempt is given up")
    attempts: int = Field(8, ge=1, description="Attempts at one request before the job fails")
    max_tokens: int | None = Field(None, ge=1, description="Upper bound on the cards' max_tokens for this model")
    extra_body: dict[str, object] = Field({}, description="Further fields of every request")
    structured: bool = Field(False, description="Whether the server decodes by a JSON schema (response_format)")
    images: bool = Field(False, description="Whether it takes pictures; without, it is not asked about items with some")
    user_last: bool = Field(
        False, description="It takes no conversation that ends with the assistant's words: the user says them"
    )
    omit: list[Literal["stop", "temperature", "seed", "max_tokens"]] = Field(
        [], description="Parameters the server refuses"
    )


class VllmModel(ServedModel):
    """Weights that a vLLM server of our own serves."""

    engine: Literal["vllm"]
    weights: AnyWeights
    structured: bool = Field(True, description="Whether the server decodes by a JSON schema (response_format)")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    max_model_len: int | None = Field(None, ge=128, description="Context window in tokens; default: the model's own")
    engine_args: list[str] = Field([], description="Further arguments of `vllm serve` that can change an answer")
    runtime_args: list[str] = Field([], description="Further arguments of `vllm serve` that cannot")
    environment: dict[str, str] = Field({}, description="Environment of the server, without secrets")
    trust_remote_code: bool = Field(False, description="Run code of the pinned commit; needs 'revision'")
    start_timeout: float = Field(1800, gt=0, description="Seconds until the server must be ready")

    @model_validator(mode="after")
    def code_is_pinned(self) -> VllmModel:
        if self.trust_remote_code and not getattr(self.weights, "revision", None):
            raise ValueError("trust_remote_code needs weights.revision: only a pinned commit may run code")
        return self


class HostedModel(ServedModel):
    """A model behind an OpenAI-compatible endpoint of somebody else's."""

    engine: Literal["hosted"]
    model: str = Field(description="The model's name at the endpoint; pin a dated snapshot where there is one")
    base_url: str = Field(
        pattern=r"^https?://[^@\s]+$", description="Endpoint, up to and including /v1; no user or password"
    )
    key_env: str | None = Field(None, pattern=r"^[A-Z_][A-Z0-9_]*$", description="Environment variable of the key")
    concurrency: int = Field(16, ge=1, description="Requests in flight at once")
    price: Price | None = None
    needs: Needs = Needs(cpus=1, mem_mb=2000)


class BaselineModel(Model):
    """A trivial tutor that needs no server and gives a metric its floor or ceiling."""

    engine: Literal["baseline"]
    tutor: str = Field(description="Name of the tutor in baselines.py")
    group: str = "baseline"
    needs: Needs = Needs(cpus=1, mem_mb=1000, runtime=30)


class WeightsOnly(Model):
    """Weights that no tutor uses: the base of reward models and classifiers."""

    engine: Literal["weights"]
    weights: AnyWeights
    trust_remote_code: Literal[False] = False


class Training(Entry):
    """How a scalar head is trained on a base. Defaults: MathTutorBench, Appendix C.1 (not TRL's own)."""

    base: str = Field(description="Entry of this registry whose weights are trained")
    layers: int | None = Field(None, ge=1, description="Keep the base's first layers only; null: all")
    freeze_embeddings: bool = Field(False, description="Leave the token embeddings as they are")
    learning_rate: float = Field(1e-5, gt=0)
    epochs: float = Field(1, gt=0)
    batch_size: int = Field(16, ge=1, description="Examples of one optimiser step")
    weight_decay: float = Field(0.0, ge=0)
    max_length: int | None = Field(None, ge=16, description="Tokens of a conversation; null: the base's context")
    seed: int = 42
    micro_batch: int = Field(4, ge=1, description="Examples in memory at once; divides batch_size")
    checkpoint_seconds: float = Field(600, gt=0, description="A killed training loses at most this much")

    @model_validator(mode="after")
    def whole_steps(self) -> Training:
        if self.batch_size % self.micro_batch:
            raise ValueError("micro_batch must divide batch_size")
        return self


class PreferenceTraining(Training):
    """A reward model's training on preference pairs by the ranking loss (MathTutorBench, equation 1)."""

    overlong: Literal["none", "cut"] = Field(
        "none", description="A longer conversation: none: left out and counted; cut: loses its oldest tokens"
    )
    mix: dict[str, float] = Field({}, description="Share (0 to 1] of each source of pairs; empty: an untrained head")
    margin: bool = Field(False, description="The margin in the loss")

    @model_validator(mode="after")
    def shares(self) -> PreferenceTraining:
        for source, share in self.mix.items():
            if not 0 < share <= 1:
                raise ValueError(f"mix.{source} is a share: more than 0, at most 1")
        return self


class RewardModel(Model):
    """A sequence classifier with one output: published (`weights`) or trained here (`train`)."""

    engine: Literal["reward"]
    weights: AnyWeights | None = Field(None, description="A published reward model")
    train: PreferenceTraining | None = Field(None, description="A reward model that this run trains")
    trained_on: list[str] = Field(
        [], description="Sources of pairs that a published one has seen, for the clean win rate"
    )
    prompt: Literal["extended", "simple", "none"] = Field("extended", description="Its instruction: resources/rewards")
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="Of scoring; auto: bfloat16 on a GPU, else float32"
    )
    max_length: int | None = Field(None, ge=16, description="Tokens of a conversation; null: the model's context")
    overlong: Literal["none", "cut"] = Field("none", description="A longer one: none: no score; cut: loses its start")
    token_budget: int = Field(4096, ge=1, description="Tokens of one forward pass, padding counted")
    trust_remote_code: bool = Field(False, description="Run code of the pinned commit; needs 'revision'")
    group: str = "reward model"

    @model_validator(mode="after")
    def one_origin(self) -> RewardModel:
        if (self.weights is None) == (self.train is None):
            raise ValueError("give either 'weights' or 'train'")
        if self.trust_remote_code and not getattr(self.weights, "revision", None):
            raise ValueError("trust_remote_code needs weights.revision: only a pinned commit may run code")
        return self


class CriteriaTraining(Training):
    """Binary classifiers, one a criterion (MathTutorBench, Appendix D)."""

    epochs: float = Field(3, gt=0)
    overlong: Literal["cut"] = Field("cut", description="A longer dialogue loses its oldest tokens, and is counted")
    test_share: float = Field(0.2, gt=0, lt=1, description="Share of the dialogues that are held out")
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
    train: CriteriaTraining
    group: str = "criteria classifiers"


class JudgeModel(Model):
    """A model of this registry with the rubric cards that it judges by."""

    engine: Literal["judge"]
    model: str = Field(description="Entry of this registry that answers; its `needs` are the judge's")
    rubrics: list[str] = Field([], description="Rubric cards for replies; a task takes the first that its card names")
    pairs: list[str] = Field([], description="Rubric cards for the Bridge pairs, each in both orders")
    tags: list[str] = Field([], description="Rubric cards by which it tags items and criteria (run.taggers)")
    max_tokens: int | None = Field(None, ge=1, description="Of an answer, instead of the model's own bound")
    reasons: bool = Field(True, description="Whether a verdict is argued where the server decodes by a schema")
    label_limit: int | None = Field(None, ge=1, description="Instead of run.label_limit, for this judge")
    max_unreadable: float | None = Field(None, ge=0, le=1, description="Instead of run.max_unreadable, for this judge")
    group: str = "judge"

    @model_validator(mode="after")
    def has_work(self) -> JudgeModel:
        if not self.rubrics and not self.pairs and not self.tags:
            raise ValueError("give 'rubrics', 'pairs' or 'tags', or several")
        if self.needs != Needs():
            raise ValueError("set 'needs' on the model that answers")
        return self


Tutor = VllmModel | HostedModel | BaselineModel
ModelEntry = Annotated[
    VllmModel | HostedModel | BaselineModel | WeightsOnly | RewardModel | CriteriaModel | JudgeModel,
    Field(discriminator="engine"),
]
