"""From grades to numbers with intervals, and the papers' own."""
