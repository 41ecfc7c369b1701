"""Reads PyTorch models."""
