"""Steps of graphs for several devices: split at communication, predicted, put into order."""
