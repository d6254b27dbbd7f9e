"""Measurements against peers and against floors, each one command: ``python -m benchmarks.NAME``."""

PARTS = ("training", "weights", "first_fit", "partition", "growth", "likelihood", "serving", "scale")
