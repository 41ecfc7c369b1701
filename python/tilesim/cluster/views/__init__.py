"""Views of steps on many devices: what passes on each dimension, breakdown, scaling, maps of plans."""
