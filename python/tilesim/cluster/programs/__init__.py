"""Steps of programs for several devices: split at communication, predicted, and ordered."""
