"""Pedagogical reward models and criteria classifiers: preference pairs, training, scoring, grading."""
