"""Measurements against peers, each one command: ``python -m benchmarks.<name>``."""
