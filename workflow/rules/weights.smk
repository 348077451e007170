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
        shell_lines.command_line("prepare-weights", python=shell_lines.SERVE, out="{output}")


rule fetch:
    """Download everything that needs a network, on the login node."""
    input:
        download_files(plan),
    localrule: True
