"""Commands for people: new run files, pins, estimates, checks, labelling sheets."""
