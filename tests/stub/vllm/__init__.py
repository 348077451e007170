"""Stands for vLLM in fault drills, where what happens to processes is the question: found first on PYTHONPATH."""
