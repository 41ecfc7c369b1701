"""Reads StableHLO modules, and JAX functions through them."""
