"""Closed forms beyond one axis: tori with unequal sizes, switches that add."""
