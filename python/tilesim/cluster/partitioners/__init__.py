"""Partitioners of others: Shardy's propagation and XLA's SPMD partitioner, both of jaxlib."""
