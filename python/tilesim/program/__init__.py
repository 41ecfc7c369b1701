"""Tile programs, their memory plans, data, host parts and jobs."""
