"""Models inference steps: prefill and decode."""
