"""Mixtures of experts over devices."""
