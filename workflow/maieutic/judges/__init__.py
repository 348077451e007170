"""Judges: models of the registry that answer rubric cards, and their validation against people."""
