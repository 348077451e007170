"""Maieutic: how good is a language model as a tutor? Data flows in the order of the includes."""

from snakemake.utils import min_version

min_version("9.27")


configfile: "config/models.yaml"
configfile: "config/datasets.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/datasets.smk"
include: "workflow/rules/weights.smk"
include: "workflow/rules/items.smk"
include: "workflow/rules/labels.smk"
include: "workflow/rules/preferences.smk"
include: "workflow/rules/replies.smk"
include: "workflow/rules/rewards.smk"
include: "workflow/rules/verdicts.smk"
include: "workflow/rules/grades.smk"
include: "workflow/rules/scores.smk"
include: "workflow/rules/validation.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        paths.PAGE,
        last_checks(plan),
