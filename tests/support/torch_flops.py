"""What torch itself counts: FLOPs of products in an eager run."""

from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode


def products(model: Any, *args: Any, **kwargs: Any) -> int:
    """FLOPs (a multiply-add is 2) of products, convolutions and attention; mixtures run expert by expert."""
    if hasattr(model, "config"):
        model.config._experts_implementation = "eager"
    with FlopCounterMode(display=False) as counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        model(*args, **kwargs)
    return int(counter.get_total_flops())
