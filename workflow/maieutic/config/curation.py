"""Schemas of the curation of training data, of fine-tuning, and of the cards of the curation's stages."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, model_validator

from maieutic.config.faults import validation_fault
from maieutic.config.models import FilePath, Needs, StrictModel, Training
from maieutic.config.prompts import template_variables
from maieutic.core.errors import UserError
from maieutic.core.paths import RESOURCES
from maieutic.core.yaml_files import read_yaml

STAGES = RESOURCES / "curation/stages"
Role = Literal["generator", "tagger", "verifier", "validators", "solvers", "weak_solvers"]
MIX_TOLERANCE = 1e-6  # maximum deviation of the sum of a mix's shares from 1


class Roles(StrictModel):
    """Names of models in the model registry, by role in a curation. A model with several roles has only one server."""

    generator: str = Field(description="Model that writes and extends the data. The paper uses Gemini-2.0-Flash.")
    solvers: list[str] = Field(
        description=(
            "Two or more models that solve each new problem; more than half must agree on its answer. "
            "A model listed twice is asked twice."
        )
    )
    validators: list[str] = Field(
        description="Two or more models that must all approve a seed (paper: Gemini-2.0-Flash and DeepSeek-R1)."
    )
    weak_solvers: list[str] = Field(
        min_length=1,
        description=(
            "Models whose wrong solutions become the students' solutions "
            "(paper: Llama-3.2-1B, Gemma-2-2b and Mistral-7B-v0.3, instruction-tuned)."
        ),
    )
    verifier: str | None = Field(
        None,
        description="Model that judges rephrasings and dialogue flows, and selects turns; `null`: the generator.",
    )
    tagger: str | None = Field(
        None, description="Model that labels the problems with domains and standards; `null`: the generator."
    )

    @model_validator(mode="after")
    def ensembles(self) -> Roles:
        for role in ("solvers", "validators"):
            if len(getattr(self, role)) < 2:
                raise ValueError(f"{role}: expected two or more models, or one model twice")
        return self

    def entries_with(self, role: Role) -> list[str]:
        """Return the names of the models with a role, in the order of the configuration."""
        names = getattr(self, role)
        return list(names) if isinstance(names, list) else [names or self.generator]

    @property
    def models(self) -> list[str]:
        """Names of all models with a role, without duplicates."""
        roles: tuple[Role, ...] = ("generator", "tagger", "verifier", "validators", "solvers", "weak_solvers")
        return list(dict.fromkeys(name for role in roles for name in self.entries_with(role)))


class Curation(StrictModel):
    """Generation of tutoring dialogues from seed problems (KMP-Bench, section 2)."""

    seeds: dict[str, str] = Field(
        min_length=1,
        description="Datasets of seed problems with answers, each mapped to the name of its loader.",
    )
    limit: int | None = Field(
        None, ge=1, description="Maximum number of seeds per dataset, drawn at random; `null`: all."
    )
    roles: Roles = Field(description="Models that generate and check the data, by role.")
    evaluation_share: float = Field(
        0.5,
        ge=0,
        le=1,
        description="Share of the seeds used for evaluation data. All other seeds are used for training data.",
    )
    people: FilePath | None = Field(
        None,
        description=(
            "CSV with people's decisions on dialogue flows: `results/curation/NAME/flows.csv` with its columns "
            "`decision` and `last` filled in; `null`: the model `verifier` decides."
        ),
    )
    rated: int = Field(
        50,
        ge=0,
        description=(
            "Number of dialogues in which the quality of one tutor turn is rated by the judges in `run.judges` that "
            "were validated on MRBench's labels."
        ),
    )
    near_duplicate: float = Field(
        0.7,
        gt=0,
        le=1,
        description=(
            "Minimum Jaccard similarity of five-word shingles at which two problems count as duplicates, or a training "
            "problem counts as leaked."
        ),
    )
    runtime: int = Field(720, ge=1, le=527_040, description="Time limit of one attempt of a job, in minutes.")


class Lora(StrictModel):
    """Low-rank adapters (peft). They are trained instead of the full weights, then merged into the saved weights."""

    rank: int = Field(16, ge=1, description="Rank of the adapters.")
    alpha: int = Field(32, ge=1, description="Scaling parameter: the adapters' output is multiplied by alpha / rank.")
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout probability of the adapters' inputs.")
    quantized: bool = Field(
        False, description="Use QLoRA, which keeps the base model's weights in 4 bits during training (bitsandbytes)."
    )


class FineTuning(Training):
    """Supervised fine-tuning of a tutor. The defaults are those of KMP-LM-7B (KMP-Bench, Appendix B), not TRL's."""

    mix: dict[str, float] = Field(
        min_length=1,
        description=(
            "Sources of the examples (a curation of this run, or a dataset with `messages`), each with its share. "
            "Shares sum to 1; no example repeats."
        ),
    )
    learning_rate: float = Field(1e-5, gt=0, description="Peak learning rate of AdamW (default: the paper's).")
    epochs: float = Field(3, gt=0, description="Number of passes over the examples (default: the paper's).")
    batch_size: int = Field(256, ge=1, description="Number of examples per optimiser step (default: the paper's).")
    max_length: int = Field(4096, ge=16, description="Context length in tokens (default: the paper's).")
    scheduler: Literal["cosine", "linear", "constant"] = Field("cosine", description="Schedule of the learning rate.")
    warmup: float = Field(
        0.0, ge=0, lt=1, description="Share of the steps over which the learning rate rises to its peak."
    )
    steps: int | None = Field(None, ge=1, description="Number of optimiser steps, used instead of `epochs`.")
    packing: bool = Field(False, description="Pack several short examples into one context.")
    overlong: Literal["refuse", "drop", "truncate"] = Field(
        "refuse",
        description=(
            "Treatment of examples longer than the context: `refuse` stops before training; `drop` omits and counts "
            "them; `truncate` cuts their end, like LLaMA-Factory."
        ),
    )
    lora: Lora | None = Field(None, description="Low-rank adapters; `null`: train all weights.")
    needs: Needs | None = Field(
        None,
        description=(
            "Resources of the training job; `null`: those of the entry that `base` names. "
            "With several GPUs, full weights are sharded (FSDP) and adapters replicated (DDP)."
        ),
    )
    processes: int = Field(
        1, ge=1, description="Number of processes if training runs on the CPU. On GPUs, there is one process per GPU."
    )

    def workers(self, gpus: int) -> int:
        """Return the number of processes for training on `gpus` GPUs, or on the CPU if `gpus` is 0."""
        return gpus or self.processes

    @model_validator(mode="after")
    def whole_mix(self) -> FineTuning:
        if any(share <= 0 for share in self.mix.values()):
            raise ValueError("mix: every share must be greater than 0")
        if abs(sum(self.mix.values()) - 1) > MIX_TOLERANCE:
            raise ValueError(f"mix: expected shares that add up to 1, found a sum of {sum(self.mix.values()):g}")
        return self


