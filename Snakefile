"""Maieutic evaluates language models as tutors. workflow/Snakefile contains the rules."""

# A module keeps its default target; `include:` would not.
workflow.include("workflow/Snakefile", overwrite_default_target=True)
