"""Tutoring data generated from seed problems (KMP-Bench, section 2), and tutors fine-tuned on it."""
