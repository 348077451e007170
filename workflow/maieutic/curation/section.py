"""Report page on curations and tunings."""

from maieutic.curation.figures import curation_page
from maieutic.report.sections import Section

PAGES = (Section("#/curation", "Curation", "curation", curation_page),)
