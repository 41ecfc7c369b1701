"""Lowers a graph to a tile program for one device or several."""
