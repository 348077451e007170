"""How far graders agree with people."""
