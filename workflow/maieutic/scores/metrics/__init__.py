"""Metrics, each a value and additive counts that the bootstrap can resample."""
