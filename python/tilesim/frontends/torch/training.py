"""Training through torch.compile: AOTAutograd splits a captured graph into forward and backward graphs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

__all__ = ["training", "trains"]

#: operations whose additional results (means, indices) a backward graph reads; torch decomposes them
_SPELLED_OUT = (
    "native_layer_norm",
    "native_group_norm",
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit_no_training",
    "_batch_norm_with_update",
    "_batch_norm_with_update_functional",
    "max_pool2d_with_indices",
    "max_pool2d_with_indices_backward",
)


def trains(inputs: Sequence[Any]) -> bool:
    """Whether a captured graph needs gradients."""
    return torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs)


def _decompositions() -> dict[Any, Any]:
    table = dict(torch._decomp.core_aten_decompositions())
    for name in _SPELLED_OUT:
        packet = getattr(torch.ops.aten, name, None)
        for overload in packet.overloads() if packet is not None else ():
            target = getattr(packet, overload)
            if target in torch._decomp.decomposition_table:
                table[target] = torch._decomp.decomposition_table[target]
    return table


def training(module: Any, inputs: Sequence[Any], runner: Callable[[Any], Callable[..., Any]]) -> Callable[..., Any]:
    """Returns a differentiable function whose forward and backward graphs run as separate programs."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func

    def compiled(graph: Any, _: Sequence[Any]) -> Any:
        run = runner(graph)

        def apart(*args: Any) -> Any:
            # torch's modes are per thread, and it cannot export inside an autograd function
            with ThreadPoolExecutor(1) as thread:
                return thread.submit(_without_gradients, run, args).result()

        return make_boxed_func(apart)

    # decomposed attention gives matrix products and a softmax in both passes; fused attention has a special gradient
    with warnings.catch_warnings(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        warnings.simplefilter("ignore", DeprecationWarning)
        made = aot_autograd(
            fw_compiler=compiled,
            bw_compiler=compiled,
            inference_compiler=compiled,
            decompositions=_decompositions(),
            keep_inference_input_mutations=True,
        )(module, list(inputs))
    result: Callable[..., Any] = made
    return result


def _without_gradients(run: Callable[..., Any], args: Sequence[Any]) -> Any:
    with torch.no_grad():
        return run(*[x.detach() if isinstance(x, torch.Tensor) else x for x in args])
