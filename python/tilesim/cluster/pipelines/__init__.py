"""Pipelines: orders of passes on stages, their legality, memory and time."""
