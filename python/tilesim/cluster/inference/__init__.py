"""Inference steps: prefill and decode."""
