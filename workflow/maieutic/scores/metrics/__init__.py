"""Metrics: a value, and counts that add up."""
