"""results/datasets, results/items -> results/preferences: pairs of a better and a worse reply, and their leakage."""

from maieutic.preparation import stage as preparation_stage
from maieutic.rewards import stage as rewards_stage


rule make_pairs:
    input:
        sources=plan.select(preparation_stage.pair_sources),
    output:
        pairs="results/preferences/{source}/pairs.jsonl",
        counts="results/preferences/{source}/counts.json",
    log:
        "results/logs/make_pairs/{source}.log",
    localrule: True
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        **job("make_pairs"),
    shell:
        command(
            "make-pairs", sources="{input.sources}", out="{output.pairs}", counts="{output.counts}"
        )


rule find_overlap:
    """List the benchmark's items whose human reply or problem occurs in the pairs of a source."""
    input:
        item_files=plan.select(rewards_stage.rewarded_items),
        pairs="results/preferences/{source}/pairs.jsonl",
    output:
        "results/preferences/{source}/overlap/{benchmark}.json",
    log:
        "results/logs/find_overlap/{source}/{benchmark}.log",
    localrule: True
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        **job("find_overlap"),
        item_folder="results/items/{benchmark}",
    shell:
        command("find-overlap", items="{params.item_folder}", pairs="{input.pairs}", out="{output}")
