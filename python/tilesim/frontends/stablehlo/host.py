"""Handles tuples, tokens, and host transfers, which become inputs and outputs of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core import Unsupported
from ..complex import joined
from .collectives import channel_of
from .scope import Complex, Scope, Value, handles, named
from .types import flag, integer


@handles("stablehlo.tuple")
def tuple_value(scope: Scope, op: Any) -> Sequence[Value]:
    """Collects values in a tuple."""
    return [[scope.value(operand) for operand in op.operands]]


@handles("stablehlo.get_tuple_element")
def element(scope: Scope, op: Any) -> Sequence[Value]:
    """Selects one element of a tuple."""
    return [scope.value(op.operands[0])[integer(op, "index")]]


@handles("stablehlo.after_all", "stablehlo.create_token")
def token(scope: Scope, op: Any) -> Sequence[Value]:
    """Returns an empty tuple, because data dependences order a graph."""
    return [[]]


def entry_only(scope: Scope, op: Any) -> None:
    """Raises an error inside functions, loops and branches, because only the graph has host inputs and outputs."""
    if scope.builder is not scope.module.root:
        raise Unsupported(f"'{named(op)}' inside a loop, a branch or a called function")


def received(scope: Scope, op: Any, stem: str) -> list[Value]:
    """Adds graph inputs for received values; returns the inputs and the token."""
    entry_only(scope, op)
    values = [scope.module.formal(scope, mlir.type, scope.module.fresh(stem)) for mlir in list(op.results)[:-1]]
    scope.module.from_host += values
    return [*values, []]


def send_to_host(scope: Scope, op: Any, stem: str) -> list[Value]:
    """Adds outputs to the graph; returns the token."""
    entry_only(scope, op)
    for operand in list(op.operands)[:-1]:
        value = scope.value(operand)
        tensor = joined(scope.builder, value.re, value.im) if isinstance(value, Complex) else value
        scope.module.to_host.append((scope.module.fresh(stem), tensor))
    return [[]]


@handles("stablehlo.infeed")
def infeed(scope: Scope, op: Any) -> Sequence[Value]:
    """Adds inputs "infeed", "infeed.1", .."""
    return received(scope, op, "infeed")


@handles("stablehlo.outfeed")
def outfeed(scope: Scope, op: Any) -> Sequence[Value]:
    """Adds outputs "outfeed", "outfeed.1", .."""
    return send_to_host(scope, op, "outfeed")


@handles("stablehlo.send")
def send(scope: Scope, op: Any) -> Sequence[Value]:
    """Sends to the host: adds an output "send<channel>"."""
    if not flag(op, "is_host_transfer"):
        raise Unsupported("a `send` to another device: use collective_permute, which names the pairs")
    return send_to_host(scope, op, f"send{channel_of(op)}")


@handles("stablehlo.recv")
def recv(scope: Scope, op: Any) -> Sequence[Value]:
    """Receives from the host: adds an input "recv<channel>"."""
    if not flag(op, "is_host_transfer"):
        raise Unsupported("a `recv` from another device: use collective_permute, which names the pairs")
    return received(scope, op, f"recv{channel_of(op)}")
