"""The plan of a run: its tasks, tutors, graders and files, as the rules and the report read them."""
