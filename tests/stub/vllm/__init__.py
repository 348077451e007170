"""Minimal substitute for vLLM in fault drills, which test processes and not answers. PYTHONPATH lists it first."""
