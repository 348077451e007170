"""Rubric kinds, one module each. To add a kind, add a module and an entry in `KINDS`."""

from maieutic.config.rubric_kinds.base import RubricKind
from maieutic.config.rubric_kinds.checklist import Checklist
from maieutic.config.rubric_kinds.labels import LabelsKind
from maieutic.config.rubric_kinds.pairwise import Pairwise
from maieutic.config.rubric_kinds.turns import Turns
from maieutic.config.rubric_kinds.weighted import Weighted
from maieutic.config.rubric_kinds.win_tie_lose import WinTieLose

KINDS: dict[str, RubricKind] = {
    kind.name: kind for kind in (LabelsKind(), Pairwise(), WinTieLose(), Weighted(), Checklist(), Turns())
}
