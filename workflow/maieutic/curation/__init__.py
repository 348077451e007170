"""Generation of tutoring data from seed problems (KMP-Bench, section 2), and fine-tuning of tutors on the data."""
