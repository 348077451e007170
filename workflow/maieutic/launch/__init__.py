"""The side of a run that faces Snakemake: lines of rules, checks and messages at its start and end, new requests."""
