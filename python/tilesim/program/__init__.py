"""Tile programs: for one machine, for several devices, for jobs; and how they are replayed."""
