"""Measured tables: their formats, readers, and what makes them."""
