"""Replies of tutors to items."""
