"""What KMP-Bench adds: loaders, parsers, baselines, its paper's numbers, its pages of the report."""
