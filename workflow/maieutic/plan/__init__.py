"""Which tasks, tutors, graders and files a run has: the one place that rules and report ask."""
