"""TutorBench: its loaders, trivial tutor, tags, breakdown of scores by tag, printed values and report page."""
