"""Predictions beside measured tables."""
