"""What a run file says of curated data and of tutors that are fine-tuned: seeds, roles of models, mixes, training."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, model_validator

from maieutic.config.faults import fault_of
from maieutic.config.models import Entry, FilePath, Needs, Training
from maieutic.config.prompts import variables_of
from maieutic.core.documents import read_yaml
from maieutic.core.errors import UserError
from maieutic.core.paths import RESOURCES

STAGES = RESOURCES / "curation/stages"
Role = Literal["generator", "tagger", "verifier", "validators", "solvers", "weak_solvers"]
WHOLE = 1e-6  # by which the shares of a mix may miss 1


class Roles(Entry):
    """Which entries of the model registry do what. An entry may have several roles: they share its server."""

    generator: str = Field(description="makes and expands (the paper: Gemini-2.0-Flash)")
    solvers: list[str] = Field(
        description="two or more, of which more than half must give a new problem's answer; a name twice is two samples"
    )
    validators: list[str] = Field(
        description="two or more, which all must approve of a seed (the paper: Gemini-2.0-Flash and DeepSeek-R1)"
    )
    weak_solvers: list[str] = Field(
        min_length=1,
        description=(
            "whose wrong solutions are the students' (the paper: Llama-3.2-1B, Gemma-2-2b, Mistral-7B-v0.3, instructed)"
        ),
    )
    verifier: str | None = Field(None, description="judges rephrasings and flows, chooses turns; `null`: the generator")
    tagger: str | None = Field(None, description="names domains and standards; `null`: the generator")

    @model_validator(mode="after")
    def ensembles(self) -> Roles:
        for role in ("solvers", "validators"):
            if len(getattr(self, role)) < 2:
                raise ValueError(f"{role} is an ensemble: name two models or more, or one model twice")
        return self

    def of(self, role: Role) -> list[str]:
        """The entries that have a role, in their order."""
        named = getattr(self, role)
        return list(named) if isinstance(named, list) else [named or self.generator]

    @property
    def models(self) -> list[str]:
        """Every entry that has a role, once."""
        roles: tuple[Role, ...] = ("generator", "tagger", "verifier", "validators", "solvers", "weak_solvers")
        return list(dict.fromkeys(name for role in roles for name in self.of(role)))


class Curation(Entry):
    """How tutoring dialogues are made of seed problems (KMP-Bench, section 2)."""

    seeds: dict[str, str] = Field(
        min_length=1,
        description="datasets of the registry with problems and answers, each with the loader that reads it",
    )
    limit: int | None = Field(None, ge=1, description="seeds of each dataset, a random sample; `null`: all")
    roles: Roles = Field(description="which models do what")
    evaluation_share: float = Field(
        0.5,
        ge=0,
        le=1,
        description="share of the seeds whose products are for evaluation; those of the others are for training",
    )
    people: FilePath | None = Field(
        None,
        description=(
            "CSV with people's decisions on the flows (`results/curation/NAME/flows.csv`, with `decision` and `last` "
            "filled in), instead of the verifier's; `null`: the verifier decides"
        ),
    )
    rated: int = Field(
        50,
        ge=0,
        description=(
            "dialogues of which each judge of `run.judges` that is checked on MRBench's labels rates one tutor's turn"
        ),
    )
    near_duplicate: float = Field(
        0.7,
        gt=0,
        le=1,
        description="Jaccard similarity of five-word shingles from which two problems are one (leakage, duplicates)",
    )
    runtime: int = Field(720, ge=1, le=527_040, description="time limit of one attempt of a job, in minutes")


class Lora(Entry):
    """Low-rank adapters instead of all weights (peft); they are merged into the weights that are saved."""

    rank: int = Field(16, ge=1, description="of the adapters")
    alpha: int = Field(32, ge=1, description="their scale is alpha / rank")
    dropout: float = Field(0.0, ge=0, lt=1, description="of the adapters' inputs")
    quantized: bool = Field(False, description="QLoRA: the base in 4 bits while training (bitsandbytes)")


class FineTuning(Training):
    """Supervised fine-tuning of a tutor. Defaults: KMP-LM-7B (KMP-Bench, Appendix B), not TRL's own."""

    mix: dict[str, float] = Field(
        min_length=1,
        description=(
            "share of the training examples that each source gives, together 1: curations of this run, or datasets of "
            "the registry with `messages`; as many examples as no source repeats itself for"
        ),
    )
    learning_rate: float = Field(1e-5, gt=0, description="peak, the paper's; AdamW")
    epochs: float = Field(3, gt=0, description="passes over the examples, the paper's")
    batch_size: int = Field(256, ge=1, description="examples of one optimiser step, the paper's")
    max_length: int = Field(4096, ge=16, description="context in tokens, the paper's")
    scheduler: Literal["cosine", "linear", "constant"] = Field("cosine", description="of the learning rate")
    warmup: float = Field(0.0, ge=0, lt=1, description="share of the steps in which the rate rises to its peak")
    steps: int | None = Field(None, ge=1, description="optimiser steps, instead of `epochs`")
    packing: bool = Field(False, description="several short examples in one context")
    overlong: Literal["refuse", "drop"] = Field(
        "refuse", description="examples longer than the context: one line before the training, or left out and counted"
    )
    lora: Lora | None = Field(None, description="low-rank adapters; `null`: all weights")
    needs: Needs | None = Field(
        None,
        description=(
            "what the training asks of a machine; `null`: the base's `needs`. Several GPUs: one process each, all "
            "weights sharded over them (FSDP), adapters trained side by side (DDP)"
        ),
    )
    processes: int = Field(1, ge=1, description="processes that share a training on the CPU; on GPUs: one a GPU")

    def workers(self, gpus: int) -> int:
        """Processes of one training on so many GPUs."""
        return gpus or self.processes

    @model_validator(mode="after")
    def whole_mix(self) -> FineTuning:
        if any(share <= 0 for share in self.mix.values()):
            raise ValueError("mix: every share is more than 0")
        if abs(sum(self.mix.values()) - 1) > WHOLE:
            raise ValueError(f"mix: the shares add up to {sum(self.mix.values()):g}, not to 1")
        return self


