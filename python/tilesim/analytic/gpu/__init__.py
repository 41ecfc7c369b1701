"""GPU frameworks: kernels that they launch for a graph, their fusion and their times."""
