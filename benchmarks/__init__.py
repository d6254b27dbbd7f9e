"""Measurements against peers and against floors, each one command: ``python -m benchmarks.NAME``."""

PARTS = ("training", "weights", "partition", "growth", "likelihood", "serving", "scale")
