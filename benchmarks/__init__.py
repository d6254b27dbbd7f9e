"""Measurements against peers and against floors, each one command: ``python -m benchmarks.NAME``."""

PARTS = ("training", "weights", "large_layers", "first_fit", "partition", "growth", "likelihood", "serving", "scale")
