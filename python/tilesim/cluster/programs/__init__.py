"""Times programs for several devices: splits them at communication, predicts segments, and orders them."""