class StageCard(StrictModel):
    """Card of one curation stage: prompt, role of the models, parser of the answers, and rule that accepts answers."""

    does: str = Field(description="Result of the stage, as a phrase for the report.")
    source: str = Field(
        description="Section of the paper that describes the stage, and the stage's differences from the paper."
    )
    paper: str | None = Field(None, description="Counts that the paper reports for this stage, shown in the report.")
    role: Role = Field(description="Role of the models that receive the prompt. Every model with this role answers.")
    prompt: str = Field(description="File with the prompt template, in the card's folder.")
    shots: str | None = Field(None, description="File with the few-shot text of the template, in the card's folder.")
    samples: int = Field(1, ge=1, description="Number of answers from each model.")
    temperature: float = Field(0.0, ge=0, description="Sampling temperature of the first attempt.")
    max_tokens: int = Field(2048, ge=1, description="Maximum number of tokens in one answer.")
    attempts: int = Field(1, ge=1, description="Maximum number of attempts to obtain an accepted answer.")
    retry_temperature: float = Field(0.7, ge=0, description="Sampling temperature of all attempts after the first.")
    parser: str = Field(description="Parser of the answers (maieutic/curation/parsers.py).")
    accept: str = Field(description="Rule that accepts answers (maieutic/curation/rules.py).")
    limits: dict[str, float] = Field({}, description="Numeric parameters of the parser and of the rule in `accept`.")


class LoadedStage(StrictModel):
    """A stage card with the texts of its prompt and few-shot files."""

    name: str
    card: StageCard
    template: str
    shots: str = ""


def stage_names() -> list[str]:
    """Return the sorted names of all stages that have a card."""
    return sorted(path.stem for path in STAGES.glob("*.yaml"))


def read_stage(name: str, folder: Path = STAGES) -> LoadedStage:
    """Return a stage's card with the texts of its files. Raises UserError if the card or a file is invalid."""
    path = folder / f"{name}.yaml"
    try:
        card = StageCard.model_validate(read_yaml(path))
    except ValidationError as error:
        raise validation_fault(error, StageCard, str(path), "workflow/maieutic/config/curation.py") from None
    for file in filter(None, (card.prompt, card.shots)):
        if Path(file).name != file or not (folder / file).is_file():
            raise UserError(
                str(path), f"expected a file beside the card, found {file!r}", "correct the name, or add the file"
            )
    texts = {"template": card.prompt, "shots": card.shots}
    contents = {key: (folder / file).read_text(encoding="utf-8") for key, file in texts.items() if file}
    if card.shots and "shots" not in template_variables(contents["template"]):
        raise UserError(
            str(path),
            f"shots: the template {card.prompt} does not use {card.shots}",
            f"write {{{{ shots }}}} into {card.prompt}, or remove `shots`",
        )
    return LoadedStage(name=name, card=card, **contents)


def stage_files(names: list[str]) -> list[str]:
    """Return the sorted paths of the cards of some stages and of the prompt and few-shot files that the cards name."""
    paths = []
    for loaded in map(read_stage, names):
        texts = filter(None, (loaded.card.prompt, loaded.card.shots))
        paths += [str(STAGES / file) for file in (f"{loaded.name}.yaml", *texts)]
    return sorted(set(paths))
