"""Closed forms beyond one axis: tori with unequal sizes, and switches that reduce."""
