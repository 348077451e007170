"""Source files of datasets: downloads, parsing, pictures, and loaders that several benchmarks share."""
