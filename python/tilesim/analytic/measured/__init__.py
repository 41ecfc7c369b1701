"""Measured tables: formats, readers and measurements."""
