"""hub, package or folder -> results/weights: safetensors with a manifest of checksums."""


rule prepare_weights:
    input:
        code=code("weights.py"),
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
        python=python_of("serve"),
        settings=model_json,
        folder=subpath(output[0], parent=True),
    shell:
        "{params.python} -m maieutic prepare-weights --model {wildcards.model} --settings {params.settings:q}"
        " --out {params.folder} --log {log}"


rule fetch:
    """Everything that needs a network: for the login node."""
    input:
        lambda wildcards: {
            f"results/datasets/{loaded.card.dataset}.source"
            for loadeds in CARDS.values()
            for loaded in loadeds
        },
        [
            f"results/weights/{name}/manifest.json"
            for name in TUTORS
            if checked.models[name].engine == "vllm"
        ],
    localrule: True
