"""Chakra: traces of devices in files, out and in, and their replay on a cluster."""
