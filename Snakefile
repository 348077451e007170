"""Maieutic: how good is a language model as a tutor? What a run consists of stands in workflow/Snakefile."""


include: "workflow/Snakefile"
