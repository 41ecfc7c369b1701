"""Views of cluster steps: communication per dimension, breakdown, scaling, maps of plans."""
