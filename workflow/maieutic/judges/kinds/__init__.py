"""Kinds of rubrics, one module each: a further one is a module and a line here."""

from maieutic.judges.kinds.base import Kind
from maieutic.judges.kinds.checklist import Checklist
from maieutic.judges.kinds.labels import Labels
from maieutic.judges.kinds.pairwise import Pairwise
from maieutic.judges.kinds.weighted import Weighted
from maieutic.judges.kinds.win_tie_lose import WinTieLose

KINDS: dict[str, Kind] = {kind.name: kind for kind in (Labels(), Pairwise(), WinTieLose(), Weighted(), Checklist())}
