"""Code of KMP-Bench: loaders, parsers, baselines, the paper's numbers, a human study, and a report page."""
