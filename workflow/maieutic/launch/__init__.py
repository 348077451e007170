"""Interface to Snakemake: shell lines of rules, checks and messages at the start and end of a run, request counts."""

COMMANDS = {"Report": ("launch.saved_runs:save_config",)}
