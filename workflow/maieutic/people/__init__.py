"""Human labels: blind samples for annotators, readers of annotators' answers, and plans of sample sizes."""
