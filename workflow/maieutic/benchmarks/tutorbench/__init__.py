"""Code of TutorBench: loaders, a trivial tutor, tags, scores by tag, the paper's numbers, and a report page."""
