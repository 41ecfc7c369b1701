"""Compares predictions with measured tables."""
