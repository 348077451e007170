"""People in the loop: what they are given to label, what comes back, and how many labels are enough."""
