"""Replies on which errors of a judge would distort the diagnosis effect most: those to right prefixes."""

CRITICAL = {"prefix_twins": {"prefix": "right"}}
