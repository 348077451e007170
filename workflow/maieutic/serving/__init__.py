"""Model servers and endpoints: start-up, requests, weights and devices."""
