"""The IR in which PyTorch simulators exchange graphs."""
