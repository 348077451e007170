"""What the riddles add: a loader, a parser, a metric, a trivial tutor, printed numbers, a page of the report."""
