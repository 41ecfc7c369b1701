"""StableHLO, and JAX through it."""
