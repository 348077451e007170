"""Metrics, each computed from additive counts that the bootstrap can resample."""
