"""Hosts of devices: what is kept in their memory, and the links that lead there."""
