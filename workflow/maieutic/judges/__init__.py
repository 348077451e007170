"""Judges: a model of the registry that answers rubric cards, and how far people agree with it."""
