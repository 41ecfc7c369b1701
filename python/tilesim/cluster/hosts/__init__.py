"""Hosts of devices: offload, links and faults."""
