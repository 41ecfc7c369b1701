"""Steps without gradients: prompts read at once, or one token per sequence against a cache."""
