"""Simulations: a model plays the student of a tutor's conversation. All figures are marked as simulated."""
