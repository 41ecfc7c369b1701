"""Simulates and executes programs."""
