"""Tutoring data made of seed problems (KMP-Bench, section 2), and tutors that are fine-tuned on it."""
