"""hub, package or folder -> results/weights: safetensors with a manifest of checksums."""

from maieutic.preparation import stage as preparation_stage


rule prepare_weights:
    input:
        files=plan.select(preparation_stage.local_weight_files),
    output:
        "results/weights/{model}/manifest.json",
    log:
        "results/logs/prepare_weights/{model}.log",
    priority: 30  # replies come first, and wait for weights and items
    localrule: True
    container:
        IMAGES.serve
    threads: 2
    resources:
        mem_mb=8000,
        runtime=240,
    params:
        **job("prepare_weights"),
    shell:
        command("prepare-weights", python=SERVE, out="{output}")


rule fetch:
    """Download all files that the run needs, for example on a login node with network access."""
    input:
        plan.select(preparation_stage.download_files),
    localrule: True
