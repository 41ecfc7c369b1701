"""Simulation and execution of programs."""
