"""Computes parts of training steps in closed form: layers, and communication outside of layers."""
