"""Graphs as GPU frameworks run them: kernels counted, fused and priced."""
