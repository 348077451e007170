"""Command that saves a run's configuration."""

COMMANDS = {"Report": ("launch.saving:save_config",)}
