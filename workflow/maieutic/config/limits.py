"""How large what comes from outside may be."""

from __future__ import annotations

from pydantic import Field

from maieutic.config.models import Entry


class Limits(Entry):
    """What a file from outside may be: a larger one is refused in one line, before it fills the memory."""

    source_mb: float = Field(4096, gt=0, description="MB of a dataset's file, or of a file of replies")
    source_depth: int = Field(64, ge=2, le=500, description="how deep a record may be nested")
    labels_mb: float = Field(64, gt=0, description="MB of `run.human_labels`")
    picture_mb: float = Field(32, gt=0, description="MB of one picture; a larger one is listed as missing")
    picture_megapixels: float = Field(90, gt=0, description="millions of pixels of one picture, likewise")


USUAL = Limits()
