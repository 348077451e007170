"""Maieutic: how good is a language model as a tutor? What a run consists of stands in workflow/Snakefile."""

# With its default target, which an `include:` would leave behind.
workflow.include("workflow/Snakefile", overwrite_default_target=True)
