"""Measurements against peers and against floors, each one command: ``python -m benchmarks.NAME``."""

PARTS = ("training", "partition", "growth", "likelihood", "serving", "scale")
