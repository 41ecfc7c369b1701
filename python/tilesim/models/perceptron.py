"""A multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.errors import user_error
from ..graph import Graph, GraphBuilder
from ._network import network

__all__ = ["mlp"]


@network
def mlp(batch: int = 1, sizes: Sequence[int] = (784, 512, 256, 10), dtype: str = "f32") -> Graph:
    """Linear layers with relu between them.

    Args:
        batch: number of rows.
        sizes: extents of the input, the hidden layers and the output in elements.
        dtype: data type of weights and activations.

    Returns:
        Graph with input x [batch, sizes[0]] and output y [batch, sizes[-1]].

    Raises:
        UserError: for fewer than two sizes, a negative one, or an unknown dtype.
    """
    if len(sizes) < 2:
        raise user_error("an MLP needs an input and an output", value=str(list(sizes)), allowed="at least 2 sizes")
    b = GraphBuilder("mlp", dtype=dtype)
    x = b.input("x", (batch, sizes[0]))
    for i, features in enumerate(sizes[1:]):
        x = b.linear(x, features, name=f"layers.{i}")
        if i < len(sizes) - 2:
            x = b.apply("relu", x, name=f"layers.{i}.relu")
    b.output(x, "y")
    return b.build()
