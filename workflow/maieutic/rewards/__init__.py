"""Pedagogical reward models: preference pairs, training, scoring, criteria classifiers."""
