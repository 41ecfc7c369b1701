"""From a graph to a tile program, on one device or several."""
