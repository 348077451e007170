"""Schema of simulations: conversations of tutors with a student that a model plays, and persona cards."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pydantic import Field, ValidationError

from maieutic.config.cards import read_text
from maieutic.config.faults import validation_fault
from maieutic.config.models import DAY, StrictModel
from maieutic.core.errors import UserError
from maieutic.core.extensions import resource_folders
from maieutic.core.paths import RESOURCES
from maieutic.core.records import MAX_TURNS
from maieutic.core.yaml_files import read_yaml

FOLDER = RESOURCES / "simulation"
PERSONAS = "simulation/personas"  # folder of persona cards in the resources, and in those of an extension
FEWEST_CLAIMS = 50  # the panel shows no figures if the student's caving rests on fewer claims
USUAL_RUNTIME = 240  # minutes


class Simulation(StrictModel):
    """Conversations of the run's tutors with a student that a model plays. Their figures enter no leaderboard."""

    student: str = Field(description="Registry entry of the served or hosted model that plays the student.")
    persona: str = Field("unsure", description="Persona card of the student (docs/training.md).")
    task: str = Field(
        description=(
            "Task of `run.tasks`, as `benchmark/task`, whose items the conversations start from: problems with a wrong "
            "solution, or dialogues that end with the student."
        )
    )
    turns: int = Field(6, ge=2, le=MAX_TURNS, description="Maximum number of the tutor's turns in a conversation.")
    items: int = Field(50, ge=1, description="Maximum number of conversations per tutor, drawn at random.")
    claims: int = Field(
        100,
        ge=1,
        description=(
            "Maximum number of wrong claims, and of right ones, on which the student's caving is measured. "
            f"Figures are shown only if at least {FEWEST_CLAIMS} wrong claims were answered."
        ),
    )
    runtime: int = Field(USUAL_RUNTIME, ge=1, le=DAY, description="Minutes that a job of conversations may take.")


class Persona(StrictModel):
    """Card of a persona: what a simulated student knows, how it speaks, and what makes it change its mind."""

    persona: str = Field(pattern=r"^[a-z][a-z0-9_]*$", description="Name, equal to the card's file name.")
    version: int = Field(ge=1, description="Version of the card, increased whenever the meaning of results changes.")
    title: str = Field(description="Name of the persona in the report.")
    source: str = Field(description="Origin of the prompt, or a note that it is ours.")
    prompt: str = Field(description="File with the template of the student's system message.")
    temperature: float = Field(0.0, ge=0, description="Sampling temperature of the student's turns.")
    max_tokens: int = Field(256, ge=1, description="Maximum number of tokens in one turn of the student.")


class LoadedPersona(StrictModel):
    """A persona card with its prompt, and the files that both were read from."""

    card: Persona
    template: str
    files: tuple[Path, ...]


def persona_paths() -> dict[str, Path]:
    """Return the paths of all persona cards, shipped or in an extension, by name."""
    folders = [folder / PERSONAS for folder in resource_folders()]
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.yaml"))}


@lru_cache(maxsize=16)
def read_persona(name: str) -> LoadedPersona:
    """Read and check a persona card. Raises UserError that names the file and the key."""
    path = persona_paths().get(name, FOLDER / "personas" / f"{name}.yaml")
    if not path.is_file():
        known = ", ".join(persona_paths())
        raise UserError(str(path), "the persona does not exist", f"choose one of {known}")
    try:
        card = Persona.model_validate(read_yaml(path))
    except ValidationError as error:
        raise validation_fault(error, Persona, str(path), "docs/training.md") from None
    if card.persona != path.stem:
        raise UserError(
            str(path), f"expected persona: {path.stem}, found {card.persona}", "give the file and its persona one name"
        )
    return LoadedPersona(
        card=card, template=read_text(path, "prompt", card.prompt), files=(path, path.parent / card.prompt)
    )
