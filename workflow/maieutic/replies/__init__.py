"""What tutors answer."""
