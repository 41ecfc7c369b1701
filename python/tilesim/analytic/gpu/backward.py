"""Prices the backward pass of eager torch from the kernels of the forward pass.

A product needs two products of equal size (one per operand), and a row sum for its bias. Attention takes 2.5
times its forward pass. An addition costs nothing. Multiplications, selections, copies and gathers move as many bytes
as in the forward pass; other operations also read saved values, and norms read both again for scale and bias. A value
with several readers needs an addition of gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...base.errors import Unsupported
from ..operations import Cost
from .compiled import CompiledKernels, Priced
from .kernels import Kernel

__all__ = ["backward_kernels", "backward_seconds"]

_PASSED = ("add", "subtract")
_LINEAR = ("multiply", "divide", "select", "negate")
_PRODUCTS = {"contract": 2.0, "attention": 2.5}
_FREE = ("iota",)


def backward_kernels(counted: CompiledKernels) -> list[tuple[Kernel, float]]:
    """Returns the kernels of the backward pass; each library call with its time relative to the forward call."""
    if counted.compiler != "eager":
        raise Unsupported("the closed form of backward passes covers eager torch only")
    operations = {op["name"]: op for op in counted.core.operations()}
    found: list[tuple[Kernel, float]] = []
    for kernel in counted.kernels:
        found += _backward_kernels(kernel, operations[kernel.operations[0]])
    return [*found, *_sums(counted.kernels)]


def _backward_kernels(kernel: Kernel, op: Mapping[str, Any]) -> list[tuple[Kernel, float]]:
    kind, function = op["kind"], op["attributes"].get("function", "")
    name = f"{kernel.name} (backward)"
    written, copies = kernel.written, "(copy" in kernel.name
    if kernel.call >= 0:
        if kind not in _PRODUCTS:
            raise Unsupported(f"operation {op['name']} ({kind}): no closed form of its backward pass")
        bias = [(Kernel(f"{name}, bias", "reduction", kernel.operations, 1, written), 0.0)]
        call = (Kernel(name, "library", kernel.operations, 2, call=kernel.call), _PRODUCTS[kind])
        return [call, *(bias if kind == "contract" and len(op["operands"]) > 2 else [])]
    if kind in _FREE or (kind == "elementwise" and function in _PASSED and not copies):
        return []
    moved = kernel.bytes
    if kind == "normalize":
        moved += 3 * written
    elif (
        kind not in ("embedding", "gather", "convert", "copy")
        and function not in _LINEAR
        and "(copy" not in kernel.name
    ):
        moved += written
    return [(replace(kernel, name=name, bytes=moved, passed=()), 0.0)]


def _sums(kernels: Sequence[Kernel]) -> list[tuple[Kernel, float]]:
    """Returns the kernels that add gradients of values with several readers, except of masks and indices."""
    made = {name for kernel in kernels for name in kernel.writes}
    readers: dict[str, list[float]] = {}
    for kernel in kernels:
        whole = dict(zip([name for name in kernel.reads if name in made], kernel.passed, strict=False))
        for name, (amount, _) in whole.items():
            readers.setdefault(name, []).append(amount)
    return [
        (Kernel(f"{name} (sum of gradients)", "pointwise", (name,), len(amounts) - 1, 3 * sum(amounts[1:])), 0.0)
        for name, amounts in readers.items()
        if len(amounts) > 1
    ]


def backward_seconds(counted: CompiledKernels, priced: Priced) -> float:
    """Returns the seconds of the backward pass."""
    calls = {kernel.call: cost for kernel, cost in zip(priced.kernels, priced.costs, strict=True) if kernel.call >= 0}
    total = 0.0
    for kernel, times in backward_kernels(counted):
        total += times * _without_wait(calls[kernel.call]) if kernel.call >= 0 else priced.stream(kernel)
    return total


def _without_wait(cost: Cost) -> float:
    """Returns the seconds of a forward call without its wait for the host."""
    return cost.seconds - cost.terms.get("host", 0.0)
