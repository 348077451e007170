"""Parsers that grade tutors' replies, and the item score of weighted rubrics."""
