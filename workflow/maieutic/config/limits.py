"""Size limits of the files that a run reads: datasets, replies, human labels and pictures."""

from __future__ import annotations

from pydantic import Field

from maieutic.config.models import StrictModel


class Limits(StrictModel):
    """Size limits of the files that a run reads. A larger file is refused before it fills the memory."""

    source_mb: float = Field(4096, gt=0, description="Maximum size in MB of a dataset file or a file with replies.")
    source_depth: int = Field(
        64, ge=2, le=500, description="Maximum nesting depth of a record in a dataset file or a file with replies."
    )
    labels_mb: float = Field(64, gt=0, description="Maximum size in MB of the file `run.human_labels`.")
    picture_mb: float = Field(
        32, gt=0, description="Maximum size in MB of one picture. A larger picture is listed as missing."
    )
    picture_megapixels: float = Field(
        90, gt=0, description="Maximum size of one picture in megapixels. A larger picture is listed as missing."
    )


DEFAULT_LIMITS = Limits()
