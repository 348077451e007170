"""Code of MathTutorBench: loaders, parsers, pair sources, recorded replies, the paper's numbers, and a report page."""
