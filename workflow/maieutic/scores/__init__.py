"""Scores with intervals from grades, and the papers' printed numbers."""
