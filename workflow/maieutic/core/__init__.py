"""What everything else stands on: records, journal, statistic, files, errors."""
