"""The page on curations and tunings."""

from maieutic.curation.figures import curated
from maieutic.report.sections import Section

PAGES = (Section("#/curation", "Curation", "curation", curated),)