class StageCard(Entry):
    """One stage of a curation: who is asked what, how the answer is read, and what is accepted."""

    does: str = Field(description="What comes out of it, for the report")
    source: str = Field(description="Where the paper says so; what is ours")
    paper: str | None = Field(None, description="What the paper counts there, for the report")
    role: Role = Field(description="Whose models are asked, each of them")
    prompt: str = Field(description="Template, a file beside the card")
    shots: str | None = Field(None, description="Few-shot text for the template, a file beside the card")
    samples: int = Field(1, ge=1, description="Answers of each model")
    temperature: float = Field(0.0, ge=0, description="Of the first attempt")
    max_tokens: int = Field(2048, ge=1, description="Of an answer")
    attempts: int = Field(1, ge=1, description="How often it is asked until something is accepted")
    retry_temperature: float = Field(0.7, ge=0, description="Of further attempts")
    parser: str = Field(description="How an answer is read (maieutic/curation/parsers.py)")
    accept: str = Field(description="What is kept (maieutic/curation/rules.py)")
    limits: dict[str, float] = Field({}, description="Numbers of the parser and of the rule")


class LoadedStage(Entry):
    """A stage card with its texts."""

    name: str
    card: StageCard
    template: str
    shots: str = ""


def stage_names() -> list[str]:
    """The stages that have a card."""
    return sorted(path.stem for path in STAGES.glob("*.yaml"))


def read_stage(name: str, folder: Path = STAGES) -> LoadedStage:
    """A stage card and its texts. Raises UserError naming file and key."""
    path = folder / f"{name}.yaml"
    try:
        card = StageCard.model_validate(read_yaml(path))
    except ValidationError as error:
        raise fault_of(error, StageCard, str(path), "workflow/maieutic/config/curation.py") from None
    for file in filter(None, (card.prompt, card.shots)):
        if Path(file).name != file or not (folder / file).is_file():
            raise UserError(str(path), f"{file} is no file beside the card", "name one")
    texts = {"template": card.prompt, "shots": card.shots}
    read = {key: (folder / file).read_text(encoding="utf-8") for key, file in texts.items() if file}
    if card.shots and "shots" not in variables_of(read["template"]):
        raise UserError(
            str(path), f"shots: {card.shots} is not shown by {card.prompt}", f"write {{{{ shots }}}} into {card.prompt}"
        )
    return LoadedStage(name=name, card=card, **read)


def stage_files(names: list[str]) -> list[str]:
    """The cards of some stages, with their texts, in the order of their names."""
    paths = []
    for loaded in map(read_stage, names):
        texts = filter(None, (loaded.card.prompt, loaded.card.shots))
        paths += [str(STAGES / file) for file in (f"{loaded.name}.yaml", *texts)]
    return sorted(set(paths))
