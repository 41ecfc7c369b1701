"""Tile programs: for one machine, for several devices, for jobs."""
