"""Rubric kinds, one module each. To add a kind, add a module and an entry in `KINDS`."""

from maieutic.judges.kinds.base import RubricKind
from maieutic.judges.kinds.checklist import Checklist
from maieutic.judges.kinds.labels import LabelsKind
from maieutic.judges.kinds.pairwise import Pairwise
from maieutic.judges.kinds.weighted import Weighted
from maieutic.judges.kinds.win_tie_lose import WinTieLose

KINDS: dict[str, RubricKind] = {
    kind.name: kind for kind in (LabelsKind(), Pairwise(), WinTieLose(), Weighted(), Checklist())
}
