"""Writes, reads and replays Chakra traces of devices."""
