"""Human labels: blind samples for annotators, their answers read back, and plans of how many labels to collect."""
