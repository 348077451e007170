"""A team's own transcripts: reader, redaction, loaders of their items, and a page of the report."""
