"""Foundations of all other packages: records, journal, statistics, files, errors."""
