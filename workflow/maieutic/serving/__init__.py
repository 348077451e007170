"""Servers and endpoints: starting, asking, weights and devices."""
