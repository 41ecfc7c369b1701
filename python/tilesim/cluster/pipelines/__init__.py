"""Pipelines: orders of passes on stages, with legality, memory and time."""
