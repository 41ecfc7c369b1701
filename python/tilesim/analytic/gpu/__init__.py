"""Models GPU frameworks: the kernels that they launch for a graph, fusion, and kernel times."""
