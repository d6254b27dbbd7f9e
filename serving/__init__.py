"""The sampling service."""
