"""KMP-Bench: its loaders, parsers, baselines, printed values and report page."""
