"""Machines, devices and DRAM parts."""
