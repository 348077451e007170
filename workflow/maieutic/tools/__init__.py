"""Commands that people run themselves, such as those for run files, pins, estimates, checks and labelling sheets."""
