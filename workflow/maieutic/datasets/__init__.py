"""Source files: fetching and reading them, and loaders of those that several benchmarks use."""
