"""Code of the prefix twins: loaders, trivial tutors that answer by the form of a prefix, and the report's page."""
