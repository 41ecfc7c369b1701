"""Mixtures of experts over devices: where tokens go."""
