"""Helpers of the search over plans."""
