"""Parsers of replies, and what reward models and judges make of them."""
