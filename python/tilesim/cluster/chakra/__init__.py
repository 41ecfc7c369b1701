"""Chakra: writes, reads and replays traces of devices."""
