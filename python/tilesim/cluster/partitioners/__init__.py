"""Calls the partitioners of jaxlib: Shardy's propagation and XLA's SPMD partitioner."""
