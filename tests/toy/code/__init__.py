"""Plug-ins of the riddles benchmark: a loader, a parser, a metric, a trivial tutor, printed numbers, a report page."""
