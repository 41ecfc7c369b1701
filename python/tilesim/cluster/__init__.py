"""Many chips."""
