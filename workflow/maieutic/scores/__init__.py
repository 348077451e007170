"""Scores with intervals, computed from grades, and the numbers published in papers."""
