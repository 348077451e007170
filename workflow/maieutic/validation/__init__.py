"""Agreement of graders with people."""
