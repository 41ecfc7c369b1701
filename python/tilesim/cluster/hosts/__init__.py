"""Models hosts of devices: offload, faults, stragglers."""
